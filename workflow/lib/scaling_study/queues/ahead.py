"""Imports that are made once, before models are forked from a process.

The first model lists the modules that it had imported by its end, in the order in which their
imports began, up to the point where the script itself changes a variable: a library may read a
variable while it is imported. The server imports the modules of a package ahead if they take long,
and if a fork of it then looks to the script as a fresh process does. A child tries that first: it
imports the modules, and compares. A module is left to the models if it, or what it imports, starts
threads or processes, keeps files open, makes temporary files, prints, reads the arguments, keeps
the process id, draws random numbers that stay, or changes random states, signal handlers, the
working directory or the file mode mask (umask). Modules of the script may change, so they are left
to the models as well.

A fork inherits variables, warning filters and exit handlers that an import leaves behind, so these
are as in a fresh process. Generators that were seeded with entropy are seeded anew in each model.

The file is JSON: ``modules``, in order; ``left``, reasons by module; ``seconds``, the time that the
imports of each package took, or null before a server has tried them. Standard library only; this
file is loaded by its path.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import random
import re
import signal
import site
import stat
import sys
import sysconfig
import tempfile
import threading
import time
import warnings
import weakref
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

WORTH_S = 0.05
"""A package that takes less time is left to the models, or to what imports it."""

SETS = "sets variables"
DRAWS, KEEPS_PID = "draws random numbers", "keeps the process id"

TRIAL_S = 600
"""Importing takes longer only if it hangs."""

CPU_FACTS = "/sys/devices/system/cpu/"

# jemalloc's threads only give memory back; a child starts its own (``renew``).
JEMALLOC = "jemalloc"

# These draw numbers while they are imported. No two models would notice that they have the same
# ones: names that are unique in a process, the key with which multiprocessing's processes know each
# other, a semaphore that is gone, or examples in a docstring. numpy's generator is seeded anew.
HARMLESS_DRAWS = (
    "dask", "joblib._multiprocessing_helpers", "multiprocessing.process", "numpy.random", "ray",
    "scipy.stats", "sympy.core.symbol", "torch.distributed", "transformers.utils.hub",
)  # fmt: skip


# The position of numpy's Mersenne Twister after entropy was its seed; after another seed it is 624.
FROM_ENTROPY = 623
# Seeds that torch draws have 64 bits; those that programs set rarely have more than 32.
LEAST_ENTROPY = 2**32


class ImportsFile(NamedTuple):
    """The content of the file."""

    modules: list[str]
    left: dict[str, str]
    seconds: dict[str, float] | None = None

    @classmethod
    def read(cls, path: str) -> ImportsFile:
        """Read the file."""
        with open(path, encoding="utf-8") as file:
            return cls(**json.load(file))

    def write(self, path: str) -> None:
        """Write the file, whole at any moment."""
        part = f"{path}.{os.getpid()}"
        with open(part, "w", encoding="utf-8") as file:
            json.dump(self._asdict(), file, indent=0)
        os.rename(part, path)


# ---- in the first model


def learning(path: str) -> Callable[[], None]:
    """Note what this process imports from now on; return a function that writes it to a file."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    places = [*map(sysconfig.get_path, names), *site.getsitepackages(), site.getusersitepackages()]
    folders = tuple(os.path.join(os.path.realpath(place), "") for place in places if place)
    known = set(sys.modules)
    begun = dict.fromkeys(known)
    before: list[str] = []
    left: dict[str, str] = {}

    def note(event: str, values: tuple[object, ...]) -> None:
        if event == "import":
            # A module goes to the end of sys.modules once it has been imported.
            new = takewhile(lambda name: name not in begun, reversed(list(sys.modules)))
            begun.update(dict.fromkeys((*reversed(list(new)), str(values[0]))))
        if event not in {"os.putenv", "os.unsetenv"} or left:
            return
        name, *value = [os.fsdecode(item) for item in values if isinstance(item, bytes)]
        frame = sys._getframe(1)  # noqa: SLF001 (CPython's, as documented)
        between = {"os", "collections.abc"}
        while frame.f_back is not None and frame.f_globals.get("__name__") in between:
            frame = frame.f_back
        installed = os.path.realpath(frame.f_code.co_filename).startswith(folders)
        if not installed and os.environ.get(name) != (value[0] if value else None):
            before.extend((*begun, *sys.modules))
            left["everything later"] = (
                f"comes after the script changes {name} (export it before, or set it in"
                " workload.env)"
            )

    def write() -> None:
        modules = []
        for name in dict.fromkeys(before if left else (*begun, *sys.modules)):
            spec = getattr(sys.modules.get(name), "__spec__", None)
            origin = (spec.origin or "") if spec is not None and spec.name == name else ""
            if name not in known and os.path.realpath(origin).startswith(folders):
                modules.append(name)
        ImportsFile(modules, left).write(path)

    sys.addaudithook(note)
    return write


