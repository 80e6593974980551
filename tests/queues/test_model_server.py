"""Models that are forked from a process that has imported what they need."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from processes import ENDLESS, wait_ended, wait_until
from servers import ENDS, Server


def knows(*names):
    """A script that tells which of these modules are there before it imports them."""
    return (
        f"import sys; print(*[one in sys.modules for one in {names!r}])\nimport {', '.join(names)}"
    )


def test_what_the_first_model_imports_is_there_for_the_others(tmp_path):
    with Server(tmp_path, knows("tool", "quick", "own")) as server:
        server.install("tool", "kept = open('/sys/devices/system/cpu/online')")  # as oneDNN on Arm
        (server.packages / "quick.py").touch()
        (tmp_path / "own.py").touch()
        said = [server.train() for _ in range(3)]
    later = (0, "True False False\n")
    assert said == [(0, "False False False\n"), later, later]
    assert server.learnt() == (["tool"], {})
    with Server(tmp_path, knows("tool", "quick", "own")) as server:
        assert server.train() == later


def test_imports_after_a_variable_that_the_script_changes_are_left_to_the_models(tmp_path):
    script = (
        "import sys, os; print(*[one in sys.modules for one in ('tool', 'other')])\n"
        "os.environ['SAME'] = 'same'; import tool; os.environ['API_KEY'] = 'hidden'; import other\n"
        "print(os.environ['TOOL'])"
    )
    with Server(tmp_path, script, SAME="same") as server:
        server.install("tool", "import os; os.environ.update(TOOL='itself')")
        server.install("other")
        assert [server.train()[1] for _ in range(2)] == [
            "False False\nitself\n",
            "True False\nitself\n",
        ]
    assert "hidden" not in server.imports.read_text()
    modules, left = server.learnt()
    assert (modules, list(left)) == (["tool"], ["everything later"])
    assert left["everything later"].startswith("comes after the script changes API_KEY")


# What a module does, and the word in the reason to leave it to the models.
DIFFERS = {
    "threads": "import threading, time\nthreading.Thread(target=time.sleep, args=(600,),"
    " daemon=True).start()",
    "open": "kept = open(__file__)",
    "processes": "import subprocess\nchild = subprocess.Popen(['sleep', '1'])",
    # Stands for a machine with CUDA, which is not needed to see what the server does.
    "CUDA": "import sys, types\nsys.modules['torch.cuda'] = types.SimpleNamespace("
    "is_initialized=lambda: True)",
    "temporary": "import atexit, shutil, tempfile\nfolder = tempfile.mkdtemp()\n"
    "atexit.register(shutil.rmtree, folder)",
    "prints": "print('a banner')",
    "arguments": "import argparse\n"
    "seed = argparse.ArgumentParser(add_help=False).parse_known_args()[0]",
    "process id": "import os\nname = f'run-{os.getpid()}'",
    "draws": "import uuid\nname = uuid.uuid4()",
    "draws random": "import random\nname = random.Random().random()",
    "seed": "import random\nrandom.seed(1)",
    "seed of numpy": "import numpy.random\nnumpy.random.seed(1)",
    "signals": "import signal\nsignal.signal(signal.SIGTERM, lambda *_: None)",
    "directory": "import os\nos.chdir('/')",
    "mask": "import os\nos.umask(0o77)",
}


@pytest.mark.parametrize("what", DIFFERS)
def test_a_module_that_a_fork_would_show_is_left_to_the_models(tmp_path, what):
    script = knows("bad", "good", "needs") + "\nimport os; os.umask(0o22)"
    with Server(tmp_path, script) as server:
        server.install("bad", DIFFERS[what])
        server.install("good")
        server.install("needs", "import bad")
        (status, first), *others = [server.train() for _ in range(3)]
    assert (status, first.splitlines()[0]) == (0, "False False False")
    assert [said.splitlines()[0] for _, said in others] == ["False True False"] * 2
    modules, left = server.learnt()
    assert "good" in modules
    assert set(left) == {"bad", "needs"}
    assert what in left["bad"]
    assert what in left["needs"]


def test_modules_are_imported_in_the_order_of_the_script(tmp_path):
    with Server(tmp_path, "import outer, leaf; print(leaf.variable, leaf.outer)") as server:
        server.install("outer", "import os; os.environ['OUTER'] = 'set'; import leaf; late = 1")
        server.install(
            "leaf",
            "import os, outer\n"
            "variable, outer = os.environ.get('OUTER'), not hasattr(outer, 'late')",
        )
        assert [server.train() for _ in range(3)] == [(0, "set True\n")] * 3
    assert server.learnt() == (["outer"], {})  # and leaf with it


def test_a_variable_may_be_set_by_code_of_no_module(tmp_path):
    script = (
        "import os; exec('os.environ[\"SET\"] = \"here\"', {'os': os}); print(os.environ['SET'])"
    )
    with Server(tmp_path, script) as server:
        assert [server.train() for _ in range(2)] == [(0, "here\n")] * 2


def test_what_a_module_imports_after_it_has_set_a_variable_is_left_with_it(tmp_path):
    with Server(tmp_path, "import early, bad, reads, later; print(reads.variable)") as server:
        server.install("early")
        server.install("bad", "import os; os.environ['BAD'] = 'set'; import reads; print('banner')")
        server.install("reads", "import os; variable = os.environ.get('BAD')")
        server.install("later")
        assert [server.train() for _ in range(3)] == [(0, "banner\nset\n")] * 3
    modules, left = server.learnt()
    assert modules == ["early"]
    assert left == {
        "bad": "prints, sets variables",
        "everything later": "comes after bad sets variables",
    }


def test_a_module_that_refuses_is_left_and_the_rest_is_imported(tmp_path):
    with Server(tmp_path, "import sys; sys.ready = True\n" + knows("shy", "good")) as server:
        server.install("shy", "import sys; sys.ready")
        server.install("good")
        assert [server.train()[1] for _ in range(2)] == ["False False\n", "False True\n"]


def test_a_model_may_end_without_an_end(tmp_path):
    script = f"{knows('tool')}\nimport os; print(flush=True); os._exit(0)"
    with Server(tmp_path, script) as server:
        server.install("tool")
        assert [server.train() for _ in range(2)] == [(0, "False\n\n"), (0, "True\n\n")]


def test_imports_that_crash_are_left_to_the_models(tmp_path):
    script = "import os; os.first = True\n" + knows("crash")
    with Server(tmp_path, script) as server:
        server.install("crash", "import os\nif not hasattr(os, 'first'):\n    os._exit(3)")
        assert [server.train() for _ in range(2)] == [(0, "False\n")] * 2
    assert "ended with status 3" in server.learnt()[1]["crash"]


STATE = """
import atexit, os, sys, warnings
import state, pickle, multiprocessing
class Own: pass
print("variable", os.environ["STATE"])
print("generator", state.generator.random(), state.other.random())
whole = pickle.loads(pickle.dumps(Own())).__class__ is Own
print("main", whole, sys.modules["__mp_main__"].Own is Own)
try:
    warnings.warn("a warning", UserWarning)
    print("filter lost")
