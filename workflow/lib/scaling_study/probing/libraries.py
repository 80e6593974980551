"""Shared libraries that launches need: where they are, and what installs them."""

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Library:
    """A library that a launch may preload or need.

    ``patterns`` are globs relative to a library folder, the preferred first; ``install`` is a
    command that provides it.
    """

    patterns: tuple[str, ...]
    install: str


LIBRARIES: dict[str, Library] = {
    # The OpenMP builds first: they share torch's pool of OpenMP threads, the pthread builds add a
    # pool of their own beside it. The price: the OpenMP runtime they are linked to becomes torch's.
    "openblas": Library(
        patterns=(
            *("openblas-openmp/libopenblas.so.[0-9]*", "libopenblaso.so.[0-9]*"),
            *("openblas-pthread/libopenblas.so.[0-9]*", "libopenblasp.so.[0-9]*"),
            "libopenblas.so.[0-9]*",
        ),
        install="apt install libopenblas0-openmp",
    ),
    "blis": Library(
        patterns=(
            *("blis-openmp/libblis.so.[0-9]*", "libblis-mt.so.[0-9]*"),
            *("blis-pthread/libblis.so.[0-9]*", "libblis.so.[0-9]*"),
        ),
        install="apt install libblis4-openmp",
    ),
    "mkl": Library(patterns=("libmkl_rt.so.[0-9]*",), install="pip install mkl"),
    "jemalloc": Library(patterns=("libjemalloc.so.[0-9]*",), install="apt install libjemalloc2"),
    # The minimal build has no heap profiler, whose hooks cost time.
    "tcmalloc": Library(
        patterns=("libtcmalloc_minimal.so.[0-9]*", "libtcmalloc.so.[0-9]*"),
        install="apt install libtcmalloc-minimal4",
    ),
    "mimalloc": Library(
        patterns=("libmimalloc.so.[0-9]*",),
        install="pip install cmeel-mimalloc",
    ),
    # py-libnuma, which sets memory policies, is a wrapper around it.
    "numa": Library(patterns=("libnuma.so.1",), install="apt install libnuma1"),
}
"""Libraries by the name that launches use; a new one is an entry here."""

USUAL_FOLDERS = (
    *(f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/local/lib", "/usr/lib64", "/usr/lib"),
    "/opt/intel/oneapi/mkl/latest/lib",
)
"""Searched after the loader's own folders, for machines whose loader cache cannot be read."""


def find_library(name: str, folders: Iterable[Path]) -> str | None:
    """The library of a name that this interpreter's processes could load.

    Args:
        name: a key of :data:`LIBRARIES`.
        folders: where to look, in order (see :func:`library_folders`).

    Returns:
        The path of the file itself, symbolic links followed, so that its name tells the version.
        A better variant in a later folder wins over a worse one in an earlier folder.
    """
    places = list(folders)
    for pattern in LIBRARIES[name].patterns:
        for folder in places:
            for path in sorted(folder.glob(pattern), reverse=True):  # newest first
                if _loadable(path):
                    return str(path.resolve())
    return None


def library_folders(prefix: Path = Path(sys.prefix)) -> tuple[Path, ...]:
    """Where libraries are: an interpreter's own lib folder, the loader's folders, the usual ones.

    Args:
        prefix: the environment of the interpreter (PyPI's mkl and mimalloc are in it).
    """
    listed = _loader_cache()
    # Packages of cmeel have a prefix of their own within an environment.
    own = (prefix / "lib", *sorted(prefix.glob("lib/python3*/site-packages/cmeel.prefix/lib")))
    folders = (*own, *parse_loader_cache(listed), *map(Path, USUAL_FOLDERS))
    return tuple(dict.fromkeys(folders))


def parse_loader_cache(text: str) -> tuple[Path, ...]:
    """The folders in the output of ``ldconfig -p``, each once, in its order."""
    paths = re.findall(r"=> (/\S.*)$", text, flags=re.MULTILINE)
    return tuple(dict.fromkeys(Path(path).parent for path in paths))


def _loader_cache() -> str:
    """Output of ``ldconfig -p``; it lives in /sbin, which is not on an ordinary user's PATH."""
    ldconfig = shutil.which("ldconfig") or shutil.which("ldconfig", path="/sbin:/usr/sbin")
    if ldconfig is None:
        return ""
    return subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout


def _loadable(path: Path) -> bool:
    """Whether a file is an ELF library for this interpreter's machine, not of 32 bits, no text."""
    return path.is_file() and _elf_kind(path) == _elf_kind(Path(sys.executable))


def _elf_kind(path: Path) -> tuple[bytes, bytes]:
    """Magic, class and byte order; and e_machine (elf(5))."""
    with path.open("rb") as file:
        header = file.read(20)
    return header[:6], header[18:20]
