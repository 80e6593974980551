"""Faults in the step of a training script."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import mmap
import os
import queue
import random
import threading
import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

# ruff: noqa: PLC0415 (torch is the script's to import first)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# About how long each takes; the doses of a fault differ with the machine.
DENORMAL_S = 21e-6  # what denormals add to a call of `denormals`
COMPILE_S = 10e-3  # to compile a small function
PAGE_READ_S = 0.1e-3  # to read a page from a fast disk

INJECTED: set[str] = set()
"""Into this process; a script that starts again imports this module no second time."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A dose of a fault: about so many seconds of a step, or the control without what is slow."""

    seconds: float
    folder: Path
    control: bool


def before_each_step(call: Callable[[], object]) -> None:
    """Have torch call something before each optimizer's step."""
    from torch.optim import optimizer

    def hook(*_: object) -> None:
        call()

    optimizer.register_optimizer_step_pre_hook(hook)


def work(seconds: float, call: Callable[[], object] = lambda: None) -> None:
    """Call something again and again for this much CPU time, however long that takes."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        call()


def bound(_: Asked) -> None:
    """Set OMP_PROC_BIND=true before torch is imported, as a script may.

    libgomp then binds the first thread of every process to the first place, CPU 0 (OpenMP 5.2,
    section 6.4 and 21.1.8): processes that know nothing of each other share one CPU while others
    idle.
    """
    os.environ["OMP_PROC_BIND"] = "true"


def pause(asked: Asked) -> None:
    """Pause in every step, as a script does that polls a service or keeps to a rate."""
    before_each_step(lambda: time.sleep(asked.seconds))


def collector(_: Asked) -> None:
    """Collect garbage in every step, as some do to save memory.

    What it costs depends on how many objects there are: with torch imported, some hundred thousand.
    """
    before_each_step(gc.collect)


def gil(asked: Asked) -> None:
    """Have a thread work after every step and hold the interpreter's lock for most of that time.

    One that formats metrics does so. The next step does not wait for it to end, the one after that
    does.
    """
    _beside_each_step(lambda: work(asked.seconds))


def helper(asked: Asked) -> None:
    """Have such a thread hold no lock: it needs a CPU of its own."""
    block = bytes(1 << 16)  # hashlib gives the lock away for more than 2 KiB
    _beside_each_step(lambda: work(asked.seconds, lambda: hashlib.sha256(block)))


def _beside_each_step(call: Callable[[], None]) -> None:
    steps: queue.Queue[None] = queue.Queue(maxsize=1)

    def serve() -> None:
        while True:
            steps.get()
            call()

    threading.Thread(target=serve, daemon=True).start()
    before_each_step(lambda: steps.put(None))


def denormals(asked: Asked) -> None:
    """Compute the exponential of squares so small that they are denormal numbers.

    So do second moments of gradients that have all but vanished, or states that have decayed. The
    control computes with ordinary numbers. Which operations denormals slow down differs between
    CPUs; MKL's exponential, which torch calls, has a slower path for them on all of them.
    """
    import torch

    size = 1 << 14  # stays in an L2 cache
    # The square is below float's smallest normal number, 1.2e-38.
    value = 5e-2 if asked.control else 5e-20
    calls = round(asked.seconds / DENORMAL_S)
    state = value * (1 + torch.rand(size, generator=torch.Generator().manual_seed(1)))
    square, gate = torch.empty(size), torch.empty(size)

    def compute_gate() -> None:
        for _call in range(calls):
            # Made anew each time: who flushes denormals never gets one.
            torch.mul(state, state, out=square)
            torch.exp(square, out=gate)

    before_each_step(compute_gate)


def recompiling(asked: Asked) -> None:
    """Compile a small function for inputs of another shape in every few steps.

    In the control all inputs have one shape.
    """
    import torch

    kept = 32  # each compiled shape is compared with all that follow
    torch._dynamo.config.recompile_limit = 2 * kept  # noqa: SLF001
    every = max(1, round(COMPILE_S / asked.seconds))
    steps = count()

    def mean(values: torch.Tensor) -> torch.Tensor:
        return (values * 2 + 1).relu().mean()

    compiled = torch.compile(mean, backend="eager", dynamic=False)

    def compile_one() -> None:
        number, rest = divmod(next(steps), every)
        if rest:
            return
        if not asked.control and number % kept == 0:
            torch._dynamo.reset()  # noqa: SLF001
        compiled(torch.ones(1 if asked.control else 2 + number % kept))

    before_each_step(compile_one)


def mapped(asked: Asked) -> None:
    """Read pages of a mapped file that are not in memory in every step, each from the disk.

    So does training on a data set that is mapped (numpy.memmap) and larger than memory. In the
    control the pages stay in memory.
    """
    file_pages = 4096
    pages = round(asked.seconds / PAGE_READ_S)
    path = asked.folder / f"mapped-{os.getpid()}"
    with path.open("wb") as file:
        file.write(bytes(range(256)) * (file_pages * mmap.PAGESIZE // 256))
        file.flush()
        os.fsync(file.fileno())  # what is not on the disk yet cannot be given up
    number = os.open(path, os.O_RDONLY)
    path.unlink()
    data = mmap.mmap(number, 0, prot=mmap.PROT_READ)
    data.madvise(mmap.MADV_RANDOM)  # no reading ahead
    choose = random.Random(0)  # noqa: S311 (an order of pages, no secret)

    def read() -> None:
        first = choose.sample(range(0, file_pages * mmap.PAGESIZE, mmap.PAGESIZE), pages)
        if not asked.control:  # what is mapped is not given up
            data.madvise(mmap.MADV_DONTNEED)
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        for at in first:
            data.seek(at)
            data.read_byte()

    before_each_step(read)


def sync(asked: Asked) -> None:
    """Write to a log in every step and wait until the disk has it (fsync(2)).

    Disks take between some tens of µs and some ms for that, so it is repeated until it has taken
    its time. In the control nobody waits for the disk.
    """
    line = bytes(1 << 8)
    path = asked.folder / f"log-{os.getpid()}"
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)

    def save() -> None:
        until = time.perf_counter() + asked.seconds
        os.pwrite(file, line, 0)
        while not asked.control and time.perf_counter() < until:
            os.fsync(file)
            os.pwrite(file, line, 0)

    before_each_step(save)


def file_lock(asked: Asked) -> None:
    """Work under a lock on a file that all processes share (flock(2)).

    The work is CPU time of this thread, so it does not grow when a process waits. In the control
    each process has a lock of its own.
    """
    path = asked.folder / (f"lock-{os.getpid()}" if asked.control else "lock")
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)

    def work_alone() -> None:
        fcntl.flock(file, fcntl.LOCK_EX)
        work(asked.seconds)
        fcntl.flock(file, fcntl.LOCK_UN)

    before_each_step(work_alone)


def slow_exchange(asked: Asked) -> None:
    """Let the exchange of each bucket of gradients between ranks take so much longer."""
    if asked.control:
        return
    from torch import distributed
    from torch.nn.parallel import DistributedDataParallel

    make = DistributedDataParallel.__init__

    def exchange(_: object, bucket: Any) -> Any:
        gradients = bucket.buffer()
        all_reduced = distributed.all_reduce(gradients, async_op=True)

        def late(_: object) -> Any:
            time.sleep(asked.seconds)
            return gradients.div_(distributed.get_world_size())

        return all_reduced.get_future().then(late)

    exchange.__annotations__.clear()  # torch compares them with classes, and these are texts

    def __init__(model: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 (the replaced one's)
        make(model, *args, **kwargs)
        model.register_comm_hook(None, exchange)

    DistributedDataParallel.__init__ = __init__


def slow_rank(asked: Asked) -> None:
    """Have rank 1 compute something of its own before each step."""

    def compute() -> None:
        until = time.perf_counter() + asked.seconds
        while time.perf_counter() < until:
            pass

    if os.environ["RANK"] == "1" and not asked.control:
        before_each_step(compute)


KINDS: tuple[Callable[[Asked], None], ...] = (
    *(bound, pause, collector, gil, helper, denormals, recompiling, mapped, sync),
    *(file_lock, slow_exchange, slow_rank),
)
