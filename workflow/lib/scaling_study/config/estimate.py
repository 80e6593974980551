"""What a study will take, said before it starts."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scaling_study.common.printable import printable
from scaling_study.config import efforts, work
from scaling_study.config.config import Profile
from scaling_study.config.plan import Plan
from scaling_study.launch.axes import shell
from scaling_study.member.program import name

# Start, data and warm-up of a cohort where nothing is measured yet: torch and Lightning took 6 to
# 10 s on two CPUs.
START_S = 8.0

# What an operator profile or a cProfile takes: the steps, and working them up (2 to 3 s).
PROFILE_S = 3.0

POOL = (
    "  the program runs as a whole, without gates: it is not profiled, and there are no experiments"
    "\n  on causes or its data loader, which need them"
)

# So many members are sampled in turn, for stacks: one member's would be one start's.
SAMPLED_MEMBERS = 4

# py-spy with native frames takes fewer samples than its rate: 35 of 45 were seen.
LATE = 1.3


@dataclass(frozen=True, slots=True)
class Estimate:
    """How much a plan is, for these process counts.

    Attributes:
        launches: Launches, with default and repeat.
        cohorts: Cohorts that are started.
        windows: Windows over all points and replicates, without retries.
        profiles: Points that are profiled.
        explained: Launches that are explained.
        why_minutes: Shortest and longest time of the experiments that explain them.
        confirm_minutes: Time of the rounds that confirm the recommendation.
        minutes: Shortest and longest time of all.
        loader_minutes: The same of what is tried on the data loader.
    """

    launches: int
    cohorts: int
    windows: int
    profiles: int
    explained: int
    why_minutes: tuple[float, float]
    confirm_minutes: float
    minutes: tuple[float, float]
    loader_minutes: tuple[float, float] = (0.0, 0.0)


def estimate(plan: Plan, process_counts: Sequence[int], start_s: float = START_S) -> Estimate:
    """Estimate a study from its settings alone.

    A step's time is not known yet, so a window takes between its shortest and its longest time.
    Left out: retries, launches that the machine must skip, and what is measured already.

    Args:
        plan: The plan.
        process_counts: The process counts on this machine.
        start_s: What a cohort takes from its start to its first window.
    """
    measure = plan.measure
    budget_s = None if plan.search.budget_minutes is None else 60 * plan.search.budget_minutes
    runs = len(plan.launches) * measure.replicates
    cohorts = runs * (len(process_counts) if measure.isolated else 1)
    windows = runs * len(process_counts) * measure.windows
    profiles = len(plan.profiled) * len(chosen_counts(plan.profile.processes, process_counts))
    profiling_s = len(plan.profiled) * (
        start_s
        + sum(
            _profile_s(plan.profile, n)
            for n in chosen_counts(plan.profile.processes, process_counts)
        )
    )
    explained = len(plan.explained)
    confirm_s = plan.confirm.seconds or 0.0

    def measuring_s(window_s: float) -> float:
        """All of a race has its time; the confirmation is part of it."""
        starts = windows if plan.workload.pool else cohorts
        grid_s = starts * start_s + windows * window_s + confirm_s
        return max(grid_s if budget_s is None else budget_s, confirm_s)

    loader_s = efforts.loader_seconds(plan.data_loader, start_s)
    shortest, longest = (
        ((measuring_s(window_s) + profiling_s) / 60, why_s / 60, one_s / 60)
        for window_s, why_s, one_s in zip(
            (measure.shortest_s, measure.longest_s),
            efforts.seconds(plan.why.effort, explained, start_s),
            loader_s,
            strict=True,
        )
    )
    return Estimate(
        len(plan.launches),
        cohorts,
        windows,
        profiles,
        explained,
        (shortest[1], longest[1]),
        confirm_s / 60,
        (sum(shortest), sum(longest)),
        (loader_s[0] / 60, loader_s[1] / 60),
    )


def chosen_counts(asked: str | Sequence[int], process_counts: Sequence[int]) -> list[int]:
    """Return the process counts to profile: the lowest and the highest, or those asked for."""
    if isinstance(asked, str):
        return sorted({min(process_counts), max(process_counts)})
    return sorted(set(asked) & set(process_counts))


def _profile_s(profile: Profile, n: int) -> float:
    """Return what profiling one point takes, with the unprofiled windows around each profile."""
    taken = [PROFILE_S] * (profile.operators + profile.calls)
    sampling_s = LATE * profile.samples / profile.rate_hz
    taken += [PROFILE_S * min(n, SAMPLED_MEMBERS) + sampling_s] * profile.stacks
    return sum(taken) + (len(taken) + 1) * profile.unprofiled_s


def describe(
    plan: Plan, process_counts: Sequence[int], forecast: Estimate, race: Sequence[str] = ()
) -> str:
    """Say in a few lines what will be done.

    Args:
        plan: The plan.
        process_counts: The process counts on this machine.
        forecast: What they will take.
        race: Lines on a race, which is known later (searching/forecast).
    """
    counts = Counter(launch.role for launch in plan.launches)
    roles = ", ".join(f"{count} {role}" for role, count in counts.items())
    dropped = f"; {len(plan.dropped)} excluded" if plan.dropped else ""
    launches = _count(forecast.launches, "launch", "launches")
    cohorts = _count(forecast.cohorts, "cohort", "cohorts")
    replicates = _count(plan.measure.replicates, "replicate", "replicates")
    windows = _count(forecast.windows, "window", "windows")
    points = _count(forecast.profiles, "point", "points")
    profiles = f"; profiles of {points}" if forecast.profiles else ""
    return "\n".join(
        [
            f"Study {plan.study}: {printable(name(work.program(plan.workload)))}",
            f"  {launches}: {roles}{dropped}",
            *([POOL] if plan.workload.pool else []),
            f"  today's launch: {_today(plan)}",
            f"  processes: {', '.join(map(str, process_counts))}",
            *race,
            *(
                [f"  {cohorts} ({replicates} of each launch), {windows}{profiles}"]
                if plan.search.budget_minutes is None
                else [profiles.replace("; ", "  ")] * bool(profiles)
            ),
            *_confirm(plan, forecast),
            *_why(plan, forecast),
            *_data_loader(plan, forecast),
            f"  {_duration(forecast.minutes)}",
        ]
    )


def _today(plan: Plan) -> str:
    """What the user's launch of today has, beside the default one."""
    found = next((one.axes["shell"] for one in plan.launches if one.id == plan.today), None)
    return "the default one" if found is None else f"the default one with {shell.tell(found)}"


