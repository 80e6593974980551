"""Run a training program in this process, as ``python SCRIPT ARGS`` or ``python -m MODULE ARGS``.

A program is a list of words: the script or ``-m`` and the module, and the arguments. Standard
library only: it is copied into the file of a launch's switches, and loaded by its path elsewhere.
"""

from __future__ import annotations

import builtins
import os
import runpy
import signal
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


START = (
    "import sys; sys.path[:] = filter(None, sys.path); import runpy;"
    " runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def harness(python: str, module: str) -> list[str]:
    """Return the start of a command line that runs a module of this package.

    ``-m`` would look for all modules in the working directory first, which is the user's. ``-P``
    prevents that, but only from Python 3.11 on.
    """
    return [python, "-c", START, module]


def name(program: Sequence[str]) -> str:
    """Return the program's name for messages: its words without the arguments."""
    return " ".join(program[: 2 if program[0] == "-m" else 1])


def add_path(program: Sequence[str]) -> None:
    """Put the folder of the script, or for a module the working directory, first on sys.path."""
    by_module = program[0] == "-m"
    sys.path.insert(0, os.getcwd() if by_module else os.path.dirname(os.path.realpath(program[0])))


def run(program: Sequence[str]) -> None:
    """Run the program as ``__main__``; its exceptions are passed on.

    Its module stays ``__main__`` afterwards: an exit handler or a thread that ends late may save an
    object of a class of the script, which is found there.
    """
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    for alias in ("__main__", "__mp_main__"):  # multiprocessing's, once it has been imported
        if alias in sys.modules:
            sys.modules[alias] = main
    sys.orig_argv = [sys.executable, *program]  # scripts start themselves again with it
    if program[0] == "-m":
        sys.argv = ["-m", *program[2:]]
        runpy._run_module_as_main(program[1])  # type: ignore[attr-defined] # noqa: SLF001 (what Python does for -m)
        return
    sys.argv = list(program)
    path = os.path.join(os.getcwd(), program[0])  # as Python writes it, including any ..
    loader = SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __cached__=None, __loader__=loader)
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)  # noqa: S102 (what Python does with a script)


def report(error: BaseException) -> int:
    """Print what Python prints for the exception that ends a program: the program's frames only.

    Returns:
        The exit status that Python would give; below 0, the signal that Python would end by.
    """
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)
        return 1
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code is not run.__code__:
        frames = frames.tb_next
    frames = frames and frames.tb_next
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, frames
    try:
        sys.excepthook(type(error), error.with_traceback(frames), frames)
    except BaseException as failed:  # noqa: BLE001 (the hook may be the script's)
        for raised in (failed, error):
            sys.__excepthook__(type(raised), raised, raised.__traceback__)
    return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def run_to_end(program: Sequence[str]) -> int:
    """Run the program and report its exception, if any; return as ``report`` does."""
    try:
        run(program)
    except BaseException as error:  # noqa: BLE001 (whatever it is, Python would end with it)
        return report(error)
    return 0
