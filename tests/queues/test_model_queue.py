"""The queue of models, as `recommended.sh --queue` runs it."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

from launch_scripts import BASH, launched, run, slot
from processes import ENDLESS, PATIENCE_S, wait_ended, wait_until
from scaling_study.queues import model_queue
from servers import user_packages

TELL = """
import os, sys, time
print(sys.argv[1:], sorted(os.sched_getaffinity(0)), os.environ.get("SPICY"), flush=True)
if "fail" in sys.argv:
    sys.exit(7)
if "once" in sys.argv and not os.path.exists("second time"):
    open("second time", "w").close()
    sys.exit(3)
with open("order", "a") as file:
    print(sys.argv[1], file=file)
"""


@pytest.fixture
def launch(tmp_path):
    script = tmp_path / "träin it's.py"
    script.write_text(TELL)
    cpu = str(min(os.sched_getaffinity(0)))
    env = {"SPICY": "a b'c\"$HOME`id`"}
    return launched(tmp_path, script, [slot(0, cpu)], ["--unused"], env=env)


def queue(path, models, *options, **expected):
    """Train a list of models to its end."""
    (path.parent / "models.txt").write_text(models, encoding="utf-8")
    return run(path, "--queue", *options, "models.txt", **expected)


def start(path, *options, before=(), **pipes):
    """Start a queue of the list that is there."""
    command = [*before, BASH, path, "--queue", *options, "models.txt"]
    return subprocess.Popen(command, cwd=path.parent, text=True, **pipes)


def change(path, constant, value):
    """Have a launch script's queue run with another value of a constant."""
    changed = path.parent / "changed_queue.py"
    changed.write_text(
        "import sys\nfrom scaling_study.queues import model_queue\n"
        f"model_queue.{constant} = {value}\nsys.exit(model_queue.main(sys.argv[1:]))\n"
    )
    path.write_text(path.read_text().replace(model_queue.__file__, str(changed)))


def log(folder, number):
    return folder / f"models.txt.logs/model-{number:05}.log"


def wait_logged(folder, numbers, words=1):
    """Wait until the logs of models have so many words each, and return all of them."""
    files = [log(folder, number) for number in numbers]

    def logged():
        found = [word for file in files if file.exists() for word in file.read_text().split()]
        return len(found) == words * len(files) and found

    return wait_until(logged, f"models {numbers}")


def journal(folder, share=""):
    """Lines on models that ended, of a queue."""
    lines = (folder / f"models.txt.logs/queue{share}.jsonl").read_text().splitlines()
    return list(map(json.loads, lines))


def ended(folder, share=""):
    return [(line["model"], line["status"]) for line in journal(folder, share)]


def order(folder):
    return (folder / "order").read_text().split()


@pytest.mark.parametrize("options", [["--fresh"], ["--forked"]])
def test_each_line_is_one_model_with_the_launchs_cpus_and_environment(tmp_path, launch, options):
    done = queue(launch, "# the first ones\n1 --name 'a b' '#x'\n\n  2 \"\"\n", *options)
    cpu = min(os.sched_getaffinity(0))
    said = log(tmp_path, 1).read_text()
    assert said.startswith(f"['1', '--name', 'a b', '#x'] [{cpu}] a b'c\"$HOME`id`")
    assert log(tmp_path, 2).read_text().startswith("['2', '']")
    assert order(tmp_path) == ["1", "2"]
    assert "models/hour: 2 trained in " in done.stdout.splitlines()[-1]
    assert done.stdout.splitlines()[-1].endswith("1 at once")


