"""What takes a loader's place: batches from memory, a loader that is switched, or no transfer.

Each is put around every loader of the script (see ``loaders``), in the training thread alone. The
batches from memory are the loader's first ones. Standard library and torch only.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import queue
import sys
import threading
import time
from collections import Counter
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling_study.member import loader_ways, loaders
from scaling_study.member.loader_ways import AS_IT_IS, FROM_MEMORY, NEW, NOTHING, Ask, Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torch import Tensor

    from scaling_study.member.loaders import Fetch, Fetcher, Makes, Trainer

    Gives = Callable[[Makes, Trainer, object], Iterator[object]]

# Files that are opened are named in one of this name and the slot's.
OPENED = "opened-"
MOST_FILES = 100_000
# Nobody's data.
NO_DATA = ("/proc/", "/sys/", "/dev/", "/usr/", "/etc/", "/lib/", sys.prefix + "/")

# Enough for the batches to differ, few enough to stay in memory.
CACHED_BATCHES = 8

# A loader that runs beside batches from memory looks so often whether its rate is known.
LOOK_S = 0.01

_held: Counter[str] = Counter()
_facts: dict[str, object] = {}
_filling = threading.local()


def change(name: str, member: Trainer, further: Sequence[str]) -> None:
    """Put one of KINDS around every loader."""
    if name == "loader_switched":
        _held[name] += 1  # a script without a loader has nothing to switch
        loader_ways.allow_whole()
    put(KINDS[name], member, further)


def put(
    gives: Gives,
    member: Trainer,
    further: Sequence[str],
) -> None:
    """Put something around what every loader gives to this thread.

    Args:
        gives: takes what makes the loader's own iterator, the member and the loader, and returns
            the iterator that the script gets.
        member: this process's.
        further: kinds that the config names (see ``loaders``).
    """
    loaders.wrap(functools.partial(_around, gives, member, _here()), further)


def _here() -> tuple[int, int]:
    """This process and thread; one that was forked has its parent's thread, and is another."""
    return os.getpid(), threading.get_ident()


def holds(name: str) -> bool:
    """Whether it has taken a loader's place."""
    return _held[name] > 0


def facts() -> dict[str, object]:
    """Return, as JSON data, what the readback says of batches from memory."""
    return dict(_facts)


def _around(
    gives: Gives,
    member: Trainer,
    trainer: tuple[int, int],
    inner: Makes,
) -> Makes:
    def makes(loader: object, *args: object, **kwargs: object) -> Iterator[object]:
        # A loader inside of a loader, or in a thread or process of another one, is a part of it.
        if _here() != trainer or getattr(_filling, "on", False):
            return inner(loader, *args, **kwargs)

        def make(one: object = loader) -> Iterator[object]:
            return _whole(lambda: inner(one, *args, **kwargs))

        return gives(make, member, loader)

    return makes


def _whole(make: Callable[[], Iterator[object]]) -> Iterator[object]:
    """Give what the loader itself gives, with all that is inside of it as it is."""
    _filling.on = True
    try:
        iterator = make()
    finally:
        _filling.on = False
    return _untouched(iterator)


def _untouched(iterator: Iterator[object]) -> Iterator[object]:
    while True:
        _filling.on = True
        try:
            batch = next(iterator)
        except StopIteration:
            return
        finally:
            _filling.on = False
        yield batch


# ---- batches from memory


def _cached(make: Makes, _: Trainer, loader: object) -> Iterator[object]:
    batches = _batches(make, loader)
    _held["cached_batches"] += bool(batches)
    return _again(batches, loader)


def _beside(make: Makes, member: Trainer, loader: object) -> Iterator[object]:
    """Train from memory, while the loader goes on at the rate that the coordinator tells.

    A pipeline that gives one epoch is over once that is; the script then makes another one. A
    loader without workers makes its batches in the training thread, and has nothing to go on.
    """
    again = _again(_batches(make, loader), loader)
    if loaders.facts(loader).workers == 0:
        yield from again
        return
    taker: _Taker | None = loader.__dict__.get("_study_taker")
    for batch in again:
        if taker is None:
            taker = loader.__dict__["_study_taker"] = _Taker(member)
            _held["loader_beside"] += 1
        if not taker.goes_on(make):
            return
        yield batch


