"""The efforts that the config names (`why: quick`, `profile: full`), and their time."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

# Start, data and warm-up of a cohort, before anything is measured: torch and Lightning took 6 to
# 10 s on two CPUs.
START_S = 8.0


@dataclass(frozen=True, slots=True)
class Windows:
    """Number and length of the windows of experiments.

    Attributes:
        replicates: Fresh starts of everything.
        blocks: Blocks of windows, at most; a block has all that is compared.
        steps: A window lasts until every member has done these steps, within the next two bounds.
        shortest_s: A window lasts at least this long.
        longest_s: A window lasts at most this long.
        settle_s: Steps that begin within this time from a window's start do not count.
    """

    replicates: int
    blocks: int
    steps: int
    shortest_s: float
    longest_s: float
    settle_s: float


@dataclass(frozen=True, slots=True)
class Effort(Windows):
    """The experiments that explain a launch.

    Attributes:
        blocks_s: Longest time of all blocks together; but there are at least FEWEST_BLOCKS.
        kernels: Kernels that stressors run.
        doses: Shares of the time for which stressors run them.
        dose_blocks: Blocks of windows with stressors.
        interventions: Least and most that usually apply; the machine and the launch decide.
    """

    blocks_s: float
    kernels: tuple[str, ...]
    doses: tuple[float, ...]
    dose_blocks: int
    interventions: tuple[int, int]

    def over_periods(self, shortest_s: float) -> Self:
        """Return the same effort with windows of at least this length, and fewer of them.

        Args:
            shortest_s: many periods of a disturbance that comes and goes.
        """
        if self.shortest_s >= shortest_s:
            return self
        return replace(
            self,
            shortest_s=shortest_s,
            longest_s=max(self.longest_s, shortest_s),
            blocks=max(FEWEST_BLOCKS, self.blocks // 2),
            dose_blocks=max(2, self.dose_blocks // 2),
        )

    def of_blocks(self, block_s: float) -> Self:
        """Return the same effort with as many blocks as there is time for.

        Args:
            block_s: time of one block.
        """
        fit = max(FEWEST_BLOCKS, int(self.blocks_s / block_s))
        return replace(self, blocks=min(self.blocks, fit))

    def seconds(self, interventions: int, window_s: float) -> float:
        """Return the time (s) of one replicate.

        Args:
            interventions: number of interventions that apply.
            window_s: length of a window.
        """
        cohorts, taken_s = 1 + interventions, window_s + EDGE_S
        block_s = 2 * cohorts * taken_s
        dose_windows = 1 + len(self.kernels) * len(self.doses)  # of a block: one has no stressor
        return (
            cohorts * START_S
            + self.of_blocks(block_s).blocks * block_s
            + self.dose_blocks * dose_windows * taken_s
            + KERNELS_S
            + LOOKING_S
        )


# Fewer blocks than this give no useful interval.
FEWEST_BLOCKS = 5

# Longer steps make the experiments longer than the estimate.
SLOW_STEP_S = 0.2

# Many short windows: a disturbance on a shared machine lasts seconds, and so spoils whole windows.
EFFORTS = {
    "quick": Effort(
        replicates=1,
        blocks=10,
        blocks_s=40.0,
        steps=4,
        shortest_s=0.2,
        longest_s=5.0,  # a step of two processes that spin may take over a second
        settle_s=0.05,
        kernels=("register", "llc", "memory"),
        doses=(1 / 3, 2 / 3, 1.0),
        dose_blocks=3,
        interventions=(2, 5),
    ),
    "full": Effort(
        replicates=3,
        blocks=8,
        blocks_s=600.0,
        steps=20,
        shortest_s=1.0,
        longest_s=8.0,
        settle_s=0.1,
        kernels=("register", "llc", "memory", "pages"),
        doses=(0.25, 0.5, 0.75, 1.0),
        dose_blocks=4,
        interventions=(6, 14),
    ),
}


@dataclass(frozen=True, slots=True)
class LoaderEffort(Windows):
    """The experiments on a data loader.

    Attributes:
        ways: Largest number of other ways to load that run in turns with the script as it is.
    """

    ways: int = 1


# The most that is measured, with a loader that can be changed and whose files are known: six
# variants, and the loader alone in four other ways. Some of these also run with the script.
VARIANTS, ALONE, ALONE_BLOCKS = 6, 4, 4
LIVING = 2  # the script as it is, and a start that records the files it opens
SETTLE_S = 4.0
"""Time that the members of a variant train before they are measured. glibc's heap settles within
some hundred steps. After that it may release the memory of each step, so that the next step touches
it anew, which took a third of the step time in the images workload."""
BEGIN_S = 0.5
"""Time that members load in another way before it is measured, in which its workers start."""


def loader_seconds(name: str) -> tuple[float, float]:
    """Return the shortest and longest time (s) of the experiments on a data loader.

    Args:
        name: name of the effort; ``off`` takes no time.
    """
    if name not in LOADER_EFFORTS:
        return 0.0, 0.0
    effort = LOADER_EFFORTS[name]
    windows = (VARIANTS + 2 * effort.ways) * effort.blocks + ALONE * ALONE_BLOCKS
    trained_s = SETTLE_S + (ALONE + effort.ways) * BEGIN_S
    shortest, longest = (
        effort.replicates * (LIVING * START_S + trained_s + windows * (window_s + EDGE_S))
        for window_s in (effort.shortest_s, effort.longest_s)
    )
    return shortest, longest


LOADER_EFFORTS = {
    "quick": LoaderEffort(1, 8, steps=20, shortest_s=0.6, longest_s=1.5, settle_s=0.1),
    "full": LoaderEffort(3, 8, steps=50, shortest_s=2.0, longest_s=8.0, settle_s=0.2, ways=5),
}

# Time of a window besides its length: counter snapshots at both ends, and a rest.
EDGE_S = 0.15

# Times of the kernels alone, of inspecting members, and of microbenchmarks that are not known yet.
KERNELS_S = 5.0
LOOKING_S = 3.0
MICROBENCHMARKS_S = 15.0


def seconds(name: str, targets: int) -> tuple[float, float]:
    """Return the shortest and longest time (s) of the experiments on launches.

    The longest time has the most interventions, and steps of SLOW_STEP_S at every process count.

    Args:
        name: name of the effort; ``off`` takes no time.
        targets: number of launches to explain.
    """
    if name not in EFFORTS or not targets:
        return 0.0, 0.0
    effort = EFFORTS[name]
    slow_s = min(effort.longest_s, max(effort.shortest_s, effort.steps * SLOW_STEP_S))
    runs = targets * effort.replicates
    few, many = effort.interventions
    return (
        runs * effort.seconds(few, effort.shortest_s) + MICROBENCHMARKS_S,
        runs * effort.seconds(many, slow_s) + MICROBENCHMARKS_S,
    )


class ProfileEffort(NamedTuple):
    """The profiles of a point.

    Attributes:
        steps: Steps that an operator profile and a cProfile cover.
        rate_hz: Stack samples per second. With native frames, each stops the member for some 15 ms.
        samples: Stack samples, of up to four members in turn; fewer than 300 are coarse.
        unprofiled_s: Windows without a profiler, around each profile, last at least this long.
    """

    steps: int
    rate_hz: int
    samples: int
    unprofiled_s: float


PROFILE_EFFORTS = {
    "quick": ProfileEffort(steps=3, rate_hz=5, samples=60, unprofiled_s=0.5),
    "full": ProfileEffort(steps=5, rate_hz=3, samples=300, unprofiled_s=1.5),
}