def test_the_same_command_goes_on_and_a_failed_model_is_trained_again(tmp_path, launch):
    models = "1\n2 once\n3 fail\n4\n"
    first = queue(launch, models, status=1)
    assert "model 2 failed with status 3; see " in first.stderr
    assert "failed: models 2, 3" in first.stderr
    assert order(tmp_path) == ["1", "4"]
    with (tmp_path / "models.txt.logs/queue.jsonl").open("a") as file:
        file.write('{"model": 4, "argu')  # cut off by a crash
    second = queue(launch, models, status=1)
    assert "failed: models 3" in second.stderr
    assert order(tmp_path) == ["1", "4", "2"]
    assert "1 trained in" in second.stdout
    assert "2 trained before" in second.stdout
    assert ended(tmp_path) == [(1, 0), (2, 3), (3, 7), (4, 0), (2, 0), (3, 7)]


def test_a_queue_goes_on_if_nobody_reads_what_it_prints(tmp_path, launch):
    (tmp_path / "models.txt").write_text("1 fail\n2\n")
    with start(launch, stderr=subprocess.PIPE) as process:
        process.stderr.close()
    assert process.returncode == 1
    assert ended(tmp_path) == [(1, 7), (2, 0)]


def test_a_list_may_grow_and_not_change_where_it_was_trained(tmp_path, launch):
    queue(launch, "1\n2\n")
    queue(launch, "1\n2\n# more\n3\n")
    assert order(tmp_path) == ["1", "2", "3"]
    changed = queue(launch, "1\n2.5\n3\n", status=2)
    assert "model 2 was trained as: 2; in the list it is now: 2.5" in changed.stderr
    shorter = queue(launch, "1\n2\n", status=2)
    assert "model 3 was trained as: 3; in the list it is now: missing" in shorter.stderr
    assert order(tmp_path) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("models", "options", "words"),
    [
        ("1\n'2\n", [], "line 2: No closing quotation"),
        ("# 1\n", [], "no model"),
        ("1\n", ["--limit", "0"], "--limit"),
        ("1\n", ["--share", "a/b"], "--share"),
        ("1\n", ["--slow"], "--slow"),
    ],
)
def test_a_list_or_an_option_that_cannot_be_read_starts_nothing(
    tmp_path, launch, models, options, words
):
    assert words in queue(launch, models, *options, status=2).stderr
    assert not (tmp_path / "order").exists()


def endless(folder, models, numbers, *options):
    """Start a queue; return it, and the ids of these models' processes and of their children."""
    text = f"import sys\nif sys.argv[1] == 'short': sys.exit()\n{ENDLESS}"
    path = launched(folder, text, slots=2)
    (folder / "models.txt").write_text(models)
    interruptible = ["/usr/bin/env", "--default-signal=INT"]
    process = start(path, *options, before=interruptible, stdout=subprocess.PIPE)
    return process, list(map(int, wait_logged(folder, numbers, words=2)))


@pytest.mark.parametrize(("sent", "options"), [(signal.SIGINT, []), (signal.SIGTERM, ["--forked"])])
def test_an_interrupt_leaves_no_process_and_interrupted_models_start_anew(tmp_path, sent, options):
    models = "short\nlong 1\nlong 2\nlong 3\n"
    process, pids = endless(tmp_path, models, (2, 3), *options)
    wait_until(lambda: ended(tmp_path), "the first end")
    process.send_signal(sent)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + sent
    for pid in pids:
        wait_ended(pid)
    assert "1 trained in" in said.splitlines()[-1]
    assert ended(tmp_path) == [(1, 0)]
    process, pids = endless(tmp_path, models, (2, 3), *options)
    process.terminate()
    process.communicate(timeout=60)
    for pid in pids:
        wait_ended(pid)


@pytest.mark.parametrize("options", [[], ["--forked"]])
def test_models_do_not_outlive_a_killed_queue(tmp_path, options):
    process, pids = endless(tmp_path, "long 1\nlong 2\n", (1, 2), *options)
    process.kill()
    process.communicate(timeout=60)
    for pid in pids[::2]:
        wait_ended(pid)
    for child in pids[1::2]:
        os.kill(child, signal.SIGKILL)


