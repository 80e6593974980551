"""Imports that are made once, before models are forked from a process.

The list comes from a first model: the modules that it had imported by its end, in that order. Its
settings of libraries are kept too, because a library may read a variable while it is imported. Any
other variable may hold a secret. It is not kept, and each model makes the imports after it by
itself. The script's own modules may change, so they are left to each model as well.

A fork copies only the thread that calls it. Open files and their positions are shared, and so is
CUDA's state, which a child cannot use. A module that leaves such things behind is left to the
models too, with whatever imports it. Threads that end before a fork, as OpenBLAS's do, are allowed;
a trial fork shows which remain.

The file is JSON: ``steps``, each ``["import", NAME]``, ``["set", NAME, VALUE]`` or ``["unset",
NAME]``, and ``left``, reasons by module. Standard library only; this file is loaded by its path.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import site
import stat
import sys
import sysconfig
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# jemalloc's threads only give memory back; a child starts its own (``renew``).
JEMALLOC = "jemalloc"

# After this many modules that cannot be imported ahead, the next one ends the list.
MOST_LEFT = 3

EVENTS = {"os.putenv": "set", "os.unsetenv": "unset"}

# Prefixes of variables that configure libraries and hold no secret.
SETTINGS = (
    "ATEN_", "BLIS_", "CUBLAS_", "CUDA_", "DNNL_", "GOMP_", "GOTO_", "HF_HOME", "HF_HUB_OFFLINE",
    "KMP_", "MALLOC_", "MKL_", "MPL", "NUMBA_", "NUMEXPR_", "OMP_", "ONEDNN_", "OPENBLAS_",
    "PL_GLOBAL_SEED", "PL_SEED_WORKERS", "PYTORCH_", "RAY_CLIENT_MODE", "TF_", "TOKENIZERS_",
    "TORCH", "TRANSFORMERS_", "VECLIB_", "XLA_",
)  # fmt: skip

# ---- in the first model


def learning(path: str) -> Callable[[], None]:
    """Note what this process imports from now on; return a function that writes it to a file.

    Args:
        path: the file.
    """
    folders = _installed_folders()
    known = set(sys.modules)
    changes: dict[str, list[list[str]]] = {}

    def note(event: str, values: tuple[object, ...]) -> None:
        if event in EVENTS and not _is_imported(folders):
            words = [os.fsdecode(one) for one in values if isinstance(one, bytes)]
            changes.setdefault(next(reversed(sys.modules)), []).append([EVENTS[event], *words])

    def write() -> None:
        steps: list[list[str]] = []
        left: dict[str, str] = {}
        for name, module in list(sys.modules.items()):
            if name not in known and _is_installed(name, module, folders):
                steps.append(["import", name])
            own = changes.get(name, [])
            unknown = next((words[1] for words in own if not words[1].startswith(SETTINGS)), None)
            if unknown is not None:
                left["everything later"] = f"comes after the script sets {unknown}"
                break
            steps += own
        _write(path, steps, left)

    sys.addaudithook(note)
    return write


def _is_imported(folders: tuple[str, ...]) -> bool:
    """Return whether an installed module sets the variable at its import, as it will again."""
    frame = sys._getframe(2)  # noqa: SLF001 (CPython's, as documented)
    files = []
    while frame is not None:
        files.append(frame.f_code.co_filename)
        frame = frame.f_back  # type: ignore[assignment]
    own = type(os.environ).__setitem__.__code__.co_filename
    first = next((file for file in files if file != own), "")
    by_import = any(file.startswith("<frozen importlib") for file in files)
    return by_import and os.path.realpath(first).startswith(folders)


def _installed_folders() -> tuple[str, ...]:
    """Return the folders of Python's own modules and of installed ones."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [*map(sysconfig.get_path, names), *site.getsitepackages(), site.getusersitepackages()]
    return tuple(os.path.join(os.path.realpath(one), "") for one in folders if one)


