"""Train models one after the other, and import once what they need.

``python model_server.py --start reused [OPTIONS] -- SCRIPT`` or ``… -- -m MODULE``

Each line of standard input is a model: a JSON object with its ``arguments``, the file for its
output, ``log``, and a file for standard error if that is to be apart, ``errors``. The answer to
each, on descriptor ``--answers``, is its exit status, below 0 the signal that killed it, and its
peak memory in KiB. Without that descriptor a model that fails ends the server.

reused
    The models run in this process. A model finds what the ones before it have left: imported
    modules with their state, the random state, settings of torch.

forked
    Each model runs in a process that is forked from this one, which has imported what the first
    model had imported at its end (see ``ahead``). It begins as ``__main__``, in a session of its
    own, with this process's CPUs, memory policy and environment; what a fresh process draws from
    entropy (``random``, numpy's global state, torch's generator) is drawn anew. Only the seed of
    Python's hashes is shared, unless PYTHONHASHSEED is set. It ends without taking apart what was
    imported.

The module needs the standard library only.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import ctypes
import gc
import io
import json
import os
import runpy
import signal
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

HERE = os.path.dirname(os.path.abspath(__file__))
# By their paths: the package is none of the program's.
PROGRAM, AHEAD, BIND = (
    runpy.run_path(os.path.join(HERE, f"{name}.py")) for name in ("program", "ahead", "bind")
)
OWN_FILES = {os.path.join(HERE, name) for name in ("program.py", "model_server.py")}

# Time for a model to end by itself after SIGTERM; then it is killed.
GRACE_S = 2

UNWRITTEN = 120  # Python's exit status where its output cannot be written

LIBC = ctypes.CDLL(None)


class Model(NamedTuple):
    """An order: what to train, and where its output goes."""

    arguments: list[str]
    log: str
    errors: str | None = None

    def redirect(self) -> None:
        """Let output go to the files, which are emptied."""
        for path, descriptors in ((self.log, (1, 2)), (self.errors, (2,))):
            if path is not None:
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
                for descriptor in descriptors:
                    os.dup2(file, descriptor)
                os.close(file)


def train(command: list[str]) -> int:
    """Run the program once; return its exit status, as Python would give it."""
    try:
        PROGRAM["run"](command)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return (stop.code or 0) & 0xFF
        print(stop.code, file=sys.stderr)
        return 1
    except BaseException as error:  # noqa: BLE001 (whatever it is, Python would end with it)
        at = error.__traceback__
        while at is not None and at.tb_frame.f_code.co_filename in OWN_FILES:
            at = at.tb_next  # a fresh process shows the script's frames only
        sys.excepthook(type(error), error.with_traceback(at), at)
        return 1
    return 0


def flush() -> bool:
    """Write what files still hold that the script has not closed; return whether it could be."""
    done = True
    for one in [sys.stdout, sys.stderr, *filter(_is_file, gc.get_objects())]:
        try:
            if one is not None and not one.closed:
                one.flush()
        except (OSError, ValueError):
            done = False
    LIBC.fflush(None)
    return done


def _is_file(one: object) -> bool:
    return type(one) in {io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom}


class Reused:
    """Trains models in this process."""

    def __init__(self, program: Sequence[str]) -> None:
        self._program = program
        self._folder, self._pid = os.getcwd(), os.getpid()

    def prepare(self) -> None:
        """Do nothing: the next model finds this process as it is."""

    def train(self, model: Model) -> tuple[int, int]:
        """Train a model; return its exit status and this process's peak memory (KiB)."""
        model.redirect()
        os.chdir(self._folder)  # the last model may have left it
        status = train([*self._program, *model.arguments])
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):  # the script's to close
                stream.flush()
        if os.getpid() != self._pid:  # a child that the script has forked
            os._exit(status)
        gc.collect()  # a script's globals refer to each other
        _count("script_ended")
        return status, _own_peak_kib()