INTERRUPTED = """
import os, signal, sys, time
if "exits" in sys.argv:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
elif "raises" in sys.argv:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
elif "saves" in sys.argv:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("began", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
"""


@pytest.mark.parametrize("option", ["--fresh", "--forked"])
@pytest.mark.parametrize("first", ["models", "queue"])
def test_a_model_that_is_interrupted_with_its_queue_has_not_failed(tmp_path, option, first):
    """SIGTERM reaches all processes, in any order."""
    path = launched(tmp_path, INTERRUPTED, slots=4)
    models = "ends\nexits\nraises\nsaves\nlater\n"
    (tmp_path / "models.txt").write_text(models)
    text = path.read_text()
    change(path, "SETTLE_S", 120.0)
    with start(path, option) as process:
        wait_logged(tmp_path, (1, 2, 3, 4))
        others = psutil.Process(process.pid).children(recursive=True)
        if first == "queue":
            process.terminate()
        for other in others:
            with contextlib.suppress(psutil.NoSuchProcess):
                other.terminate()
        if first == "models":
            wait_logged(tmp_path, (5,))  # so the queue has noticed an end
            process.terminate()
    assert process.returncode == 128 + signal.SIGTERM
    assert ended(tmp_path) == []
    path.write_text(text)
    (tmp_path / "go").touch()
    another = first == "models"
    queue(path, models, *["--share", "b"] * another)
    assert sorted(ended(tmp_path, "-b" * another)) == [(number, 0) for number in range(1, 6)]


SHARED = """
import os, sys, time
with open("began", "a") as file:
    print(sys.argv[1], file=file)
while sys.argv[1] in "16" and not os.path.exists("go"):
    time.sleep(0.02)
sys.exit(sys.argv[1] == "4")
"""


def test_queues_share_a_list(tmp_path):
    """Each model is trained once; a queue that runs out of models takes those of a dead one."""
    path = launched(tmp_path, SHARED)
    models = "".join(f"{number}\n" for number in range(1, 7))
    (tmp_path / "models.txt").write_text(models)

    def wait_began(*numbers):
        file = tmp_path / "began"
        wait_until(
            lambda: file.exists() and file.read_text().split() == [*map(str, numbers)],
            f"models {numbers}",
        )

    first = start(path, "--share", "a", stdout=subprocess.PIPE)
    wait_began(1)
    second = start(path, "--share", "b", stdout=subprocess.PIPE)
    wait_began(*range(1, 7))
    same = queue(path, models, "--share", "a", status=2)
    assert "another queue's, which runs" in same.stderr
    first.kill()
    first.communicate()
    (tmp_path / "go").touch()
    said, _ = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "5 trained in" in said
    assert ended(tmp_path, "-b") == [(n, int(n == 4)) for n in (2, 3, 4, 5, 6, 1)]
    third = queue(path, models, "--share", "c.1", status=1)
    assert "5 trained before" in third.stdout
    assert ended(tmp_path, "-c.1") == [(4, 1)], "a new queue trains failed models again"
    assert (tmp_path / "models.txt.logs/claims/4").resolve().name == "queue-c.1.jsonl"


def test_a_signal_that_the_caller_ignores_stays_ignored(tmp_path):
    """As with nohup."""
    (tmp_path / "models.txt").write_text("1\n2\n")
    path = launched(tmp_path, SHARED)
    with start(path, before=["/usr/bin/env", "--ignore-signal=HUP,INT,TERM"]) as process:
        wait_until((tmp_path / "began").exists, "the first model")
        for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            process.send_signal(signum)
        (tmp_path / "go").touch()
    assert process.returncode == 0
    assert ended(tmp_path) == [(1, 0), (2, 0)]