except UserWarning:
    print("filter kept")
"""


def test_what_an_import_leaves_behind_is_there_as_in_a_fresh_process(tmp_path):
    with Server(tmp_path, STATE) as server:
        server.install(
            "state",
            "import atexit, os, random, warnings\n"
            "os.environ['STATE'] = 'set'; warnings.simplefilter('error', UserWarning)\n"
            "generator, other = random.Random(), random.Random(3)\n"
            "atexit.register(print, 'handler of the import')",
        )
        said = [server.train() for _ in range(3)]
    assert "state" in server.learnt()[0]  # a busy machine takes long for other imports, too
    fresh = subprocess.check_output([sys.executable, "train.py"], cwd=tmp_path, env=server.env)
    lines = [(said.splitlines()) for said in (*[text for _, text in said], fresh.decode())]
    drawn = [line.pop(1).split() for line in lines]
    assert len({words[1] for words in drawn}) == 4, "drawn anew"
    assert len({words[2] for words in drawn}) == 1, "seeded by the module"
    assert lines == [["variable set", "main True True", "filter kept", "handler of the import"]] * 4


def test_what_a_fork_does_is_no_import_s(tmp_path):
    """numpy has threads of OpenBLAS's, which end before a fork; hooks of packages run then, too."""
    with Server(tmp_path, knows("hooked")) as server:
        server.install(
            "hooked", "import os, numpy\nos.register_at_fork(before=lambda: os.getpid())"
        )
        assert [server.train()[1] for _ in range(2)] == ["False\n", "True\n"]
    assert server.learnt()[1] == {}


DRAWS = """
import random, numpy, torch
print(random.random(), numpy.random.rand(), *torch.rand(2).tolist())
"""


def test_entropy_is_drawn_anew(tmp_path):
    with Server(tmp_path, DRAWS) as server:
        said = [server.train()[1].split() for _ in range(3)]
    for drawn in zip(*said, strict=True):
        assert len(set(drawn)) == 3


ENDINGS = """
import atexit, logging, sys, tempfile, threading, time
held = open("held", "w"); held.write("held")
cycle = [held]; cycle.append(cycle)
folder = tempfile.TemporaryDirectory()
print(folder.name)
atexit.register(print, "atexit")
threading.Thread(target=lambda: (time.sleep(0.3), print("thread"))).start()
logging.basicConfig(filename="logged", level="INFO"); logging.info("logged")
print("last")
"""


