"""Micro-benchmarks: how much each part of the machine slows down when more members use it.

Kernels that are each bound by one part run through the same cohorts, placements and windows as
training does. The rate at which one process reads a file from the disk, with nothing else running,
is a ceiling for a data loader: one loader process should expect no more. Several processes get more
from a fast device, which serves many requests at once. The result belongs to the machine, so it is
measured once and kept.
"""

import logging
import mmap
import os
import random
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from scaling_study.common import private
from scaling_study.common.topology import format_cpu_list
from scaling_study.config import process_counts
from scaling_study.experiments import kernel_cohort, kernels
from scaling_study.experiments.conditions import Condition, Variant
from scaling_study.host import page_cache, probe
from scaling_study.launch.axes import placement
from scaling_study.records.codec import read_file, write_file
from scaling_study.records.experiment import DiskRate, KernelRates, Microbenchmarks, NamedKernel
from scaling_study.records.machine import Machine
from scaling_study.records.window import Taken
from scaling_study.runner import cohort, windows
from scaling_study.runner.blocks import Blocks

# Short and frequent windows: machine drift affects all kernels and counts equally.
WINDOW = cohort.WindowSettings(steps=20, shortest_s=0.15, longest_s=1.0, settle_s=0.02)
BLOCKS = 5
FURTHER = 2  # further attempts of a disturbed window

# More counts would take longer and show no more.
MOST_COUNTS = 12

# The file that is read from the disk, a block after the other, for a short time.
FILE_BYTES, BLOCK_BYTES = 1 << 26, 1 << 20
READ_S = 0.4

# With fewer undisturbed windows the result shows other programs as much as the machine.
QUIET_SHARE = 0.5

MODULES = ("experiments/microbenchmarks", "experiments/kernel_cohort", "experiments/kernels")
"""Modules that decide what is measured, besides those that measure."""

log = logging.getLogger("microbenchmarks")


def counts(machine: Machine) -> list[int]:
    """Return the machine's process counts up to its CPUs, at most ``MOST_COUNTS`` of them."""
    topology = machine.usable
    resolved = process_counts.resolve("auto", topology, machine.quota_cpus)
    fitting = [n for n in resolved if n <= len(topology.cpus)]
    step = (len(fitting) - 1) / (MOST_COUNTS - 1)
    return sorted({fitting[round(at * step)] for at in range(MOST_COUNTS)})


def measure(machine: Machine, folder: Path) -> Microbenchmarks:
    """Run every kernel at every count; return the content of microbenchmarks.json.

    Args:
        machine: machine.json.
        folder: a folder on the disk that is measured.
    """
    several = any(len(machine.usable.domains(domain)) > 1 for domain, _ in process_counts.SHARED)
    placements = ["cores", "spread"] if several else ["cores"]  # near each other, and far apart
    rows = [row for name in placements for row in _measure_placement(name, machine)]
    return Microbenchmarks(
        schema_version=1,
        machine=machine.hash,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        kernels=[
            NamedKernel(kernel=name, **each._asdict()) for name, each in kernels.KERNELS.items()
        ],
        rows=rows,
        disk=measure_disk(folder),
    )


def _measure_placement(name: str, machine: Machine) -> list[KernelRates]:
    """Measure one placement, all kernels and counts in randomised blocks."""
    ns = counts(machine)
    slots = placement.slots(name, machine.usable, max(ns), 1)
    where = [(format_cpu_list(slot.cpus or ()), "default") for slot in slots]
    log.info("%d kernels with %s processes, placement %s", len(kernels.KERNELS), ns, name)
    last: dict[tuple[str, int, int], KernelRates] = {}

    def attempt(condition: Condition, window: windows.WindowPlan, number: int) -> Taken:
        taken = condition.attempt(window, number, WINDOW)
        last[condition.variant.name, window.n, window.block] = KernelRates(
            kernel=condition.variant.name,
            placement=name,
            n=window.n,
            block=window.block,
            rates=kernel_cohort.rates(taken),
            valid=taken.valid,
            flags=taken.flags,
        )
        return taken

    with private.folder() as folder, kernel_cohort.make(folder, where, machine) as members:
        if not kernel_cohort.start(members):
            raise RuntimeError(f"kernels did not start: {members.events[-1]}")
        conditions = [
            Condition("kernel", Variant(kernel, asked=kernels.encode(kernel)), members, n)
            for kernel in kernels.KERNELS
            for n in ns
        ]
        blocks = Blocks(attempt, FURTHER)
        blocks.run(conditions, BLOCKS, random.Random(machine.hash))  # noqa: S311 (an order)
    return list(last.values())


def measure_disk(folder: Path) -> DiskRate:
    """Measure the rate at which one process reads a file.

    Args:
        folder: a folder on the disk; it holds a file of 64 MiB meanwhile.
    """
    block = random.Random(0).randbytes(BLOCK_BYTES)  # noqa: S311 (what does not compress)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".disk-", buffering=0) as file:
        try:
            for _ in range(FILE_BYTES // BLOCK_BYTES):
                file.write(block)
            os.fsync(file.fileno())
            return _read_through(Path(file.name))
        except OSError as error:  # the disk is full
            return DiskRate(per_s=None, note=str(error))


def _read_through(path: Path) -> DiskRate:
    """Read a file in order, each part once, past the page cache where possible."""
    page_cache.drop([path])
    how = "one process, one read after the other"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError:  # a file system without direct reads
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        how += ", through the page cache, emptied before"
    buffer = mmap.mmap(-1, BLOCK_BYTES)  # aligned, as direct reads require
    done, began = 0, time.perf_counter()
    try:
        for place in range(0, FILE_BYTES, BLOCK_BYTES):
            done += os.preadv(descriptor, [buffer], place)
            if time.perf_counter() - began > READ_S:
                break
    finally:
        os.close(descriptor)
    rate = done / (time.perf_counter() - began)
    return DiskRate(per_s=rate, note=f"{how}; a virtual machine's host may cache")


def take(folder: Path, code: str, output: Path) -> None:
    """Measure this machine's microbenchmarks, or copy those that are kept between studies.

    Args:
        folder: keeps all machines' microbenchmarks.
        code: digest of the code that measures; results of other code are kept apart.
        output: microbenchmarks.json of this study.
    """
    machine = probe.read_machine()
    known = folder / f"{machine.hash}-{code}.json"
    if known.exists():
        log.info("this machine's is known: %s", known)
        write_file(output, read_file(known, Microbenchmarks))
        return
    measured = measure(machine, output.parent)
    write_file(output, measured)
    if sum(row.valid for row in measured.rows) > QUIET_SHARE * len(measured.rows):
        write_file(known, measured)
    else:
        log.info("other programs took CPU: it is used here, and not kept for later")
