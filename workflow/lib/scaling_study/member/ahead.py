"""Imports that are made once, before models are forked from a process.

The first model lists the modules that it had imported by its end, up to the point where the script
itself changes a variable: a library may read a variable while it is imported. Then the server has a
child of its own, the scout, import the listed modules and watch what each of them does. A package
is imported ahead if its modules take long, and if a fork of the server then looks to the script as
a fresh process does. All else is left to each model:

- modules that start threads or processes, keep files open, make temporary files, print, read the
  arguments, draw random numbers that stay, or change random states, signal handlers, the working
  directory or the file mode mask (umask);
- modules that import such modules;
- modules of the script, which may change.

A fork inherits variables, warning filters and exit handlers that an import leaves behind, so these
are as in a fresh process. Generators that were seeded with entropy are seeded anew in each model.

The file is JSON: ``modules``, in order; ``left``, reasons by module; ``seconds``, the time that
each package's modules took in the scout, or null before it has run. Standard library only; this
file is loaded by its path.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import importlib
import json
import os
import random
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
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    Seed = Callable[..., None]

WORTH_S = 0.05
"""A package whose own modules take less time is left to the models, or to what imports it."""

SCOUT_S = 600
"""Importing takes longer only if it hangs."""

# jemalloc's threads only give memory back; a child starts its own (``renew``).
JEMALLOC = "jemalloc"

# These draw numbers while they are imported. No two models would notice that they have the same
# ones: names that are unique in a process, the key with which multiprocessing's processes know each
# other, or examples in a docstring. numpy's generator is seeded anew.
HARMLESS_DRAWS = (
    "dask", "distributed", "multiprocessing.process", "numpy.random", "ray", "scipy.stats",
    "sympy.core.symbol", "torch.distributed", "transformers.utils.hub",
)  # fmt: skip


class Plan(NamedTuple):
    """The content of the file."""

    modules: list[str]
    left: dict[str, str]
    seconds: dict[str, float] | None = None

    @classmethod
    def read(cls, path: str) -> Plan:
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
    folders = _installed_folders()
    known = set(sys.modules)
    frozen: list[str] = []
    left: dict[str, str] = {}

    def note(event: str, values: tuple[object, ...]) -> None:
        if event not in {"os.putenv", "os.unsetenv"} or left:
            return
        name, *value = [os.fsdecode(item) for item in values if isinstance(item, bytes)]
        if os.environ.get(name) == (value[0] if value else None) or _is_installed_code(folders):
            return
        frozen.extend(sys.modules)
        left["everything later"] = (
            f"comes after the script changes {name} (export it before, or set it in workload.env)"
        )

    def write() -> None:
        modules = [
            name
            for name in (frozen if left else list(sys.modules))
            if name not in known and _is_installed(name, sys.modules.get(name), folders)
        ]
        Plan(modules, left).write(path)

    sys.addaudithook(note)
    return write


def _is_installed_code(folders: tuple[str, ...]) -> bool:
    """Return whether an installed module sets the variable, as it will again."""
    frame = sys._getframe(2)  # noqa: SLF001 (CPython's, as documented)
    while frame.f_back is not None and frame.f_globals["__name__"] in {"os", "collections.abc"}:
        frame = frame.f_back
    return os.path.realpath(frame.f_code.co_filename).startswith(folders)


def _installed_folders() -> tuple[str, ...]:
    """Return the folders of Python's own modules and of installed ones."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [*map(sysconfig.get_path, names), *site.getsitepackages(), site.getusersitepackages()]
    return tuple(os.path.join(os.path.realpath(folder), "") for folder in folders if folder)


def _is_installed(name: str, module: object, folders: tuple[str, ...]) -> bool:
    """Return whether a module is from a file in these folders, and has this name."""
    spec = getattr(module, "__spec__", None)
    if spec is None or spec.name != name or spec.origin is None:
        return False
    return bool(os.path.realpath(spec.origin).startswith(folders))


# ---- in the process that models are forked from


def load(path: str, program: Sequence[str]) -> bool:
    """Import the modules that a file lists.

    Args:
        path: the file. The first server to use it has a scout complete it.
        program: the program; if it is a module, its package is left to the models.

    Returns:
        False if a module that must be left has been imported: this process must not be forked.

    Raises:
        SystemExit: this process has threads before any import.
    """
    if names := _remaining_threads():
        sys.exit(f"nothing can be forked from a process with threads: {', '.join(names)}")
    if Plan.read(path).seconds is None:
        _scout(path, program[1].partition(".")[0] if program[0] == "-m" else "")
    plan = Plan.read(path)
    arguments, seed = sys.argv, random.Random.seed
    sys.argv = list(program[:1])
    random.Random.seed = _noting(seed, UNSEEDED)  # type: ignore[method-assign]
    for name in plan.modules:
        with contextlib.suppress(Exception):  # the script's own import of it will raise again
            importlib.import_module(name)
        if cause := next((module for module in plan.left if module in sys.modules), None):
            # The scout has not seen that import, because the module was there already.
            modules = [module for module in plan.modules if not f"{module}.".startswith(f"{name}.")]
            Plan(modules, {**plan.left, name: f"imports {cause}"}, plan.seconds).write(path)
            return False
    sys.argv, random.Random.seed = arguments, seed  # type: ignore[method-assign]
    return True