def _confirm(plan: Plan, forecast: Estimate) -> list[str]:
    """What confirming will take, where that is asked for."""
    if not forecast.confirm_minutes:
        return []
    took = f"{forecast.confirm_minutes:.1f} minutes of all; more for models longer than a round"
    others = ", today's and the default one" if plan.today else " and the default one"
    return [f"  confirm: the recommended launch{others}, as you would run them, {took}"]


def _why(plan: Plan, forecast: Estimate) -> list[str]:
    """What the experiments will take, where there are any."""
    if not forecast.explained:
        return []
    explained = _count(forecast.explained, "launch", "launches")
    took = _duration(forecast.why_minutes)
    slow = f"more where a step takes over {efforts.SLOW_STEP_S:g} s"
    return [f"  why ({plan.why.effort}): experiments on {explained}, {took} of all; {slow}"]


def _data_loader(plan: Plan, forecast: Estimate) -> list[str]:
    """What trying the data loader will take, where that is asked for."""
    if not forecast.loader_minutes[1]:
        return []
    took = _duration(forecast.loader_minutes)
    return [
        f"  data_loader ({plan.data_loader}): the recommended launch's data loader, {took} of all"
    ]


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _duration(minutes: tuple[float, float]) -> str:
    """Write a span of minutes, in hours where that is easier to grasp."""
    hour = 60
    in_hours = minutes[1] >= 2 * hour
    low, high = (f"{value / hour if in_hours else value:.1f}" for value in minutes)
    return f"{low} to {high} {'hours' if in_hours else 'minutes'}"