def test_a_model_ends_as_a_process_does(tmp_path):
    with Server(tmp_path, ENDINGS) as server:
        for _ in range(2):
            status, said = server.train()
            folder, *words = said.split()
            assert (status, words) == (0, ["last", "thread", "atexit"])
            assert not Path(folder).exists()
            assert (tmp_path / "held").read_text() == "held"
    assert (tmp_path / "logged").read_text().count("logged") == 2


SAVES = """
import atexit, pickle, sys, threading, time
class Result: pass
class Tee:  # it has no attribute `closed`, as many have
    def __init__(self):
        self.terminal, self.log = sys.stdout, open(f"tee-{sys.argv[1]}", "a")
    def write(self, text):
        self.terminal.write(text)
        self.log.write(text)
    def flush(self):
        pass
def save(name):
    with open(f"{name}-{sys.argv[1]}", "wb") as file:
        pickle.dump(Result(), file)
atexit.register(save, "exit")
threading.Thread(target=lambda: (time.sleep(0.3), save("thread"))).start()
sys.stdout = Tee()
print("trained")
"""


def test_what_a_model_saves_at_its_end_is_whole_fresh_and_forked(tmp_path):
    with Server(tmp_path, SAVES) as server:
        assert [server.train(str(number)) for number in range(3)] == [(0, "trained\n")] * 3
    fresh = [sys.executable, "train.py", "fresh"]
    assert subprocess.check_output(fresh, cwd=tmp_path) == b"trained\n"
    for name in ("exit", "thread", "tee"):
        files = {(tmp_path / f"{name}-{model}").read_bytes() for model in (0, 1, 2, "fresh")}
        assert len(files) == 1
        assert files != {b""}


SPAWNS = """
import dataclasses, multiprocessing, sys
@dataclasses.dataclass
class Batch:
    number: int
def load(number):
    return Batch(number)
if __name__ == "__main__":
    print("multiprocessing.pool" in sys.modules)
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(pool.map(load, [1, 2]))
"""


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_processes_that_a_model_starts_share_its_classes(tmp_path, how):
    with Server(tmp_path, f"import slow\n{SPAWNS}") as server:
        server.install("slow", "import multiprocessing.pool")
        said = [server.train(how) for _ in range(2)]
    batches = "[Batch(number=1), Batch(number=2)]\n"
    assert said == [(0, f"{later}\n{batches}") for later in (True, True)]


def test_each_model_may_have_a_folder_of_its_own(tmp_path):
    script = "import os; open('result', 'x').close(); print(open('data').read(), len(os.listdir()))"
    (tmp_path / "folders").mkdir()
    (tmp_path / "data").write_text("here")
    options = ["--fresh-folder", str(tmp_path / "folders")]
    with Server(tmp_path, script, *options) as server:
        (status, first), *others = [server.train() for _ in range(3)]
        assert (status, first.split()[0]) == (0, "here")
        assert {status for status, _ in others} == {0}
    assert not (tmp_path / "result").exists()
    assert [*(tmp_path / "folders").iterdir()] == []


def test_output_that_cannot_be_written_is_a_failure(tmp_path):
    with Server(tmp_path, "print('lost')", PYTHONUNBUFFERED="") as server:
        server.order(log="/dev/full")
        assert server.status() == 120  # as a fresh process


HARM = """
import os, signal, sys
how = sys.argv[1]
if how == "descriptors":
    os.closerange(3, 4096)
elif how == "group":
    os.kill(0, signal.SIGKILL)
elif how == "memory":
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (2**28, 2**28))
    held = bytearray(2**30)
elif how == "raises":
    raise ValueError("loss is nan")
print(how)
"""


def test_a_model_harms_no_other_one(tmp_path):
    with Server(tmp_path, HARM) as server:
        kinds = ("well", "descriptors", "group", "memory", "raises", "well")
        said = [server.train(how) for how in kinds]
    assert [status for status, _ in said] == [0, 0, -signal.SIGKILL, 1, 1, 0]
    assert "MemoryError" in said[3][1]
    # As a fresh process shows it: no frame of the server's.
    assert "model_server" not in said[4][1]
    assert said[4][1].endswith("ValueError: loss is nan\n")
    assert said[5][1] == "well\n"


def test_a_model_does_not_outlive_its_server(tmp_path):
    with Server(tmp_path, ENDLESS) as server:
        log = server.order()
        wait_until(lambda: log.exists() and log.read_text().endswith("\n"), "the model")
        model, child = map(int, log.read_text().split())
        server.process.kill()
        assert server.process.wait(ENDS) == -signal.SIGKILL
    wait_ended(model)
    os.kill(child, signal.SIGKILL)