UNSEEDED: list[weakref.ref[random.Random]] = []
"""Python's generators that were seeded with entropy during the imports."""


def _noting(seed: Seed, unseeded: list[weakref.ref[random.Random]]) -> Seed:
    """Have ``random.Random.seed`` note the generators that it seeds with entropy."""

    def note(generator: random.Random, a: object = None, version: int = 2) -> None:
        unseeded[:] = [known for known in unseeded if known() is not generator]
        if a is None:
            unseeded.append(weakref.ref(generator))
        seed(generator, a, version)

    return note


def _scout(path: str, package: str) -> None:
    """Have a child complete the file: it imports the modules, and ends."""
    plan = Plan.read(path)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SCOUT_S)
        status = 1
        try:
            Scout(plan, package).complete().write(path)
            status = 0
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:  # it crashed, or hangs
        reason = f"cannot be imported ahead: the process that tried ended with status {status}"
        Plan([], {**plan.left, "everything": reason}, {}).write(path)


class Scout:
    """Imports modules, and notes what each of them does to this process, which ends afterwards.

    Args:
        plan: what to import.
        package: the program's own package; empty if it is a script.
    """

    def __init__(self, plan: Plan, package: str) -> None:
        self._plan, self._package = plan, package
        self._reasons: dict[str, str] = {}
        self._needs: dict[str, set[str]] = {}
        self._seconds: dict[str, float] = {}
        self._running: list[str] = []
        self._inner_s = [0.0]
        # Of these things it is only noted that they happen.
        self._draws = self._reads = self._temporary = self._seeds = 0
        self._unseeded: list[weakref.ref[random.Random]] = []
        self._output = os.memfd_create("output")

    def complete(self) -> Plan:
        """Import the modules; return the plan for the server."""
        for descriptor in (1, 2):
            os.dup2(self._output, descriptor)
        self._watch()
        for name in self._plan.modules:
            if name.partition(".")[0] != self._package and name not in self._plan.left:
                try:
                    importlib.import_module(name)
                except BaseException as error:  # noqa: BLE001 (the script imports it otherwise)
                    self._reasons.setdefault(name, f"cannot be imported alone ({error})")
        costs: dict[str, float] = {}
        for name, own_s in self._seconds.items():
            package = name.partition(".")[0]
            costs[package] = costs.get(package, 0.0) + own_s
        left = self._left()
        modules = [
            name
            for name in self._plan.modules
            if name not in left
            and name.partition(".")[0] != self._package
            and costs.get(name.partition(".")[0], 0.0) >= WORTH_S
        ]
        return Plan(modules, {**self._plan.left, **self._reasons}, costs)

    def _left(self) -> set[str]:
        """Return the modules to leave: those with a reason, and all that import them."""
        needed_by: dict[str, set[str]] = {}
        for name, needs in self._needs.items():
            # A package may have no file, so that nothing is known of it.
            above = [name[:at] for at, character in enumerate(name) if character == "."]
            for need in (*needs, *above):
                needed_by.setdefault(need, set()).add(name)
        left, waiting = set[str](), {*self._plan.left, *self._reasons}
        while waiting:
            name = waiting.pop()
            left.add(name)
            waiting |= needed_by.get(name, set()) - left
        return left

    def _watch(self) -> None:
        """Watch all imports from now on."""
        tempfile.gettempdir()  # draws a name only once
        for loader in (SourceFileLoader, ExtensionFileLoader):
            self._watch_loader(loader)
        inner = builtins.__import__

        def note_import(
            name: str,
            globals: dict[str, object] | None = None,  # noqa: A002 (as Python calls it)
            locals: dict[str, object] | None = None,  # noqa: A002 (as above)
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> ModuleType:
            module = inner(name, globals, locals, fromlist or (), level)
            if self._running:
                base = getattr(module, "__name__", name) if fromlist else name
                names = [base, *(f"{base}.{item}" for item in fromlist or ())]
                needs = self._needs.setdefault(self._running[-1], set())
                needs.update(found for found in names if found in sys.modules)
            return module

        builtins.__import__ = note_import  # type: ignore[assignment]

        scout = self

        class Arguments(list):  # type: ignore[type-arg]
            def __getitem__(self, at):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN204
                scout._reads += 1
                return super().__getitem__(at)

            def __iter__(self) -> Iterator[str]:
                scout._reads += 1
                return super().__iter__()

        sys.argv = Arguments(sys.argv)
        self._watch_entropy()
        sys.addaudithook(self._note_event)

    def _watch_entropy(self) -> None:
        draw, seed = os.urandom, _noting(random.Random.seed, self._unseeded)

        def note_draw(size: int) -> bytes:
            self._draws += 1
            return draw(size)

        def note_seed(generator: random.Random, a: object = None, version: int = 2) -> None:
            self._seeds += a is not None and generator is random._inst  # noqa: SLF001
            seed(generator, a, version)

        os.urandom = random._urandom = note_draw  # type: ignore[attr-defined] # noqa: SLF001
        random.Random.seed = note_seed  # type: ignore[method-assign, assignment]
        random.seed = random._inst.seed  # noqa: SLF001 (it was bound to the class's own)

    def _note_event(self, event: str, _: tuple[object, ...]) -> None:
        if event in {"tempfile.mkdtemp", "tempfile.mkstemp"}:
            self._temporary += 1

    def _watch_loader(self, kind: type[SourceFileLoader | ExtensionFileLoader]) -> None:
        execute = kind.exec_module

        def exec_module(loader: object, module: ModuleType) -> None:
            name, before, known = module.__name__, self._state(), len(self._unseeded)
            if self._running:
                self._needs.setdefault(self._running[-1], set()).add(name)
            self._needs.setdefault(name, set())
            self._running.append(name)
            noted = set(self._reasons)
            self._inner_s.append(0.0)
            began_s = time.perf_counter()
            try:
                execute(loader, module)  # type: ignore[arg-type]
            finally:
                took_s = time.perf_counter() - began_s
                self._seconds[name] = took_s - self._inner_s.pop()
                self._running.pop()
                if self._reasons.keys() == noted:  # otherwise a module in it is the reason
                    self._judge(name, before, self._state(), self._unseeded[known:])
                del self._unseeded[known:]
                self._inner_s[-1] += time.perf_counter() - began_s

        kind.exec_module = exec_module  # type: ignore[method-assign, assignment]

    def _state(self) -> dict[str, object]:
        """Return what an import must not change, by the reason to leave a module that does."""
        mask = os.umask(0)
        os.umask(mask)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # an import may have replaced or closed it
                stream.flush()
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy.random")
        torch_seed = getattr(torch, "initial_seed", None)
        numpy_state = getattr(numpy, "get_state", None)
        handlers = [signal.getsignal(number) for number in signal.valid_signals()]
        state: dict[str, object] = {
            "starts threads": threading.active_count(),
            "threads": len(os.listdir("/proc/self/task")),
            "starts processes": _children(),
            "keeps files open": _open_files(),
            "makes temporary files": self._temporary,
            "prints": os.fstat(self._output).st_size,
            "reads the arguments": self._reads,
            "draws random numbers": self._draws,
            "sets the seed of a generator": self._seeds,
            "handles signals": handlers,
            "changes the working directory": os.getcwd(),
            "changes the file mode mask": mask,
            "initialises CUDA": _uses_cuda(),
        }
        if numpy_state is not None:
            state["sets the seed of numpy"] = numpy_state()[1].tobytes()
        if torch_seed is not None:
            state["sets the seed of torch"] = torch_seed()
        return state

    def _judge(
        self,
        name: str,
        before: dict[str, object],
        after: dict[str, object],
        unseeded: list[weakref.ref[random.Random]],
    ) -> None:
        """Note the reason to leave a module, if there is one."""
        changed = [reason for reason in before if after[reason] != before[reason]]
        if "threads" in changed:
            changed.remove("threads")
            if names := _remaining_threads():
                changed.append(f"starts threads: {', '.join(names)}")
        # A number that came from a generator which is gone may still be there.
        if any(generator() is None for generator in unseeded):
            changed.append("draws random numbers")
        if f"{name}.".startswith(tuple(f"{package}." for package in HARMLESS_DRAWS)):
            changed = [reason for reason in changed if reason != "draws random numbers"]
            self._draws = before["draws random numbers"]  # type: ignore[assignment]
        if changed:
            self._reasons[name] = ", ".join(dict.fromkeys(changed))


def _uses_cuda() -> bool:
    cuda = sys.modules.get("torch.cuda")
    return bool(getattr(cuda, "is_initialized", bool)())


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
    with contextlib.suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children") as file:
        return file.read()
    return ""


def _open_files() -> set[str]:
    """Return the files that this process has open, without character devices."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not stat.S_ISCHR(os.stat(int(descriptor)).st_mode):
                found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return found


# ---- in each model


def renew() -> None:
    """Give this forked process the random states and threads that a fresh one gets by itself.

    Python's global generator reseeds itself; torch's others are made when they are used.
    """
    for known in UNSEEDED:
        if (generator := known()) is not None:
            generator.seed()
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
