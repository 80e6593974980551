"""The supervisor: whatever happens to it, to its command or to its caller, nothing is left."""

import contextlib
import os
import pty
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import processes
from scaling_study.common import private
from scaling_study.queues import bind

# The supervisor, with less patience for orphans than it has in earnest: the tests would only wait
# longer. Its patience with a command that stops when asked costs no time, however long it is.
QUICK = """
import sys
from scaling_study.runner import supervisor
supervisor.STOP_S, supervisor.ORPHANS_S = 120.0, 0.2
sys.exit(supervisor.main(sys.argv[1:]))
"""
# For a command that does not stop: it only has to note the signal meanwhile.
IMPATIENT = QUICK.replace("120.0", "5.0")
# A command that makes its private folder, and tells its pid and the signals that it gets.
COMMAND = """
import os, signal, sys, time
from pathlib import Path
from scaling_study.common import private
folder = Path(sys.argv[1])
def caught(signum, _):
    with (folder / "caught").open("a") as file:
        file.write(f"{signal.Signals(signum).name}\\n")
    if sys.argv[2] != "stubborn":
        sys.exit(7)
for name in ("TERM", "INT", "HUP"):
    signal.signal(getattr(signal, f"SIG{name}"), caught)
private.make(Path(os.environ["SCALING_STUDY_FOLDER"]))
(folder / "private").write_text(os.environ["SCALING_STUDY_FOLDER"] + "\\n")
(folder / "command").write_text(f"{os.getpid()}\\n")
while True:
    time.sleep(600)
"""
# Two forks and a session of its own: nothing but the supervisor's adoption leads to it any more.
ORPHAN = """
import os, signal, sys, time
from pathlib import Path
folder, ends = Path(sys.argv[1]), sys.argv[2:]
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for name in ("TERM", "INT", "HUP"):
            signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_IGN)
        (folder / "orphan").write_text(f"{os.getpid()}\\n")
        time.sleep(600)
    os._exit(0)
while not (folder / "orphan").exists():
    time.sleep(0.005)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory, monkeypatch):
    """Where supervisors make their private folders; after each test there is none."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    left = list(folder.iterdir())
    for one in left:
        private.remove(one)
    assert left == []


@contextlib.contextmanager
def supervising(*command, watched=None, code=QUICK, **kwargs):
    """A supervisor that watches this process, or another, and runs a command."""
    arguments = ["--watch", str(watched or os.getpid()), "--", *map(str, command)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], start_new_session=True, text=True, **kwargs
    )
    with processes.killed_at_the_end(process):
        yield process


def python(code, *args):
    return (sys.executable, "-c", code, *args)


def pids(folder, *names):
    """The pids of the command, of its orphan, once they run."""
    return [int(processes.written(folder / name)) for name in names]