class _Taker:
    """A thread that takes a loader's batches at the rate that is told, and throws them away.

    It is given its iterators by the training thread. A worker that it forked itself would wait for
    ever for a lock that the training thread held just then (torch's and the C library's are not
    made anew in a child).
    """

    def __init__(self, member: Trainer) -> None:
        self._asked = member.asked
        self._epochs: queue.SimpleQueue[Iterator[object]] = queue.SimpleQueue()
        self._wants, self._over = True, False
        threading.Thread(target=self._take, daemon=True).start()

    def goes_on(self, make: Makes) -> bool:
        """Begin the next epoch if the last one is over; return whether there was anything in it."""
        if self._wants and not self._over:
            self._wants = False
            self._epochs.put(make())
        return not self._over

    def _take(self) -> None:
        due = time.perf_counter()
        while not self._over:
            taken = 0
            for taken, _ in enumerate(self._epochs.get(), start=1):  # noqa: B007 (looked at below)
                while not (every_s := self._asked() / 1e9):
                    time.sleep(LOOK_S)
                    due = time.perf_counter()
                due = max(due + every_s, time.perf_counter() - every_s)
                time.sleep(max(0.0, due - time.perf_counter()))
            self._over = not taken
            self._wants = True


def _switched(make: Makes, member: Trainer, loader: object) -> Iterator[object]:
    """Give in each step what the coordinator asks for: see ``asked``.

    A batch from memory has the place of a new one that was waited for and thrown away, or of none.
    So the same process, with its memory where it lies, trains in all of these ways.
    """
    again = itertools.cycle(_batches(make, loader))
    facts, sources = loaders.facts(loader), Sources(make, loader, member.holds_ready)
    asks = _asks(member, settable=facts.settable)
    if facts.by_row:
        loader_ways.whole_possible(loader)  # which the readback tells
    for _ in _epoch(loader):
        gives, way = asks()
        while gives == NOTHING:
            if not _takes_one(sources, way):
                return
            member.step_end()
            gives, way = asks()
        if gives != FROM_MEMORY:
            try:
                batch = sources.next(way)
            except StopIteration:
                return
        if gives == NEW:
            yield batch
            del batch
        else:
            batch = None
            yield next(again).take()


def _asks(member: Trainer, *, settable: bool) -> Callable[[], tuple[int, Ask]]:
    """Return what reads what a loader is asked for: what the script gets, and the way to load.

    One that is iterated over without gradients is for validation: it gives batches, whatever is
    asked. Another one than torch's has its own way only.
    """
    import torch  # noqa: PLC0415 (as above)

    known: dict[int, tuple[int, Ask]] = {}
    trains = torch.is_grad_enabled()

    def asks() -> tuple[int, Ask]:
        code = member.asked()
        if code not in known:
            ask = Ask.of(code)
            gives = NEW if ask.gives == NOTHING and not trains else ask.gives
            known[code] = gives, ask.way if settable else AS_IT_IS
        return known[code]

    return asks


def _takes_one(sources: Sources, way: Ask) -> bool:
    """Take a batch and throw it away; return whether there was one, in this epoch or the next."""
    for _ in range(2):
        try:
            sources.next(way)
        except StopIteration:
            sources.again(way)
        else:
            return True
    return False


def _batches(make: Makes, loader: object) -> list[Batch]:
    """Return a loader's first batches, taken once; those of pipelines serve the next ones too."""
    kind = type(loader)
    holder = loader if hasattr(kind, "__len__") else kind
    batches: list[Batch] | None = holder.__dict__.get("_study_batches")
    if batches is None:
        batches = [Batch(one) for one in itertools.islice(make(), CACHED_BATCHES)]
        setattr(holder, "_study_batches", batches)  # noqa: B010 (ours, wherever it lies)
        _facts["cached_batches"] = len(batches)
        _facts["cached_bytes"] = sum(batch.bytes for batch in batches)
        _facts.setdefault("copied", False)
    return batches


def _again(batches: Sequence[Batch], loader: object) -> Iterator[object]:
    """Give them again and again, in epochs of the loader's length where it has one."""
    pairs = zip(itertools.cycle(batches), _epoch(loader))
    return (batch.take() for batch, _ in pairs)


def _epoch(loader: object) -> Iterable[object]:
    """Return as many of something as an epoch of the loader has batches, if it knows that."""
    batches = loaders.length(loader)
    return itertools.repeat(None) if batches is None else range(batches)


