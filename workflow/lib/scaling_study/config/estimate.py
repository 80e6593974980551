"""The estimate of a study's time, shown before it starts."""

from collections import Counter
from collections.abc import Mapping, Sequence

from scaling_study.common.printable import printable
from scaling_study.common.quantities import format_count
from scaling_study.config import efforts, work
from scaling_study.config.plan import SLOWER, Observed, Plan
from scaling_study.launch.axes import shell

# Time of an operator profile or a cProfile: the steps, and their evaluation (2 to 3 s).
PROFILE_S = 3.0

POOL = (
    "  the program runs as a whole, without gates: its processes' stacks are sampled from outside,"
    "\n  and there are no experiments on causes or its data loader, which need gates"
)
RUNS = (
    "  whole runs: nothing looks into the program, so there are no step times, no profiles and no"
    "\n  experiments on causes"
)
UNITS = {
    "optimizer": "a round of the script's optimizers",
    "backward": "a backward pass",
    "run": "a whole run of the program, from its start to its end",
}

# Members whose stacks are sampled in turn: the stacks of one member would show one start alone.
SAMPLED_MEMBERS = 4

MINUTE_S, HOUR_S = 60, 3600

Span = tuple[float, float]
"""The shortest and the longest time."""

# py-spy with native frames takes fewer samples than its rate: 35 of 45 in one case.
LATE = 1.3


class Estimate:
    """Size and time of a study, from its settings alone.

    A step's time is not known yet, so a window takes between its shortest and its longest time.
    The estimate ignores retries, launches that the machine must skip, and existing measurements.

    Args:
        plan: The plan.
        process_counts: The process counts on this machine.

    Attributes:
        cohorts: Cohorts that are started.
        windows: Windows over all points and replicates, without retries.
        profiles: Points that are profiled.
        stages_s: Shortest and longest time of all jobs of a rule, by its name. A race takes its
            budget without the time of the confirmation.
    """

    def __init__(self, plan: Plan, process_counts: Sequence[int]) -> None:
        measure = plan.measure
        runs = len(plan.launches) * measure.replicates
        self.cohorts = runs * (len(process_counts) if measure.isolated else 1)
        self.windows = runs * len(process_counts) * measure.windows
        profiled = chosen_counts(plan.profile.processes, process_counts)
        self.profiles = len(plan.profiled) * len(profiled)
        effort = efforts.PROFILE_EFFORTS.get(plan.profile.effort)
        profile_s = (
            efforts.START_S + sum(_profile_s(effort, n) for n in profiled) if effort else 0.0
        )
        profiles_s = len(plan.profiled) * profile_s
        confirm_s = plan.confirm.seconds or 0.0
        if plan.search.budget_minutes is not None:
            race_s = max(0.0, 60 * plan.search.budget_minutes - confirm_s)
            measuring = {"race": (race_s, race_s)}
        elif plan.workload.runs:
            one_s = self.windows * (plan.run_s or efforts.START_S)
            measuring = {"measure": (one_s, SLOWER * one_s)}
        else:
            starts_s = efforts.START_S * (self.windows if plan.workload.pool else self.cohorts)
            bounds_s = measure.shortest_s, measure.longest_s
            short_s, long_s = (starts_s + self.windows * one for one in bounds_s)
            measuring = {"measure": (short_s, long_s)}
        self.stages_s: Mapping[str, Span] = {
            **measuring,
            "confirm": (confirm_s, confirm_s),
            "profile": (profiles_s, profiles_s),
            "why": efforts.seconds(plan.why.effort, len(plan.explained)),
            "loader_experiment": efforts.loader_seconds(plan.data_loader),
        }

    @property
    def whole_s(self) -> Span:
        """Shortest and longest time of all."""
        shortest, longest = zip(*self.stages_s.values(), strict=True)
        return sum(shortest), sum(longest)


def unit(observed: Observed) -> str:
    """Return the unit of work that one observed start has shown, and why, in words."""
    where = ", in processes that the program starts" if observed.pool else ""
    took = "" if observed.run_s is None else f"; the run took {observed.run_s:.3g} s"
    return f"{UNITS[observed.step]}{where} ({observed.why}{took})"