def _is_installed(name: str, module: object, folders: tuple[str, ...]) -> bool:
    """Return whether a module is built in or from these folders, and has this name."""
    spec = getattr(module, "__spec__", None)
    if spec is None or spec.name != name or spec.origin is None:
        return False
    if spec.origin in {"built-in", "frozen"}:
        return True
    return bool(os.path.realpath(spec.origin).startswith(folders))


def _write(path: str, steps: list[list[str]], left: dict[str, str]) -> None:
    part = f"{path}.{os.getpid()}"
    with open(part, "w", encoding="utf-8") as file:
        json.dump({"steps": steps, "left": left}, file, indent=0)
    os.rename(part, path)


# ---- in the process that models are forked from


def load(path: str, program: Sequence[str]) -> bool:
    """Import the modules that a file lists.

    Args:
        path: the file. A module that must be left to the models is noted in it.
        program: the program; if it is a module, its package is left to the models.

    Returns:
        False if a module that must be left has been imported: this process must not be forked.

    Raises:
        SystemExit: this process has threads before any import.
    """
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    steps, left = found["steps"], found["left"]
    own = program[1].partition(".")[0] if program[0] == "-m" else None
    if names := _remaining_threads():
        sys.exit(f"nothing can be forked from a process with threads: {', '.join(names)}")
    files, children = _open_files(), _children()
    before, arguments = dict(os.environ), sys.argv
    sys.argv = list(program[:1])
    try:
        for number, (what, name, *value) in enumerate(steps):
            if what == "set":
                os.environ[name] = value[0]
            elif what == "unset":
                os.environ.pop(name, None)
            elif not any(f"{name}.".startswith(f"{one}.") for one in (*left, own) if one):
                reason = _import(name, files, children)
                if reason is not None:
                    left[name] = reason
                    _write(path, steps[:number] if len(left) > MOST_LEFT else steps, left)
                    return False
    finally:
        sys.argv = arguments
        os.environ.clear()
        os.environ.update(before)  # a model sets its variables by itself
    return True


def _import(name: str, files: set[str], children: str) -> str | None:
    """Import a module; return why this process must not be forked afterwards, None if it may.

    Args:
        name: the module's name.
        files: the files that were open before any import.
        children: the child processes before any import.
    """
    if name in sys.modules:
        return None
    threads = len(os.listdir("/proc/self/task"))
    # A module that cannot be imported by itself is left to the models, whose script imports it.
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each model gets its own warnings
        importlib.import_module(name)
    if len(os.listdir("/proc/self/task")) > threads and (names := _remaining_threads()):
        return f"starts threads: {', '.join(names)}"
    if _children() != children:
        return "starts processes"
    if kept := _open_files() - files:
        return f"keeps open: {', '.join(sorted(kept))}"
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized():
        return "initialises CUDA"
    return None


def _remaining_threads() -> list[str]:
    """Fork once; return the names of the other threads that this process has afterwards.

    OpenBLAS ends its threads before a fork, and starts new ones when they are needed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which are looked at here
        child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    names = []
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/comm") as file:
            names.append(file.read().strip())
    return sorted(one for one in names if not one.startswith(JEMALLOC))[1:]


def _children() -> str:
    """Return the ids of this process's children; empty if the kernel does not list them."""
    with contextlib.suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children") as file:
        return file.read()
    return ""


def _open_files() -> set[str]:
    """Return the files that this process has open, without character devices."""
    found = set()
    for one in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not stat.S_ISCHR(os.stat(int(one)).st_mode):
                found.add(os.readlink(f"/proc/self/fd/{one}"))
    return found


# ---- in each model


def renew() -> None:
    """Give this forked process the random states and threads that a fresh one gets by itself.

    Python's ``random`` reseeds itself; torch's other generators are made when they are used.
    """
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if numpy is not None:
        numpy.seed()
    if torch is not None:
        torch.default_generator.seed()
    control = getattr(ctypes.CDLL(None), "mallctl", None)
    if control is not None:  # jemalloc: its threads did not survive the fork
        value, size = ctypes.c_bool(), ctypes.c_size_t(1)
        control(b"opt.background_thread", ctypes.byref(value), ctypes.byref(size), None, 0)
        if value:
            control(b"background_thread", None, None, ctypes.byref(value), 1)