# ---- in the process that models are forked from


UNSEEDED: list[tuple[str, weakref.ref[random.Random]]] = []
"""Python's generators that were seeded with entropy during imports, and the modules that did it."""


def load(path: str, program: Sequence[str]) -> None:
    """Import the modules that a file lists; the first server to use it tries them, and writes it.

    Args:
        path: the file.
        program: the program; if it is a module, its package is left to the models.

    Raises:
        SystemExit: this process has threads before any import.
    """
    if names := _remaining_threads():
        sys.exit(f"nothing can be forked from a process with threads: {', '.join(names)}")
    own_package = program[1].partition(".")[0] if program[0] == "-m" else ""
    listed = ImportsFile.read(path)
    arguments, seed = sys.argv, random.Random.seed
    sys.argv = list(program[:1])

    def note_seed(generator: random.Random, a: object = None, version: int = 2) -> None:
        UNSEEDED[:] = [known for known in UNSEEDED if known[1]() is not generator]
        if a is None:
            UNSEEDED.append((_importing(), weakref.ref(generator)))
        seed(generator, a, version)  # type: ignore[arg-type]

    random.Random.seed = note_seed  # type: ignore[method-assign, assignment]
    if listed.seconds is not None:
        _import(listed.modules)
    else:
        tried = ImportsFile([], listed.left, {})
        packages: dict[str, list[str]] = {}
        for name in listed.modules:
            packages.setdefault(name.partition(".")[0], []).append(name)
        packages.pop(own_package, None)
        for package, modules in packages.items():
            _try_package(package, modules, tried)
            if SETS in tried.left.get(package, ""):
                tried.left["everything later"] = f"comes after {package} {SETS}"
                break
        tried.write(path)
    sys.argv, random.Random.seed = arguments, seed  # type: ignore[method-assign]


def _import(modules: Sequence[str]) -> None:
    for name in modules:
        with contextlib.suppress(Exception):  # the script's own import of it will raise again
            importlib.import_module(name)


def _try_package(package: str, modules: Sequence[str], tried: ImportsFile) -> None:
    """Import a package's modules if they are worth it, without those that must be left."""
    if sys.modules.keys() >= {*modules}:  # with another package
        return
    reason, took_s = _try(modules)
    if took_s < WORTH_S and not reason:
        return
    tried.seconds[package] = took_s  # type: ignore[index]
    if reason and package in modules and (why := _try([package])[0]):
        tried.left[package] = why
    else:
        _import_without(reason, modules, tried)


def _import_without(reason: str, modules: Sequence[str], tried: ImportsFile) -> None:
    """Import modules, without those that must be left for a reason; it is empty if none must."""
    if not reason:
        _import(modules)
        tried.modules.extend(modules)
    elif len(modules) == 1:
        tried.left[modules[0]] = reason
    else:
        half = len(modules) // 2
        for part in (modules[:half], modules[half:]):
            _import_without(_try(part)[0], part, tried)


def _try(modules: Sequence[str]) -> tuple[str, float]:
    """Import modules in a child; return why they must be left, if they must, and the time (s)."""
    answer, output = os.memfd_create("answer"), os.memfd_create("output")
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(TRIAL_S)
        with contextlib.suppress(BaseException):
            os.write(answer, json.dumps(_watched_import(modules, output)).encode())
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    data = os.pread(answer, 2**20, 0)
    os.close(answer)
    os.close(output)
    if not data:
        return f"cannot be imported ahead: the process that tried ended with status {status}", 0.0
    reason, took_s = json.loads(data)
    return reason, took_s


def _watched_import(modules: Sequence[str], output: int) -> tuple[str, float]:
    """Import modules in this process, which ends afterwards; return as ``_try``."""
    noted: list[str] = []
    _watch(lambda effect: noted.append(f"{_importing()} {effect}"))
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    before, variables = _state(output), dict(os.environ)
    began_s = time.perf_counter()
    _import(modules)
    took_s = time.perf_counter() - began_s
    after = _state(output)
    # A number that came from a generator which is gone may still be there.
    gone = [module for module, generator in UNSEEDED if generator() is None]
    # Later notes do not count: the fork below runs hooks of packages.
    noted = [*noted, *(f"{module} {DRAWS}" for module in gone)]
    reasons = [reason for reason in noted if not _is_harmless(*reason.split(" ", 1))]
    reasons += [name for name in before if before[name] != after[name] and name != "threads"]
    if before["threads"] != after["threads"] and (names := _remaining_threads()):
        reasons.append(f"starts threads: {', '.join(names)}")
    if reasons and os.environ != variables:  # what it imports afterwards may read them
        reasons.append(SETS)
    return ", ".join(dict.fromkeys(reasons)), took_s