def caught(folder):
    path = folder / "caught"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize(
    ("code", "returned"),
    [("", 0), ("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 128 + 9)],
)
def test_the_return_code_is_passed_on(code, returned):
    done = subprocess.run(
        [sys.executable, "-m", "scaling_study.runner.supervisor", "--watch", str(os.getpid()), "--",
         *python(code)],
        check=False,
    )  # fmt: skip
    assert done.returncode == returned


def test_orphans_that_end_by_themselves_are_given_time(tmp_path):
    code = f"""
import os, sys, time
if os.fork() == 0:
    os.setsid()
    time.sleep(0.1)
    open({str(tmp_path / "done")!r}, "w").write("done")
    os._exit(0)
"""
    patient = QUICK.replace("0.2", "600.0")
    with supervising(*python(code), code=patient) as process:
        assert process.wait(processes.PATIENCE_S) == 0
        assert (tmp_path / "done").read_text() == "done"


def test_when_the_watched_process_is_killed_all_ends(tmp_path):
    watched = subprocess.Popen(python("import time; time.sleep(600)"))
    code = ORPHAN + COMMAND
    with (
        processes.killed_at_the_end(watched),
        supervising(*python(code, tmp_path, ""), watched=watched.pid) as process,
    ):
        started = pids(tmp_path, "command", "orphan")
        watched.kill()
        assert process.wait(processes.PATIENCE_S) == 128 + signal.SIGTERM
        assert caught(tmp_path) == ["SIGTERM"]
        assert all(map(processes.has_ended, started))
    with supervising("sleep", "600", watched=processes.gone()) as process:  # gone already
        assert process.wait(processes.PATIENCE_S) == 128 + signal.SIGTERM


def test_control_c_in_a_terminal_asks_the_command_once(tmp_path):
    """A real terminal sends it to its whole foreground group; the command is not in it."""
    child, terminal = pty.fork()
    if child == 0:
        arguments = ["--watch", str(os.getppid()), "--", *python(COMMAND, str(tmp_path), "")]
        os.execv(sys.executable, [sys.executable, "-c", QUICK, *arguments])  # noqa: S606
    try:
        (command,) = pids(tmp_path, "command")
        processes.wait_until(lambda: processes.state(child) == "S", "the supervisor's sleep")
        os.write(terminal, b"\x03")
        processes.wait_ended(child)
        assert caught(tmp_path) == ["SIGTERM"]
        assert processes.has_ended(command)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGTERM
    finally:
        os.close(terminal)


@pytest.mark.timing
def test_impatience_changes_nothing(tmp_path):
    """Ctrl-C, then Snakemake's SIGTERM, then both again while the command is being ended."""
    code = ORPHAN + COMMAND
    with supervising(
        *python(code, tmp_path, "stubborn"), code=IMPATIENT, stderr=subprocess.PIPE
    ) as process:
        started = pids(tmp_path, "command", "orphan")
        while process.poll() is None:
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signum)
            time.sleep(0.01)
        error = process.stderr.read()
        assert process.returncode == 128 + signal.SIGTERM, error
        assert error == ""
        assert all(map(processes.has_ended, started))
    assert caught(tmp_path) == ["SIGTERM"]


@pytest.mark.parametrize("seed", range(4))
def test_a_signal_may_come_while_the_command_is_being_started(tmp_path, seed):
    """From the moment on at which the supervisor is ready for it."""

    def ready(pid):
        status = Path(f"/proc/{pid}/status").read_text()
        mask = int(status.partition("SigCgt:")[2].split()[0], 16)
        return mask & 1 << (signal.SIGTERM - 1)

    with supervising(*python(COMMAND, tmp_path, ""), stderr=subprocess.PIPE) as process:
        processes.wait_until(lambda: ready(process.pid), "the supervisor's handler")
        time.sleep(random.Random(seed).uniform(0, 0.02))  # noqa: S311 (a moment, no secret)
        process.terminate()
        _, error = process.communicate(timeout=processes.PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM, error
    assert error == ""
    if (tmp_path / "command").exists():
        assert all(map(processes.has_ended, pids(tmp_path, "command")))


def test_what_a_killed_command_has_in_memory_is_removed(tmp_path):
    with supervising(*python(COMMAND, tmp_path, "")) as process:
        (command,) = pids(tmp_path, "command")
        memory = Path(processes.written(tmp_path / "private"), "memory").resolve()
        assert memory.is_dir()
        os.kill(command, signal.SIGKILL)
        process.wait(processes.PATIENCE_S)
        assert not memory.exists()


JOB = """
import subprocess, sys
from pathlib import Path
from scaling_study.runner import job_process
with job_process.prepared("job", Path("log")):
    subprocess.run(sys.argv[1:], check=True)
"""
WAITS = "touch began; until [ -e go ]; do sleep .02; done"
PROGRAMS = {
    "supervisor": ["-m", "scaling_study.runner.supervisor", "--watch", str(os.getpid()), "--"],
    "job": ["-c", JOB],
    "ranks": ["-P", bind.__file__, "--ranks", "1", "--"],
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_signal_that_the_caller_ignores_stays_ignored(tmp_path, program):
    """As with nohup."""
    ignoring = ["/usr/bin/env", "--ignore-signal=HUP,INT,TERM", sys.executable]
    waits = ["env", "--default-signal", "sh", "-c", WAITS]
    command = [*ignoring, *PROGRAMS[program], *waits]
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    with processes.killed_at_the_end(process):
        processes.wait_until((tmp_path / "began").exists, "the command")
        for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            process.send_signal(signum)
        (tmp_path / "go").touch()
        assert process.wait(processes.PATIENCE_S) == 0


def test_a_kernel_without_pidfd_open_is_named_in_one_line(tmp_path):
    code = f"import os\ndel os.pidfd_open\n{QUICK}"
    with supervising("touch", tmp_path / "began", code=code, stderr=subprocess.PIPE) as process:
        _, error = process.communicate(timeout=processes.PATIENCE_S)
    assert process.returncode == 1
    assert error.count("\n") == 1
    assert "use Linux 5.3 or newer" in error
    assert not (tmp_path / "began").exists()
