"""The harness inside a member: real scripts, run by the real worker, timed step by step."""

import contextlib
import functools
import os
import signal
from contextlib import closing

import pytest

from processes import wait_ended, wait_until
from scaling_study.member import channel
from scaling_study.member.member import Member, Options
from small_cohort import SmallCohort

MS = 1_000_000

# ---- the arithmetic of phases, with a clock that only moves when it is told to


class Clock:
    def __init__(self, monkeypatch):
        self.now_ns = 0
        monkeypatch.setattr("scaling_study.member.member._now", lambda: self.now_ns)

    def passes(self, milliseconds):
        self.now_ns += milliseconds * MS


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def cohort(tmp_path):
    """A cohort with this process as its member 0, released."""
    with closing(SmallCohort(tmp_path / "cohort", 4)) as one:
        yield one


@pytest.fixture
def member(cohort, clock):
    one = Member(cohort.folder, 0, Options(), print)
    cohort.members.words(0)[channel.ORDER] = channel.RUN
    one.step_end()  # the fresh one
    return one


def last_step(cohort):
    step = cohort.members.steps(0)[-1]
    return {name: getattr(step, f"{name}_ns") / MS for name in ("load", "backward", "optimizer")}


OPTIMIZER = object()


def optimize(member, clock, *args, before=0, after=0, **kwargs):
    """What torch does around an optimizer's step, which takes a closure or none."""
    changed = member.before_optimizer(OPTIMIZER, ("self", *args), kwargs)
    args, kwargs = changed if changed is not None else (("self", *args), kwargs)
    closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
    clock.passes(before)
    result = closure() if closure else None
    clock.passes(after)
    member.after_optimizer(OPTIMIZER, args, kwargs)
    return result


def test_a_bare_steps_time_goes_to_its_phases(cohort, clock, member):
    member.timed(channel.LOAD_NS, lambda _: clock.passes(5))(None)
    clock.passes(7)  # forward
    member.timed(channel.BACKWARD_NS, lambda: clock.passes(11))()
    clock.passes(1)  # Python
    optimize(member, clock, before=3)
    assert last_step(cohort) == {"load": 5, "backward": 11, "optimizer": 3}
    assert cohort.members.steps(0)[-1].end_ns == 27 * MS


@pytest.mark.parametrize("by_name", [True, False])
def test_a_closures_time_is_not_the_optimizers(cohort, clock, member, by_name):
    def closure():
        clock.passes(7)
        member.timed(channel.BACKWARD_NS, lambda: clock.passes(11))()
        return "loss"

    given = {"closure": closure} if by_name else {}
    args = () if by_name else (closure,)
    assert optimize(member, clock, *args, before=2, after=1, **given) == "loss"
    assert last_step(cohort) == {"load": 0, "backward": 11, "optimizer": 3}


def test_an_optimizer_that_raises_makes_no_step_and_the_next_one_does(cohort, clock, member):
    def closure():
        raise FloatingPointError

    before = cohort.members.words(0)[channel.STEPS]
    with pytest.raises(FloatingPointError):
        optimize(member, clock, closure)
    assert cohort.members.words(0)[channel.STEPS] == before
    optimize(member, clock, before=3)
    assert cohort.members.words(0)[channel.STEPS] == before + 1
    assert last_step(cohort)["optimizer"] == 3


@pytest.mark.parametrize("name", channel.TIMERS)
def test_what_counters_time_counts_in_whatever_phase(cohort, clock, member, name):
    add = member.timer(name)

    def spends(milliseconds):
        clock.passes(milliseconds)
        add(milliseconds * MS)

    spends(2)
    member.timed(channel.BACKWARD_NS, lambda: spends(3))()
    optimize(member, clock, before=1)
    assert last_step(cohort) == {"load": 0, "backward": 3, "optimizer": 1}
    assert cohort.members.steps(0)[-1].ns(name) == sum(cohort.members.steps(0)[-1].timed_ns)
    assert cohort.members.steps(0)[-1].ns(name) == 5 * MS
    optimize(member, clock, before=1)
    assert sum(cohort.members.steps(0)[-1].timed_ns) == 0


@pytest.mark.parametrize("phase", ["load", "backward"])
def test_a_call_inside_a_call_of_the_same_kind_counts_once(cohort, clock, member, phase):
    """A data set that reads another loader; a checkpoint that computes backward in backward."""
    wrap = functools.partial(member.timed, getattr(channel, f"{phase.upper()}_NS"))
    inner = wrap(lambda _: clock.passes(4))

    def outer(_):
        clock.passes(1)
        inner(None)
        inner(None)

    wrap(outer)(None)
    inner(None)
    optimize(member, clock)
    assert last_step(cohort)[phase] == 9 + 4