def test_shares_may_start_at_any_moment(tmp_path):
    """Eight that start together on the list of eight that were killed."""
    path = launched(tmp_path, SHARED)
    trained = [str(number) for number in range(1000, 5000)]
    models = [str(number) for number in range(100, 116)]
    (tmp_path / "models.txt").write_text("\n".join([*trained, "1", "6", *models]))
    (tmp_path / "models.txt.logs").mkdir()
    for share in range(8):  # long ones, which take time to read
        lines = [
            {"model": number, "arguments": text, "status": 0}
            for number, text in enumerate(trained, start=1)
            if number % 8 == share
        ]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (tmp_path / f"models.txt.logs/queue-{share}.jsonl").write_text(text)
    began = tmp_path / "began"

    def shares(number):
        return start(path, "--share", str(number), stderr=subprocess.PIPE)

    for _ in range(3):
        killed = [shares(number) for number in (0, 1)]
        wait_until(lambda: began.exists() and len(began.read_text().split()) == 2, "both to train")
        for process in killed:
            process.kill()
            process.communicate()
        began.unlink()
    (tmp_path / "go").touch()
    processes = [shares(number) for number in range(8)]
    errors = [process.communicate(timeout=PATIENCE_S)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, errors
    assert sorted(began.read_text().split()) == ["1", *models, "6"]


WRITES = """
import sys, time
with open(f"result-{sys.argv[1]}", "w") as file:
    for _ in range(10):
        print("-" * 999, file=file, flush=True)
        time.sleep(0.01)
"""


def test_shares_that_are_killed_lose_and_truncate_nothing(tmp_path):
    """One of three is killed every few seconds, and starts again at once."""
    path = launched(tmp_path, WRITES, slots=2)
    count = 2000
    (tmp_path / "models.txt").write_text("\n".join(map(str, range(1, count + 1))))

    def shares(name):
        return start(path, "--forked", "--share", name)

    running = {name: shares(name) for name in "abc"}
    for name in itertools.cycle("abc"):
        process = running[name]
        with contextlib.suppress(subprocess.TimeoutExpired):
            if process.wait(3) == 0:  # it has found no model
                if all(one.poll() == 0 for one in running.values()):
                    break
                continue
        process.kill()
        assert process.wait() == -signal.SIGKILL
        running[name] = shares(name)
    lines = [line for name in "abc" for line in ended(tmp_path, f"-{name}")]
    assert sorted(lines) == [(number, 0) for number in range(1, count + 1)]
    sizes = {one.name: one.stat().st_size for one in tmp_path.glob("result-*")}
    assert sizes == {f"result-{number}": 10_000 for number in range(1, count + 1)}


def test_a_claim_without_its_journal_keeps_no_model(tmp_path, launch):
    queue(launch, "1\n2\n", "--share", "a")
    (tmp_path / "models.txt.logs/queue-a.jsonl").unlink()
    (tmp_path / "models.txt.logs/claims/2").unlink()
    done = queue(launch, "1\n2\n", "--share", "b")
    assert "2 trained in" in done.stdout
    assert order(tmp_path) == ["1", "2", "1", "2"]


def test_a_model_that_nobody_has_claimed_is_taken_over(tmp_path):
    """A queue may be killed after it has released a model, before it claims it."""
    path = launched(tmp_path, SHARED)
    (tmp_path / "models.txt").write_text("1\n6\n")
    claims = [tmp_path / f"models.txt.logs/claims/{number}" for number in (1, 2)]
    running = []
    for name, claim in zip("ab", claims, strict=True):
        running.append(start(path, "--share", name))
        wait_until(claim.is_symlink, f"share {name}")
    running[0].kill()
    running[0].wait()
    claims[0].unlink()
    (tmp_path / "go").touch()
    assert running[1].wait(PATIENCE_S) == 0
    assert ended(tmp_path, "-b") == [(2, 0), (1, 0)]


MISSING = {
    "flock": "import fcntl\ndef missing(*_): raise OSError(38, 'missing')\nfcntl.flock = missing",
    "pidfd_open": "import os\ndel os.pidfd_open",
    "Linux 5.3": "import os\ndef missing(*_): raise OSError(38, 'x')\nos.pidfd_open = missing",
}


@pytest.mark.parametrize("missing", MISSING)
def test_what_the_system_lacks_is_said_before_anything_starts(tmp_path, missing):
    (tmp_path / "sitecustomize.py").write_text(MISSING[missing])
    path = launched(tmp_path, TELL)
    done = queue(path, "1\n", status=2, PYTHONPATH=str(tmp_path))
    assert missing in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.glob("**/*.log"))


