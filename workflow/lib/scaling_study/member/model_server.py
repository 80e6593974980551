"""Train models one after the other, and import once what they need.

``python model_server.py --start reused [OPTIONS] -- SCRIPT`` or ``… -- -m MODULE``

Each line of standard input is a model: a JSON object with its ``arguments``, a file for its output
(``log``) and, optionally, a file for its standard error alone (``errors``). With ``--answers``,
standard input is a socket to which the server writes an answer for each model: its exit status
(below 0: the signal that killed it) and its peak memory in KiB. A forked model writes its process
id there when it begins. Without ``--answers``, a model that fails ends the server.

reused
    The models run in this process. A model finds the state that earlier ones have left: imported
    modules with their state, the random state, settings of torch.

forked
    Each model runs in a process that is forked from this one, which has imported the modules that
    the first model had imported by its end (see ``ahead``). The model begins as ``__main__``, in a
    session of its own, with this process's CPUs, memory policy and environment. Random states that
    a fresh process draws from entropy (``random``, numpy's global state, torch's generator) are
    drawn anew; only the seed of Python's hashes is the same in all models. The model ends without
    unloading imported modules.

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
    from collections.abc import Sequence

HERE = os.path.dirname(os.path.abspath(__file__))
# Loaded by their paths, because the program must not find the package.
PROGRAM, AHEAD, BIND = (
    runpy.run_path(os.path.join(HERE, f"{name}.py")) for name in ("program", "ahead", "bind")
)
OWN_FILES = {os.path.join(HERE, name) for name in ("program.py", "model_server.py")}

UNWRITTEN = 120  # Python's exit status if its output cannot be written

LIBC = ctypes.CDLL(None)


class Model(NamedTuple):
    """An order: what to train, and where its output goes."""

    arguments: list[str]
    log: str
    errors: str | None = None

    def redirect(self) -> None:
        """Redirect this process's output to the files, which are emptied."""
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
    """Flush the files that the script has not closed; return whether all could be written."""
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
            with contextlib.suppress(AttributeError, OSError, ValueError):  # closed by the script
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
        imports: file that lists the imports to make ahead; the first model writes it.
        line: the descriptor of orders, which models do not keep.
        answers: whether a model's process id is written there.
    """

    def __init__(self, program: Sequence[str], imports: str, line: int, *, answers: bool) -> None:
        self._program, self._imports = program, imports
        self._line, self._answers = line, answers
        self._pid, self._imported = os.getpid(), False
        # SIGTERM to all processes ends the model; this process still reports how it ended.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def prepare(self) -> None:
        """Import ahead once the file exists; restart this process if a module must not stay."""
        if self._imported or not os.path.exists(self._imports):
            return
        if not AHEAD["load"](self._imports, self._program):
            os.dup2(self._line, 0)
            os.execv(sys.executable, [sys.executable, __file__, *sys.argv[1:]])  # noqa: S606
        self._imported = True
        gc.collect()
        gc.freeze()  # a collection in a child would copy all of its pages
        _count("ready")

    def train(self, model: Model) -> tuple[int, int]:
        """Train a model; return its exit status and peak memory (KiB)."""
        child = os.fork()
        if child == 0:
            self._be_model(model)
        info = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        # The child is not reaped yet, so the group's number is still its own.
        if info is None or info.si_code != os.CLD_EXITED or info.si_status != 0:
            # Processes that a failed model leaves would slow the next one down.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
        return os.waitstatus_to_exitcode(status), usage.ru_maxrss

    def _be_model(self, model: Model) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        BIND["die_with_parent"](self._pid)
        if self._answers:
            os.write(self._line, f"{os.getpid()}\n".encode())
        os.close(self._line)
        model.redirect()
        AHEAD["renew"]()
        own = os.getpid()
        learn = None if os.path.exists(self._imports) else AHEAD["learning"](self._imports)
        status = train([*self._program, *model.arguments])
        # End as Python does (Py_FinalizeEx), but keep all modules.
        threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001
        written = flush()  # first: collecting may close a file below the buffer that holds text
        gc.collect()  # frees what the script's globals hold
        if not flush() or not written:
            status = status or UNWRITTEN
        if learn is not None and os.getpid() == own:  # not a child that the script has forked
            learn()
        _count("script_ended")
        os._exit(status)


def _count(event: str) -> None:
    """Call this method of the process's ``iterations.Counter``, if its steps are counted."""
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
    parser.add_argument("--answers", action="store_true", help="to standard input, a socket")
    parser.add_argument("--imports", help="file of what is imported before a model is forked")
    at = argv.index("--")
    options, program = parser.parse_args(argv[:at]), argv[at + 1 :]
    if options.switches is not None:
        runpy.run_path(options.switches, run_name="switches")
    PROGRAM["add_path"](program)
    trainer: Forked | Reused
    # Programs that a script starts must not hold the line to the queue, or read from it.
    line = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if options.start == "forked":
        trainer = Forked(program, options.imports, line, answers=options.answers)
    else:
        trainer = Reused(program)
    # Without a buffer, because buffered orders would be lost if this process restarts.
    orders = open(line, "rb", buffering=0)  # noqa: SIM115 (to the end of the process)
    while True:
        trainer.prepare()
        order = orders.readline()
        if not order:
            break
        status, peak_kib = trainer.train(Model(**json.loads(order)))
        if options.answers:
            os.write(line, f"{status} {peak_kib}\n".encode())
        elif status < 0:
            BIND["end_by"](-status)
        elif status:
            sys.exit(status)


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file
    main(sys.argv[1:])