def test_samples_are_counted_from_release_to_rest_and_end_no_step(cohort, clock, member):
    words = cohort.members.words(0)
    before = words[channel.STEPS]
    for samples in (64, 32):
        member.mark(samples)
        optimize(member, clock)
    assert (words[channel.SAMPLES], words[channel.STEPS]) == (96, before + 2)
    member._go_on()
    assert words[channel.SAMPLES] == 0


# ---- running a script, without torch: the script marks its steps


@pytest.fixture
def plain(cohort, tmp_path):
    """A function that starts a script as member 0, and waits until it rests.

    What it returns says how the member has ended, as its launcher does.
    """

    def start(code, *args, rests=True):
        script = tmp_path / "script 0.py"
        script.write_text("from scaling_study import mark\n" + code)
        pid = cohort.start(how, 0, script, *args)
        if rests:
            cohort.wait_resting([0])
        return lambda: how.exit_reason(pid)

    how = cohort.launcher(step="mark")
    return start


@pytest.mark.parametrize("end", ["", "import sys; sys.exit()", "raise SystemExit(0)"])
def test_a_script_that_ends_well_is_started_again(cohort, plain, end):
    plain(f"for _ in range(3):\n    mark()\n{end}")
    steps = [step for _, step in cohort.train(0, 10)]
    # One step was made before the release. Then two more of the first run.
    assert [step.fresh for step in steps[:9]] == [0, 0, 1, 0, 0, 1, 0, 0, 1]
    # When it was closed it may just have ended once more.
    restarts = cohort.members.words(0)[channel.RESTARTS]
    assert restarts - sum(step.fresh for step in steps) in {0, 1}


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('no data')", 1, "no data\n"),
        ("raise ValueError('a mistake')", 1, "ValueError: a mistake\n"),
        ("import os; os._exit(5)", 5, ""),
    ],
)
def test_a_script_that_ends_badly_ends_its_member(cohort, plain, end, status, said):
    how_it_ended = plain(f"for _ in range(3):\n    mark()\n{end}")
    assert cohort.run_out(0).endswith(said)
    assert how_it_ended() == f"ended with status {status}"


@pytest.mark.parametrize("code", ["", "import sys; sys.exit(0)", "if 0: mark()"])
def test_a_script_without_a_step_says_what_a_step_is(cohort, plain, code):
    plain(code, rests=False)
    text = cohort.wait_ended(0)
    assert (
        "script 0.py ended without a step: a step ends with optimizer.step() or, with"
        " 'step: mark' in the config, with scaling_study.mark()"
    ) in text


def test_a_script_that_ends_outside_a_window_waits_for_the_next(cohort, plain, tmp_path):
    """It was inside its last step when the window was closed, and never makes another one."""
    code = f"""
import time
from pathlib import Path
with open({str(tmp_path / "starts")!r}, "a") as file:
    file.write("start\\n")
mark()
mark()
while not Path({str(tmp_path / "go on")!r}).exists():
    time.sleep(0.005)
"""
    plain(code)
    cohort.members.order([0], channel.RUN)
    words = cohort.members.words(0)
    wait_until(lambda: words[channel.RELEASED_NS] and words[channel.STEPS], "the second step")
    cohort.members.tell([0], channel.CLOSED)
    (tmp_path / "go on").touch()
    cohort.wait_resting([0])
    assert (tmp_path / "starts").read_text() == "start\n"
    assert cohort.members.words(0)[channel.RESTARTS] == 1
    cohort.train(0)
    assert (tmp_path / "starts").read_text().count("start") > 1


def test_every_run_has_its_arguments_and_forgets_the_one_before(cohort, plain):
    """Whatever a script does to its arguments and to its globals."""
    code = """
import gc, sys
class Big:
    pass
others = sum(type(one).__name__ == "Big" for one in gc.get_objects())
big = Big()
def keeps():
    return big
print([__name__, sys.argv[1:], others, "seen" in globals()], flush=True)
seen = sys.argv.pop()
mark()
"""
    plain(code, "--rate", "0.1")
    cohort.train(0, 3)
    lines = cohort.log(0).splitlines()
    assert len(lines) >= 4
    assert set(lines) == {"['__main__', ['--rate', '0.1'], 0, False]"}


# Each start writes a file, whose name is told, in its exit handler and in a thread that ends late.
ENDS = """
import atexit, os, pickle, subprocess, sys, threading, time
class Result:
    pass
class Tee:
    def write(self, text):
        sys.__stdout__.write(text)
    def flush(self):
        sys.__stdout__.flush()
name = f"{sys.argv[1]}/{time.monotonic_ns()}"
def save(kind):
    with open(f"{name}-{kind}", "wb") as file:
        pickle.dump(Result(), file)
def late():
    time.sleep(0.05)
    save("thread")
helper = subprocess.Popen(["sleep", "600"])
atexit.register(helper.wait)
atexit.register(helper.kill)
atexit.register(save, "exit")
atexit.register(save, "never")
atexit.unregister(save)
atexit.register(lambda: save("exit"))
threading.Thread(target=late).start()
sys.stdout = Tee()
print("start", helper.pid, flush=True)
for _ in range(3):
    mark()
"""


