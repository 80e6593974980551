"""Finds the shared libraries that launches need."""

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from scaling_study.launch.axes.axis_table import LIBRARIES

USUAL_FOLDERS = (
    *(f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/local/lib", "/usr/lib64", "/usr/lib"),
    "/opt/intel/oneapi/mkl/latest/lib",
    "/opt/intel/oneapi/compiler/latest/lib",
)
"""Searched after the loader's own folders, for machines whose loader cache cannot be read."""


def find_library(name: str, folders: Sequence[Path]) -> str | None:
    """Return a library that this interpreter's processes could load; None if there is none.

    Args:
        name: a key of ``LIBRARIES``, which the axes declare.
        folders: where to look, in order (see :func:`library_folders`).

    Returns:
        The path of the file itself, with symbolic links followed, so that its name shows the
        version. A better variant in a later folder wins over a worse one in an earlier folder.
    """
    for pattern in LIBRARIES[name].patterns:
        for folder in folders:
            for path in sorted(folder.glob(pattern), reverse=True):  # newest first
                # Built for this interpreter's machine: skips 32-bit files and linker scripts.
                if path.is_file() and _elf_kind(path) == _elf_kind(Path(sys.executable)):
                    return str(path.resolve())
    return None


def library_folders(prefix: Path = Path(sys.prefix)) -> tuple[Path, ...]:
    """Return the folders of libraries: an interpreter's own, the loader's, the usual ones.

    Args:
        prefix: the environment of the interpreter (PyPI's mkl and mimalloc are in it).
    """
    # Packages of cmeel have a prefix of their own within an environment.
    own = (prefix / "lib", *sorted(prefix.glob("lib/python3*/site-packages/cmeel.prefix/lib")))
    folders = (*own, *parse_loader_cache(_loader_cache()), *map(Path, USUAL_FOLDERS))
    return tuple(dict.fromkeys(folders))


def parse_loader_cache(text: str) -> tuple[Path, ...]:
    """Return the folders in the output of ``ldconfig -p``, each once, in the order there."""
    paths = re.findall(r"=> (/\S.*)$", text, flags=re.MULTILINE)
    return tuple(dict.fromkeys(Path(path).parent for path in paths))


def _loader_cache() -> str:
    """Return the output of ``ldconfig -p``; empty without ldconfig.

    It lives in /sbin, which is not on an ordinary user's PATH.
    """
    ldconfig = shutil.which("ldconfig") or shutil.which("ldconfig", path="/sbin:/usr/sbin")
    if ldconfig is None:
        return ""
    return subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout


def _elf_kind(path: Path) -> tuple[bytes, bytes]:
    """Return a file's ELF magic with class and byte order, and its e_machine (elf(5))."""
    with path.open("rb") as file:
        header = file.read(20)
    return header[:6], header[18:20]
