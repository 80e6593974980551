"""A loader that keeps training waiting."""

from scaling_study.causes.cause import Cause, Remedy, Route
from scaling_study.causes.plant import CPUS, FOLDER, Dose, Options, Plant
from scaling_study.evidence.agreement import takes
from scaling_study.evidence.case import BESIDE, CACHED
from scaling_study.evidence.measures import Account, Instead
from scaling_study.evidence.relief_share import ByRelief

LOADS = takes("load_s_per_step", "the loader")
SPECIAL = ("kept_workers", "no_snapshots")
"""Reliefs of what a loader spends on itself, which has causes of its own."""
LOADING = Instead(
    Account(("load_s_per_step",), "time in the loader", less=("loader_starts_s_per_step",)),
    (CACHED, BESIDE),
)
# Where the loader went on beside batches from memory, what it takes from training is known apart.
WAITING = ByRelief((BESIDE,), beyond=SPECIAL)
ALL = Instead(ByRelief((CACHED,), beyond=SPECIAL), (BESIDE,))


def _slow_loader(dose: Dose, *more: str) -> Options:
    return ("slow_loader.py", "--seconds", f"{dose.strength * dose.step_s:.5f}", *more)


def _loader_workers(dose: Dose, count: int) -> Options:
    busy, *options = _slow_loader(dose, "--busy")
    return ("loader_workers.py", "--workers", str(count), "--", str(FOLDER / busy), *options)


PLANTS = {
    "slow_loader": Plant(
        "a slow loader",
        ("data_loading",),
        wrapper=_slow_loader,
        level=True,
    ),
    "busy_loader": Plant(
        "a loader that works",
        ("data_loading",),
        wrapper=lambda dose: _slow_loader(dose, "--busy"),
        level=True,
        promised=False,
    ),
    "workers": Plant(
        "more loader workers than CPUs",
        ("data_loading", "loader_interference", "helper_threads", "cpu_oversubscription"),
        wrapper=lambda dose: _loader_workers(dose, 2 * len(CPUS)),
        control=lambda dose: _loader_workers(dose, 0),
        own={"data_loading": "every batch takes CPU time, so that workers have something to do"},
        level=True,
        promised=False,
    ),
}

CAUSE = Cause(
    "A loader that keeps training waiting",
    "the model waits for its next data",
    "A large part of a step is in the loader, and comes back when batches are taken from memory.",
    "torch.utils.data, num_workers; the loader's time in tables/points",
    Remedy(
        "Make the rows of a batch together (__getitems__), do less work for each sample, or "
        "keep what was made. Loader workers help only where CPUs are free; what they and "
        "prefetching gain on this script, the axes loader_workers and prefetch measure.",
    ),
    growth=(Route(WAITING, (LOADS,)), Route(ALL, (LOADS,))),
    level=(Route(WAITING, (LOADS,)), Route(ALL, (LOADS,)), Route(LOADING)),
    plants=PLANTS,
    order=180,
)
