"""Models that are forked from a process that has imported what they need."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from processes import wait_ended, wait_until
from scaling_study.member import model_server

ENDS = 60


class Server:
    """A server of forked models, whose user site-packages are a folder of the test."""

    def __init__(self, folder, script, **env):
        self.folder, self.imports = folder, folder / "imports.json"
        self.packages = folder / "lib/python{}.{}/site-packages".format(*sys.version_info)
        self.packages.mkdir(parents=True, exist_ok=True)
        (folder / "train.py").write_text(script)
        self._env = os.environ | {"PYTHONUSERBASE": str(folder), "PYTHONPATH": str(self.packages)}
        self._env |= env
        self._count = 0

    def __enter__(self):
        self.line, theirs = socket.socketpair()
        words = ["--start", "forked", "--answers", "--imports", str(self.imports)]
        self.process = subprocess.Popen(
            [sys.executable, model_server.__file__, *words, "--", "train.py"],
            cwd=self.folder, env=self._env, stdin=theirs, start_new_session=True,
        )  # fmt: skip
        theirs.close()
        self.answers = self.line.makefile("rb")
        return self

    def __exit__(self, *_):
        self.answers.close()
        self.line.close()
        self.process.wait(ENDS)

    def order(self, *arguments, log=None):
        self._count += 1
        log = log or self.folder / f"{self._count}.log"
        order = {"arguments": list(arguments), "log": str(log)}
        self.line.sendall(json.dumps(order).encode() + b"\n")
        return log

    def status(self):
        """Return how the model ended that was ordered."""
        assert int(self.answers.readline())  # its process id
        return int(self.answers.readline().split()[0])

    def train(self, *arguments):
        """Return how a model ended: its status, and what it printed."""
        log = self.order(*arguments)
        return self.status(), log.read_text()

    def learnt(self):
        found = json.loads(self.imports.read_text())
        return found["steps"], found["left"]


def knows(*names):
    """A script that tells which of these modules are there before it imports them."""
    return (
        f"import sys; print(*[one in sys.modules for one in {names!r}])\nimport {', '.join(names)}"
    )


def test_what_the_first_model_imports_is_there_for_the_others(tmp_path):
    with Server(tmp_path, knows("tool", "own")) as server:
        (server.packages / "tool.py").touch()
        (tmp_path / "own.py").touch()
        said = [server.train() for _ in range(3)]
    assert said == [(0, "False False\n"), (0, "True False\n"), (0, "True False\n")]
    assert server.learnt() == ([["import", "tool"]], {})
    with Server(tmp_path, knows("tool", "own")) as server:
        assert server.train() == (0, "True False\n")


def test_a_variable_is_set_where_a_library_reads_it_and_nowhere_else(tmp_path):
    script = (
        "import os, sys; before = os.environ.get('OMP_HOW'); os.environ['OMP_HOW'] = 'well'\n"
        "import tool; os.environ['OMP_HOW'] = 'later'; import other; print(before, tool.how)"
    )
    with Server(tmp_path, script) as server:
        (server.packages / "tool.py").write_text("import os; how = os.environ['OMP_HOW']")
        (server.packages / "other.py").touch()
        assert [server.train()[1] for _ in range(2)] == ["None well\n"] * 2


def test_what_is_imported_after_a_variable_that_may_be_secret_is_left_to_the_models(tmp_path):
    script = (
        "import sys, os; print(*[one in sys.modules for one in ('tool', 'other')])\n"
        "import tool; os.environ['API_KEY'] = 'hidden'; import other"
    )
    with Server(tmp_path, script) as server:
        # What a library sets while it is imported, it sets again.
        (server.packages / "tool.py").write_text("import os; os.environ['TOOL'] = 'itself'")
        (server.packages / "other.py").touch()
        assert [server.train()[1] for _ in range(2)] == ["False False\n", "True False\n"]
    text = server.imports.read_text()
    assert "hidden" not in text
    assert "itself" not in text
    why = "comes after the script sets API_KEY"
    assert server.learnt() == ([["import", "tool"]], {"everything later": why})


KEEPS = {
    "threads": "import threading, time\nthreading.Thread(target=time.sleep, args=(600,),"
    " daemon=True).start()",
    "open": "kept = open(__file__)",
    "processes": "import subprocess\nchild = subprocess.Popen(['sleep', '1'])",
    # Stands for a machine with CUDA, which is not needed to see what the server does.
    "CUDA": "import sys, types\nsys.modules['torch.cuda'] = types.SimpleNamespace("
    "is_initialized=lambda: True)",
}


@pytest.mark.parametrize("what", KEEPS)
def test_a_module_that_a_fork_breaks_is_left_to_the_models(tmp_path, what):
    with Server(tmp_path, knows("bad", "good")) as server:
        (server.packages / "bad.py").write_text(KEEPS[what])
        (server.packages / "good.py").touch()
        said = [server.train()[1] for _ in range(2)]
    assert said == ["False False\n", "False True\n"]
    assert list(server.learnt()[1]) == ["bad"]
    assert what in server.learnt()[1]["bad"]


def test_a_module_that_refuses_is_left_and_the_rest_is_imported(tmp_path):
    with Server(tmp_path, "import sys; sys.ready = True\n" + knows("shy", "good")) as server:
        (server.packages / "shy.py").write_text("import sys; sys.ready")
        (server.packages / "good.py").touch()
        assert [server.train()[1] for _ in range(2)] == ["False False\n", "False True\n"]


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


CHILD = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""


def test_a_model_does_not_outlive_its_server(tmp_path):
    with Server(tmp_path, CHILD) as server:
        log = server.order()
        wait_until(lambda: log.exists() and log.read_text().endswith("\n"), "the model")
        model, child = map(int, log.read_text().split())
        server.process.kill()
        assert server.process.wait(ENDS) == -signal.SIGKILL
    wait_ended(model)
    os.kill(child, signal.SIGKILL)
