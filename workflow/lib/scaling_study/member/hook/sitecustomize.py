"""Count the optimizer steps of this process (see ``iterations``), whatever program it runs.

The folder of this file is first on PYTHONPATH, so that Python's ``site`` module imports the file in
each process of a program, also in those that the program starts. It leaves no trace of its own: the
package and its path are gone before the program begins, and another ``sitecustomize`` is run too.
Interpreters that ignore PYTHONPATH (options -E and -I) are not counted.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.abspath(os.path.join(HERE, *[os.pardir] * 3))


@contextmanager
def library() -> Iterator[None]:
    """Make modules of the package importable; the program finds none of them afterwards."""
    known = set(sys.modules)
    sys.path.insert(0, LIBRARY)
    try:
        yield
    finally:
        sys.path.remove(LIBRARY)
        for name in {key for key in sys.modules if key.startswith("scaling_study")} - known:
            del sys.modules[name]


def count(text: str) -> None:
    """Attach a counter.

    Args:
        text: the value of ``iterations.VARIABLE``.
    """
    with library():
        from scaling_study.member import iterations

        step, wanted, folder = text.split("|", 2)
        if step == iterations.OBSERVE:
            from scaling_study.member import files

            files.note_written(folder, os.getpid())
    iterations.IterationCounter(folder, step, read_back if wanted else None).attach()


def read_back(file: str, counted: object) -> None:
    """Write a report of the settings that hold in this process, in the form of a member's."""
    with library():
        from scaling_study.member.readback import write

        write(file, launcher="exec", once=False, counted=counted, switches={}, loaders=[])


def run_other() -> None:
    """Run the ``sitecustomize`` that Python would have found without this one."""
    rest = [path for path in sys.path if os.path.abspath(path) != HERE]
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


sys.path[:] = [path for path in sys.path if os.path.abspath(path) != HERE]
if "SCALING_STUDY_COUNT" in os.environ:
    count(os.environ["SCALING_STUDY_COUNT"])
run_other()