class Forked:
    """Trains each model in a process that is forked from this one.

    Args:
        program: the words after the options.
        imports: the file of what is imported ahead; after the first model it is there.
        answers: a descriptor that models do not get.
    """

    def __init__(self, program: Sequence[str], imports: str, answers: int | None) -> None:
        self._program = program
        self._imports, self._answers = imports, answers
        self._pid, self._child = os.getpid(), 0
        self._imported = self._stopped = False
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGALRM, self._stop)

    def prepare(self) -> None:
        """Import ahead, as soon as it is known what; begin anew where it cannot stay."""
        if self._imported or not os.path.exists(self._imports):
            return
        if not AHEAD["load"](self._imports, self._program):
            if self._answers is not None:
                os.set_inheritable(self._answers, True)
            os.execv(sys.executable, [sys.executable, __file__, *sys.argv[1:]])  # noqa: S606
        self._imported = True
        gc.collect()
        gc.freeze()  # a collection in a child would copy all of its pages
        _count("ready")

    def train(self, model: Model) -> tuple[int, int]:
        """Train a model; return its exit status and peak memory (KiB)."""
        learns = not os.path.exists(self._imports)
        child = os.fork()
        if child == 0:
            self._be_model(model, learns=learns)
        self._child = child
        info = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        # Not waited for yet: the group's number is still the child's.
        if info is None or info.si_code != os.CLD_EXITED or info.si_status != 0 or self._stopped:
            self._signal(signal.SIGKILL)  # what a failed model leaves would slow the next one down
        signal.alarm(0)
        self._child = 0
        _, status, usage = os.wait4(child, 0)
        if self._stopped:
            BIND["end_by"](signal.SIGTERM)
        if learns:
            AHEAD["keep"](self._imports, child)
        return os.waitstatus_to_exitcode(status), usage.ru_maxrss

    def _be_model(self, model: Model, *, learns: bool) -> None:
        for signum in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(signum, signal.SIG_DFL)
        os.setsid()
        BIND["die_with_parent"](self._pid)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if self._answers is not None:
            os.close(self._answers)
        model.redirect()
        AHEAD["renew"]()
        own = os.getpid()
        learn: Callable[[], None] = AHEAD["learning"](self._imports) if learns else _nothing
        status = train([*self._program, *model.arguments])
        # What Python does at its end (Py_FinalizeEx), but for taking all modules apart.
        threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001
        written = flush()  # first: collecting may close a file below the buffer that holds text
        gc.collect()  # frees what the script's globals hold
        if not flush() or not written:
            status = status or UNWRITTEN
        if os.getpid() == own:  # not a child that the script has forked
            learn()
        _count("script_ended")
        os._exit(status)

    def _stop(self, signum: int, _frame: FrameType | None) -> None:
        """End the model, and then this process: SIGTERM first, SIGKILL after a while."""
        if os.getpid() != self._pid:  # a child that has not gone its own way yet
            os._exit(1)
        if not self._child:
            BIND["end_by"](signal.SIGTERM)
        self._stopped = True
        self._signal(signal.SIGTERM if signum == signal.SIGTERM else signal.SIGKILL)
        signal.alarm(GRACE_S)

    def _signal(self, signum: int) -> None:
        try:
            os.killpg(self._child, signum)
        except (ProcessLookupError, PermissionError):  # it has no session of its own yet
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signum)


def _nothing() -> None:
    """Do nothing."""


def _count(event: str) -> None:
    """Note an event where steps are counted: a method of ``iterations.Counter``."""
    counter = getattr(sys, "scaling_study_counter", None)
    if counter is not None:
        getattr(counter, event)()


def _own_peak_kib() -> int:
    import resource  # noqa: PLC0415 (the program shall not find it here already)

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(argv: list[str]) -> None:
    """Parse the command line and train what standard input asks for, until it ends."""
    parser = argparse.ArgumentParser(description="Train models one after the other.")
    parser.add_argument("--start", choices=["forked", "reused"], required=True)
    parser.add_argument("--switches", help="file that changes this process when torch is imported")
    parser.add_argument("--answers", type=int, help="descriptor for exit statuses")
    parser.add_argument("--imports", help="file of what is imported before a model is forked")
    at = argv.index("--")
    options, program = parser.parse_args(argv[:at]), argv[at + 1 :]
    if options.switches is not None:
        runpy.run_path(options.switches, run_name="switches")
    PROGRAM["add_path"](program)
    # What a script starts holds neither end of the line to the queue, and reads nothing from it.
    if options.answers is not None:
        os.set_inheritable(options.answers, False)
    trainer: Forked | Reused
    if options.start == "forked":
        source, trainer = 0, Forked(program, options.imports, options.answers)
    else:
        source, trainer = os.dup(0), Reused(program)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # Without a buffer: what it held would be lost where this process begins anew.
    orders = open(source, "rb", buffering=0)  # noqa: SIM115 (to the end of the process)
    while True:
        trainer.prepare()
        line = orders.readline()
        if not line:
            break
        status, peak_kib = trainer.train(Model(**json.loads(line)))
        if options.answers is not None:
            os.write(options.answers, f"{status} {peak_kib}\n".encode())
        elif status < 0:
            BIND["end_by"](-status)
        elif status:
            sys.exit(status)


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file
    main(sys.argv[1:])