@pytest.mark.parametrize("words", [["0"], ["all"], ["1", "true"], ["x[$(touch it)]", "true"]])
def test_a_slot_that_is_not_there_runs_nothing(tmp_path, launch, words):
    done = run(launch, "--slot", *words, status=2)
    assert "--slot needs a number below 1, or all, and a command" in done.stderr
    assert not (tmp_path / "it").exists()


def test_a_command_runs_in_a_slot(tmp_path, launch):
    code = "import os; print(sorted(os.sched_getaffinity(0)), os.environ['SPICY'], end='')"
    cpu = min(os.sched_getaffinity(0))
    assert run(launch, "--slot", "0", sys.executable, "-c", code).stdout == (
        f"[{cpu}] a b'c\"$HOME`id`"
    )
    code = "import os; print(os.environ['SLOT_CPUS'])"
    assert run(launch, "--slot", "all", sys.executable, "-c", code).stdout == f"{cpu}\n"


def test_a_slot_takes_the_next_model_while_others_train(tmp_path):
    path = launched(
        tmp_path,
        "import os, sys, time\n"
        "open(sys.argv[1], 'w').close()\n"
        "while not os.path.exists(sys.argv[2]): time.sleep(0.02)\n",
        slots=2,
    )
    # The first one waits for the third, which can only start in the second's slot.
    done = queue(path, "1 3\n2 1\n3 1\n")
    assert "3 trained" in done.stdout
    assert "2 at once" in done.stdout


LEAVES = """
import subprocess, sys
print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
sys.exit(1)
"""


@pytest.mark.parametrize("option", ["--fresh", "--forked"])
def test_what_a_failed_model_leaves_is_ended(tmp_path, option):
    queue(launched(tmp_path, LEAVES), "1\n", option, status=1)
    wait_ended(int(log(tmp_path, 1).read_text()))


HOW = """
import atexit, os, signal, sys
print(os.getpid(), os.getcwd(), sys.path[0], __name__, repr(sys.stdin.read()), flush=True)
end = f"{os.getcwd()}/end of {os.getpid()}"
atexit.register(lambda: open(end, "w").close())
os.chdir("/")
how = sys.argv[1]
if how == "forks":
    if os.fork() == 0:
        sys.exit(3)
elif how == "says":
    sys.exit("said")
elif how == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
elif how != "well":
    sys.exit(int(how))
"""


def served(tmp_path, *how, status=0):
    """Fork models in one slot; return what the queue said, and which process trained each."""
    done = queue(launched(tmp_path, HOW), "\n".join(how), "--forked", status=status)
    told = [log(tmp_path, number).read_text().split()[:5] for number in range(1, len(how) + 1)]
    for _, folder, first, name, read in told:
        assert (folder, first) == (str(tmp_path), str(tmp_path))
        assert (name, read) == ("__main__", "''")
    return done, [pid for pid, *_ in told], [status for _, status in ended(tmp_path)]


def test_a_server_forks_one_model_after_the_other(tmp_path):
    done, pids, status = served(tmp_path, "well", "0", "forks", "well")
    assert len(set(pids)) == 4
    assert all((tmp_path / f"end of {pid}").exists() for pid in pids)
    assert status == [0, 0, 0, 0]
    assert done.stderr == ""