def test_each_start_ends_as_python_ends_it(cohort, plain, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    plain(ENDS, results)
    cohort.train(0, 20)
    assert cohort.members.words(0)[channel.RESTARTS] >= 5
    lines = cohort.log(0).splitlines()
    *ended, running = [int(line.split()[1]) for line in lines]
    for pid in ended:
        wait_ended(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(running, signal.SIGKILL)
    names = sorted(path.name for path in results.iterdir())
    for kind in ("exit", "thread"):
        assert len([name for name in names if name.endswith(kind)]) >= len(ended), names
    assert not [name for name in names if name.endswith("never")]
    assert all(path.read_bytes().endswith(b".") for path in results.iterdir())  # whole pickles


LEFT = """
import atexit, os, sys, subprocess, threading, time
from concurrent.futures import ThreadPoolExecutor
def beats():
    while True:
        time.sleep(0.01)
if sys.argv[1] == "pool":
    pool = ThreadPoolExecutor(1)
    pool.submit(os.getpid).result()
elif sys.argv[1] == "daemon":
    threading.Thread(target=beats, daemon=True).start()
else:
    subprocess.Popen(["sleep", "600"])
print(threading.active_count(), os.getpid(), flush=True)
atexit.register(print, "handler", flush=True)
for _ in range(3):
    mark()
"""


@pytest.mark.parametrize(("left", "threads"), [("pool", 2), ("daemon", 2), ("child", 1)])
def test_what_only_the_end_of_python_ends_gets_a_fresh_process_in_the_same_place(
    cohort, plain, left, threads
):
    plain(LEFT, left)
    pid = cohort.members.pids[0]
    cohort.train(0, 10)
    assert cohort.members.words(0)[channel.RESTARTS] >= 3
    assert cohort.log(0).splitlines()[:4] == [f"{threads} {pid}", "handler"] * 2


@pytest.mark.parametrize("exits", ["os._exit(0)", "sys.exit(0)", "from os import _exit; _exit(0)"])
def test_a_script_that_exits_with_status_0_has_ended_well(cohort, plain, exits):
    plain(f"import os, sys\nfor _ in range(3):\n    mark()\n{exits}\nmark(1 / 0)")
    pid = cohort.members.pids[0]
    assert len(cohort.train(0, 10)) >= 10
    assert cohort.members.words(0)[channel.RESTARTS] >= 3
    assert cohort.members.pids == {0: pid}


def test_a_child_that_exits_ends_as_python_ends_it(cohort, plain, tmp_path):
    code = f"""
import atexit, os
pid = os.fork()
if pid == 0:
    atexit.register(open({str(tmp_path / "child")!r}, "w").close)
    raise SystemExit(7)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print("child", status, flush=True)
while True:
    mark()
"""
    plain(code)
    assert cohort.log(0).splitlines()[0] == "child 7"
    assert (tmp_path / "child").exists()


def test_a_traceback_shows_the_frames_of_the_script_only(cohort, plain):
    plain("def fails():\n    raise ValueError('loss is nan')\nmark()\nfails()")
    said = cohort.run_out(0)
    assert [line for line in said.splitlines() if line.startswith("  File")] == [
        f'  File "{cohort.folder.parent}/script 0.py", line 5, in <module>',
        f'  File "{cohort.folder.parent}/script 0.py", line 3, in fails',
    ]


SKIPS = """
import os
if os.path.exists("result"):
    raise SystemExit
for _ in range(5):
    mark()
open("result", "w").write(open("data").read())
"""


def test_a_script_that_skips_what_it_has_trained_is_told_apart(cohort, plain):
    plain("from pathlib import Path\nimport os\nos.chdir(os.path.dirname(__file__))\n"
          "Path('data').touch()\n" + SKIPS)  # fmt: skip
    said = cohort.run_out(0)
    assert "script 0.py made 5 steps when it was started before, and none now" in said
    assert "Set workload.fresh_folder to true" in said


@pytest.mark.parametrize("exits", ["", "os._exit(0)"])
def test_with_a_fresh_folder_each_start_finds_the_data_and_no_result(cohort, tmp_path, exits):
    (tmp_path / "data").write_text("here")
    (tmp_path / "train.py").write_text(f"from scaling_study import mark\n{SKIPS}\n{exits}")
    how = cohort.launcher(step="mark", fresh_folder=True, cwd=str(tmp_path))
    cohort.start(how, 0, "train.py")
    cohort.wait_resting([0])
    cohort.train(0, 20)
    assert cohort.members.words(0)[channel.RESTARTS] >= 3
    assert not (tmp_path / "result").exists()
    if not exits:  # an exit that leaves no time
        assert len([*cohort.folder.glob("start-*")]) <= 1, "folders of starts that have ended"