def clash(observed: Observed) -> str:
    """Return which files all copies of the program write, in words; empty if there are none."""
    if not observed.shared:
        return ""
    first, *more = observed.shared
    others = f" and {format_count(len(more), 'other file')}" if more else ""
    return (
        f"each start writes {printable(first)}{others}: write {{member}} (after --: {{}}) where"
        " their arguments should differ, or set workload.fresh_folder: true"
    )


def chosen_counts(asked: str | Sequence[int], process_counts: Sequence[int]) -> list[int]:
    """Return the process counts to profile: the lowest and the highest, or those in the config."""
    if isinstance(asked, str):
        return sorted({min(process_counts), max(process_counts)})
    return sorted(set(asked) & set(process_counts))


def _profile_s(effort: efforts.ProfileEffort, n: int) -> float:
    """Return the time (s) to profile one point, with unprofiled windows around each profile."""
    started_s = (2 + min(n, SAMPLED_MEMBERS)) * PROFILE_S  # operators, cProfile, and each sampler
    return started_s + LATE * effort.samples / effort.rate_hz + 4 * effort.unprofiled_s


def describe(plan: Plan, process_counts: Sequence[int], race: Sequence[str] = ()) -> str:
    """Describe in a few lines what will be done.

    Args:
        plan: The plan.
        process_counts: The process counts on this machine.
        race: Lines on a race (``search/forecast``).
    """
    forecast = Estimate(plan, process_counts)
    counts = Counter(launch.role for launch in plan.launches)
    roles = ", ".join(f"{count} {role}" for role, count in counts.items())
    dropped = f"; {len(plan.dropped)} excluded" if plan.dropped else ""
    today = f" with {shell.tell(plan.by_id[plan.today].axes['shell'])}" if plan.today else ""
    lines = [
        f"Study {plan.study}: {printable(work.name(plan.workload))}",
        f"  {format_count(len(plan.launches), 'launch', 'launches')}: {roles}{dropped}",
        f"  today's launch: the default one{today}",
        f"  processes: {', '.join(map(str, process_counts))}",
        *race,
    ]
    if plan.workload.runs or plan.workload.pool:
        lines.insert(2, RUNS if plan.workload.runs else POOL)
    parts = []
    if plan.search.budget_minutes is None:
        cohorts = format_count(forecast.cohorts, "cohort")
        replicates = format_count(plan.measure.replicates, "replicate")
        windows = format_count(forecast.windows, "window")
        parts.append(f"{cohorts} ({replicates} of each launch), {windows}")
    if forecast.profiles:
        parts.append(f"profiles of {format_count(forecast.profiles, 'point')}")
    if parts:
        lines.append(f"  {'; '.join(parts)}")
    if plan.confirm.seconds:
        others = ", today's and the default one" if plan.today else " and the default one"
        lines.append(
            f"  confirm: the recommended launch{others}, as you would run them, "
            f"{plan.confirm.seconds / 60:.1f} minutes of all; more for models longer than a round"
        )
    if plan.explained:
        lines.append(
            f"  why ({plan.why.effort}): experiments on"
            f" {format_count(len(plan.explained), 'launch', 'launches')},"
            f" {_duration(forecast.stages_s['why'])} of all;"
            f" more where a step takes over {efforts.SLOW_STEP_S:g} s"
        )
    if plan.data_loader != "off":
        lines.append(
            f"  data_loader ({plan.data_loader}): the recommended launch's data loader,"
            f" {_duration(forecast.stages_s['loader_experiment'])} of all"
        )
    return "\n".join([*lines, f"  {_duration(forecast.whole_s)}"])


def _duration(seconds: Span) -> str:
    """Write a span of time in minutes, or in hours if it is long."""
    unit, unit_s = ("hours", HOUR_S) if seconds[1] >= 2 * HOUR_S else ("minutes", MINUTE_S)
    low, high = (f"{each / unit_s:.1f}" for each in seconds)
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