def test_a_forked_model_that_fails_is_named_and_does_not_stop_the_others(tmp_path):
    how = "well", "7", "says", "dies", "well", "well"
    done, pids, status = served(tmp_path, *how, status=1)
    assert status == [0, 7, 1, -signal.SIGKILL, 0, 0]
    assert "model 2 failed with status 7" in done.stderr
    assert "model 4 was killed by SIGKILL" in done.stderr
    assert log(tmp_path, 3).read_text().endswith("said\n")
    assert len(set(pids)) == 6


LATE = """
import os, signal, sys, time
if "hangs" in sys.argv and not os.path.exists("hung"):
    open("hung", "w").close()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
"""


@pytest.mark.parametrize("option", ["--fresh", "--forked"])
def test_a_model_that_takes_too_long_is_ended_and_may_start_again(tmp_path, option):
    path = launched(tmp_path, LATE)
    done = queue(path, "hangs\nwell", option, "--limit", "6", "--retries", "1")
    assert "model 1 took more than 6 s; it starts again after the others" in done.stderr
    lines = journal(tmp_path)
    assert [line["status"] == 0 for line in lines if line["model"] == 1] == [False, True]
    # On a busy machine the other one may take too long at first as well.
    assert [line["status"] == 0 for line in lines if line["model"] == 2][-1]
    assert all(line["began"] <= line["ended"] for line in lines)
    assert all(line["peak_memory_mib"] > 5 for line in lines[1:])


SLOW = """
import os, time
time.sleep(float(os.environ.get("IMPORT_S", "0")))
"""


@pytest.fixture
def slow_import(tmp_path):
    """The launch script of models that import an installed module, which takes its time."""
    packages, env = user_packages(tmp_path)
    (packages / "slow.py").write_text(SLOW)
    return lambda import_s: launched(tmp_path, "import slow", env=env | {"IMPORT_S": str(import_s)})


def test_imports_of_a_server_do_not_count_for_the_limit(tmp_path, slow_import):
    queue(slow_import(1), "1\n", "--forked")  # notes what it imports
    queue(slow_import(6), "1\n2\n3\n", "--forked", "--limit", "4")
    assert [line["seconds"] < 4 for line in journal(tmp_path)] == [True] * 3


def test_a_server_that_hangs_while_it_imports_fails_its_model(tmp_path, slow_import):
    queue(slow_import(1), "1\n", "--forked")
    path = slow_import(600)
    change(path, "IMPORTS_S", 2.0)
    done = queue(path, "1\n2\n", "--forked", "--limit", "4", status=1)
    assert "model 2 did not begin within 2 s: what it imports hangs" in done.stderr


DEADLY = """
import os, signal, sys
if "kills" in sys.argv and not os.path.exists("killed"):
    open("killed", "w").close()
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()
"""


def test_a_server_that_dies_is_started_again(tmp_path):
    path = launched(tmp_path, DEADLY)
    done = queue(path, "well\nkills\nwell\n", "--forked", "--retries", "1")
    assert "model 2 was killed by SIGKILL; it starts again after the others" in done.stderr
    assert "3 trained in" in done.stdout


def test_queue_and_server_do_not_grow_with_the_models(tmp_path):
    path = launched(tmp_path, "import json, sys; print(sys.argv)")
    (tmp_path / "models.txt").write_text("".join(f"{number}\n" for number in range(10_000)))
    lines = tmp_path / "models.txt.logs/queue.jsonl"

    def rss_kib():
        """Memory of the queue, which the command becomes, and of its server."""
        queue = psutil.Process(process.pid)
        return [one.memory_info().rss / 1024 for one in (queue, *queue.children())]

    def trained(count):
        return lines.exists() and lines.read_bytes().count(b"\n") >= count

    with start(path, "--forked") as process:
        wait_until(lambda: trained(1000), "1,000 models", 600)
        before = rss_kib()
        wait_until(lambda: trained(9900), "9,900 models", 600)
        after = rss_kib()
    assert process.returncode == 0
    assert len(before) == len(after) == 2
    assert all(late - early < 512 for early, late in zip(before, after, strict=True))