class Batch:
    """A batch in memory: as it was, whatever the script does to it.

    torch counts what is done to a tensor in place: once that has happened to any batch, copies are
    given. Arrays of other kinds are always copied.
    """

    def __init__(self, value: object) -> None:
        self._value = value
        self._tensors = _tensors(value)
        self._others = _has_arrays(value)
        self._kept = _copy(value)
        self._versions = self._seen()
        self.bytes = sum(tensor.nbytes for tensor in self._tensors)

    def _seen(self) -> list[int]:
        return [tensor._version for tensor in self._tensors]  # noqa: SLF001 (autograd's own count)

    def take(self) -> object:
        """Return it."""
        if self._others or self._seen() != self._versions:
            _facts["copied"] = True
        return _copy(self._kept) if _facts.get("copied") else self._value


def _parts(value: object) -> Iterator[object]:
    """Return a batch's tensors and arrays: collate functions make tuples, lists and dicts."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _parts(one)
    else:
        yield value


def _tensors(value: object) -> list[Tensor]:
    import torch  # noqa: PLC0415 (the script's to import first)

    # Inference tensors count nothing, and cannot be changed where they are trained on.
    return [
        one for one in _parts(value) if isinstance(one, torch.Tensor) and not one.is_inference()
    ]


def _has_arrays(value: object) -> bool:
    return any(hasattr(one, "__array_interface__") for one in _parts(value))


def _copy(value: object) -> object:
    import torch  # noqa: PLC0415 (as above)

    if isinstance(value, dict):
        return type(value)({key: _copy(one) for key, one in value.items()})
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(map(_copy, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copy, value))
    if isinstance(value, torch.Tensor):
        return value.clone()
    return methodcaller("copy")(value) if hasattr(value, "__array_interface__") else value


# ---- workers that make their batches and do not send them


class _Token:
    """Stands for a batch that a worker has made and not sent."""


def send_nothing(member: Trainer, further: Sequence[str]) -> None:
    """Have workers make their batches and keep them: training is on the loader's first ones.

    What batches take to get from one process to another is missing, and nothing else.
    """
    owner = os.getpid()

    def kept(fetcher: Fetcher, fetch: Fetch) -> Fetch:
        if os.getpid() == owner:
            return fetch
        # What the training process holds already, it held when this worker was forked.
        held = len(loaders.notes(fetcher.dataset).batches) == CACHED_BATCHES
        left = itertools.count(0 if held else CACHED_BATCHES, -1)

        def keep(indices: object) -> object:
            batch = fetch(indices)
            return batch if next(left) > 0 else _Token()

        return keep

    loaders.around_fetch(kept)
    put(_from_tokens, member, further)


def _from_tokens(make: Makes, _: Trainer, loader: object) -> Iterator[object]:
    """Give a batch from memory for each that a worker has made."""
    _held["no_copies"] += bool(loaders.facts(loader).workers)
    batches = loaders.notes(getattr(loader, "dataset", None)).batches
    again = itertools.cycle(range(CACHED_BATCHES))
    for batch in make():
        if isinstance(batch, _Token):
            yield batches[next(again)].take()
            continue
        if len(batches) < CACHED_BATCHES:
            batches.append(Batch(batch))
        yield batch


# ---- the loader's files


def note_files(member: Trainer, _: Sequence[str]) -> None:
    """Have the paths of files that are opened for reading written down, a line for each.

    Worker processes inherit the hook. What is opened by libraries without Python's knowledge is not
    seen.
    """
    _held["files_noted"] += 1
    path = member.folder / f"{OPENED}{member.slot}"
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    known: set[object] = set()

    def note(event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or args[0] in known or len(known) == MOST_FILES:
            return
        opened, mode, flags = args
        if isinstance(opened, int) or (flags or 0) & os.O_ACCMODE != os.O_RDONLY or mode == "w":
            return
        known.add(opened)
        with contextlib.suppress(OSError, ValueError):  # no descriptor is left, or no such text
            line = str(Path(os.fsdecode(opened)).absolute())
            if "\n" not in line and not line.startswith(NO_DATA):
                os.write(log, os.fsencode(line) + b"\n")

    sys.addaudithook(note)


KINDS: dict[str, Gives] = {
    "cached_batches": _cached,
    "loader_beside": _beside,
    "loader_switched": _switched,
}
"""What can take a loader's place, by the name of the change."""
