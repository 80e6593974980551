"""Page faults by the allocator's settings."""

import dataclasses

from scaling_study.common.quantities import format_seconds
from scaling_study.diagnosis.agreement import Falls
from scaling_study.diagnosis.case import Case
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Plant
from scaling_study.diagnosis.query import Asked, Weight
from scaling_study.diagnosis.recovered_share import ByRelief
from scaling_study.launch.launchers.launcher_table import DEFAULT, LAUNCHERS
from scaling_study.stats.ratios import mean

FAULTS = "minor_faults_per_step"
CHEAPEST_FAULT_S, DEAREST_FAULT_S = 0.05e-6, 30e-6
"""A minor fault costs 0.1 us natively; with the clearing of a page, in a nested virtual machine and
with many processes it costs several. Time that comes back at another price has another reason."""
FEWEST_FAULTS = 10.0
"""Fewer faults a step than this cannot be a tenth of any step of a millisecond."""
ALLOCATORS = ("large_thresholds", "exec", "glibc", "jemalloc", "tcmalloc", "mimalloc")


@dataclasses.dataclass(frozen=True, slots=True)
class Priced:
    """The time that comes back, per page fault that is avoided, must be that of a page fault."""

    def weigh(self, asked: Asked) -> Weight:
        """Whether it is."""
        case = asked.case
        n, name = asked.n, asked.relief
        faults = case.mean(FAULTS, n) - case.mean(FAULTS, n, name)
        back_s = mean(case.step(n) - case.step(n, name))
        if not faults > 0:
            return Weight(False, "account", "No page fault is avoided.")
        agrees = CHEAPEST_FAULT_S <= back_s / faults <= DEAREST_FAULT_S
        text = f"{format_seconds(back_s / faults)} comes back for each page fault that is avoided."
        return Weight(agrees, "account", f"{text}{_remark(case)}")


def _remark(case: Case) -> str:
    remark = LAUNCHERS[case.head["axes"].get("launcher", DEFAULT)].remark
    return remark and f" {remark}"


PLANTS = {
    "dask": Plant(
        "Dask's trim threshold",
        ("page_faults",),
        axes={"intra_op": 1, "launcher": "dask"},
        control_axes={"intra_op": 1, "launcher": "dask", "allocator": "glibc-large-thresholds"},
        own={"helper_threads": "a Dask worker samples its own stack a hundred times a second"},
        level=True,
    ),
}

CAUSE = Cause(
    "Page faults by the allocator's settings",
    "memory is given back to the system and fetched anew in every step",
    "Thousands of minor faults in every step and time in the kernel, which both go with an "
    "allocator that keeps large blocks. Setting any of glibc's thresholds (as Dask's nanny "
    "does with MALLOC_TRIM_THRESHOLD_) freezes the mmap threshold at 128 KiB.",
    "mallopt(3); dask/distributed#5098",
    Remedy(
        "Let glibc keep large blocks (both of its thresholds large), or preload another allocator.",
        axes={"allocator": "glibc-large-thresholds"},
    ),
    growth=(
        Route(ByRelief(ALLOCATORS), (Falls(FAULTS, "Minor faults", floor=FEWEST_FAULTS), Priced())),
    ),
    level=(
        Route(ByRelief(ALLOCATORS), (Falls(FAULTS, "Minor faults", floor=FEWEST_FAULTS), Priced())),
    ),
    plants=PLANTS,
    order=220,
)