def _is_harmless(module: str, effect: str) -> bool:
    """Return whether what a module does while it is imported makes no difference to a fork."""
    if effect not in {DRAWS, KEEPS_PID}:
        return False
    if f"{module}.".startswith(tuple(f"{name}." for name in HARMLESS_DRAWS)):
        return True
    pid = re.compile(rf"(?<!\d){threading.get_native_id()}(?!\d)")
    values = list(vars(sys.modules[module]).values()) if module in sys.modules else []
    kept = any(isinstance(value, (int, str)) and pid.search(str(value)) for value in values)
    return effect == KEEPS_PID and not kept


def _watch(note: Callable[[str], None]) -> None:
    """Have a function called with what is done to this process from now on, in words."""
    tempfile.gettempdir()  # draws a name only once
    UNSEEDED.clear()
    draw, get_pid, seed = os.urandom, os.getpid, random.Random.seed

    def note_pid() -> int:
        note(KEEPS_PID)
        return get_pid()

    def note_draw(size: int) -> bytes:
        note(DRAWS)
        return draw(size)

    def note_seed(generator: random.Random, a: object = None, version: int = 2) -> None:
        if a is not None and generator is random._inst:  # noqa: SLF001
            note("sets the seed of random")
        seed(generator, a, version)  # type: ignore[arg-type]

    class Arguments(list):  # type: ignore[type-arg]
        def __getitem__(self, at):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN204
            note("reads the arguments")
            return super().__getitem__(at)

        def __iter__(self) -> Iterator[str]:
            note("reads the arguments")
            return super().__iter__()

    def note_event(event: str, _: tuple[object, ...]) -> None:
        if event in {"tempfile.mkdtemp", "tempfile.mkstemp"}:
            note("makes temporary files")

    os.urandom = random._urandom = note_draw  # type: ignore[attr-defined] # noqa: SLF001
    os.getpid = note_pid
    random.Random.seed = note_seed  # type: ignore[method-assign, assignment]
    random.seed = random._inst.seed  # noqa: SLF001 (a bound method)
    sys.argv = Arguments(sys.argv)
    sys.addaudithook(note_event)


def _importing() -> str:
    """Return the name of the module that is being imported."""
    frame = sys._getframe(1)  # noqa: SLF001 (CPython's, as documented)
    while frame.f_back is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


def _state(output: int) -> dict[str, object]:
    """Return what an import must not change, by the words that say what it would do."""
    mask = os.umask(0)
    os.umask(mask)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # an import may have replaced or closed it
            stream.flush()
    state: dict[str, object] = {
        "starts threads": threading.active_count(),
        "threads": len(os.listdir("/proc/self/task")),
        "starts processes": _children(),
        "keeps files open": _open_files(),
        "prints": os.fstat(output).st_size,
        "handles signals": [signal.getsignal(number) for number in signal.valid_signals()],
        "changes the working directory": os.getcwd(),
        "changes the file mode mask": mask,
    }
    cuda, numpy, torch = map(sys.modules.get, ("torch.cuda", "numpy.random", "torch"))
    state["initialises CUDA"] = bool(getattr(cuda, "is_initialized", bool)())
    # An import that loads these may seed them, too. Seeds from entropy are known by these marks.
    twister = numpy.get_state() if numpy is not None else (0, 0, FROM_ENTROPY)
    state["sets the seed of numpy"] = str(twister) if twister[2] != FROM_ENTROPY else None
    seed = torch.initial_seed() if torch is not None else LEAST_ENTROPY
    state["sets the seed of torch"] = seed if seed < LEAST_ENTROPY else None
    return state


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
    return sorted(name for name in names if not name.startswith(JEMALLOC))[1:]


def _children() -> str:
    """Return the ids of this process's children; empty if the kernel does not list them."""
    with contextlib.suppress(OSError), open("/proc/thread-self/children") as file:
        return file.read()
    return ""


def _open_files() -> set[str]:
    """Return the files that this process has open, without character devices and CPUs' facts.

    oneDNN in torch for Arm leaves files about the first CPU open, which nothing reads again.
    """
    paths = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not stat.S_ISCHR(os.stat(int(descriptor)).st_mode):
                paths.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return {path for path in paths if not path.startswith(CPU_FACTS)}


# ---- in each model


def renew() -> None:
    """Give this forked process the random states and threads that a fresh one gets by itself.

    Python's global generator reseeds itself; torch's others are made when they are used.
    """
    for _, known in UNSEEDED:
        if (generator := known()) is not None:
            generator.seed()
    threading.main_thread()._set_native_id()  # type: ignore[attr-defined] # noqa: SLF001 (as 3.13)
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
