"""Run a training program in this process, as ``python SCRIPT ARGS`` or ``python -m MODULE ARGS``.

A program is a list of words: the script or ``-m`` and the module, and the arguments. Standard
library only: it is copied into the file of a launch's switches, and loaded by its path elsewhere.
"""

from __future__ import annotations

import builtins
import os
import runpy
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
    """Run the program as ``__main__``; its exceptions are passed on."""
    if program[0] == "-m":
        sys.argv = list(program[1:])  # runpy puts the module's file in the first place
        own = {"__builtins__": builtins}
        runpy.run_module(program[1], run_name="__main__", alter_sys=True, init_globals=own)
        return
    sys.argv = list(program)
    path = os.path.join(os.getcwd(), program[0])  # as Python writes it, including any ..
    main = ModuleType("__main__")
    loader = SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __cached__=None, __builtins__=builtins, __loader__=loader)
    before = sys.modules["__main__"]
    sys.modules["__main__"] = main
    try:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        exec(code, main.__dict__)  # noqa: S102 (what Python does with a script)
    finally:
        sys.modules["__main__"] = before
