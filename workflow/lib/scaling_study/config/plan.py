"""The plan of a study: what is measured, in which order. It is the same on every machine."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from scaling_study.common.axis_values import Axes
from scaling_study.common.objectives import ONE_MODEL
from scaling_study.common.objectives import named as named_objective
from scaling_study.common.problems import ConfigError, Problem, nearest_word, shorten
from scaling_study.config.config import Config, Confirm, Measure, Profile, Search, Why
from scaling_study.config.launches import Found, Launch, repeat_of
from scaling_study.config.workload import Workload
from scaling_study.records.codec import read_file
from scaling_study.records.field import Json
from scaling_study.records.model_length import ModelLength

SCHEMA_VERSION: Literal[9] = 9

# Bits for a launch's place within its replicate. 20 bits keep ties among 10,000 launches rare, and
# priorities small. A tie only leaves two neighbours in the scheduler's own order.
ORDER_BITS = 20

SLOWER = 5.0
"""Runs beside others may take this many times as long as one alone."""

RECOMMENDED = "recommended"
"""The target whose launch is known only when all have been measured."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A launch that the config describes and excludes."""

    label: str
    axes: Axes
    reason: str


@dataclass(frozen=True, slots=True)
class Observed:
    """What one observed start of the program has shown: its unit of work.

    Attributes:
        step: optimizer, backward or run, as ``workload.step`` has them; empty if none is right.
        pool: Whether the steps are made in processes that the program starts.
        why: What was seen, in words; why no unit is right.
        run_s: Time of a whole run; None if it was not waited for.
        shared: Files that each of two starts wrote, if no argument tells copies of it apart.
    """

    step: str
    why: str
    pool: bool = False
    run_s: float | None = None
    shared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundSummary:
    """A round of a race, in short."""

    stage: str
    expected_s: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The best point so far in a race.

    Attributes:
        launch: Its id.
        n: Number of processes.
        probability: Probability that it is within the tolerance of the best point measured.
    """

    launch: str
    n: int
    probability: float


@dataclass(frozen=True, slots=True)
class Searched:
    """A race that is over.

    Attributes:
        reason: Why it ended.
        not_screened: Launches that it did not reach.
    """

    rounds: tuple[RoundSummary, ...]
    reason: str
    spent_s: float
    budget_s: float
    choice: Choice | None
    not_screened: tuple[str, ...]


class JobPlan(BaseModel):
    """The part of a plan that a job depends on; its other settings have their defaults.

    Attributes:
        observed: What one observed start has shown; None if the config names the unit of work, or
            if no start was observed.
    """

    model_config = ConfigDict(frozen=True)

    study: str
    seed: int
    processes: Literal["auto"] | tuple[int, ...]
    measure: Measure = Measure()
    workload: Workload
    confirm: Confirm = Confirm()
    profile: Profile = Profile()
    why: Why = Why()
    data_loader: Literal["quick", "full", "off"] = "off"
    observed: Observed | None = None

    @property
    def run_s(self) -> float | None:
        """Return the time of a whole run; None if steps are measured, or if it is not known."""
        return self.observed.run_s if self.observed and self.workload.runs else None

    @property
    def longest_run_s(self) -> float:
        """Return the longest time of whole runs side by side."""
        return max(self.measure.timeout_s, SLOWER * (self.run_s or 0.0))


class Plan(JobPlan):
    """The plan of a study: the content of plan.json.

    Attributes:
        default: Id of the launch without any setting.
        baseline: Id of the launch that changes start from; it may be the default one.
        today: Id of the launch with the user's shell settings; None if it is the default one.
        today_processes: How many processes the user runs today, as the config says.
        repeat: Id of the A/A repeat of the baseline.
        launches: All launches, default, baseline and repeat first.
        dropped: Launches that the config excludes, with the reasons.
        processes: The process counts, or `auto`, resolved on the machine that measures.
        profiled: Targets to profile: `recommended`, which only the analysis resolves, or the id of
            a launch. Each has its name in the config as the value.
        explained: Targets whose scaling is explained, in the same form.
        data_loader: Effort of the experiments on the recommended launch's data loader.
        made: Number of record files of each launch, which a race decides; None without a race.
        searched: Outcome of the race.
        samples: Samples of a step in all ranks, by launch, as far as scripts have counted them.
        model_length: Length of a model as starts that ended have shown; None if the config gives
            it, or if nothing is measured yet.
    """

    schema_version: Literal[9] = SCHEMA_VERSION
    description: str
    objective: Literal["models_per_hour", "one_model"]
    default: str
    baseline: str
    repeat: str
    today: str | None = None
    today_processes: int | None = None
    launches: tuple[Launch, ...]
    dropped: tuple[Dropped, ...]
    replicates: int
    exclude: tuple[Axes, ...] = ()
    search: Search = Search()
    profiled: Mapping[str, str] = {}
    explained: Mapping[str, str] = {}
    made: Mapping[str, int] | None = None
    searched: Searched | None = None
    samples: Mapping[str, float] | None = None
    model_length: ModelLength | None = None

    @property
    def by_id(self) -> dict[str, Launch]:
        """Return the launches by their ids."""
        return {launch.id: launch for launch in self.launches}

    @property
    def steps_per_model(self) -> float | None:
        """Return how many steps train a model; None if neither config nor runs have shown it."""
        said = self.workload.steps_per_model
        if said == "auto":
            return self.model_length.steps if self.model_length else None
        return said

    @property
    def objective_name(self) -> str:
        """Return the key of `OBJECTIVES` for the goal; steps replace models of unknown length."""
        rate = "steps_per_s" if self.steps_per_model is None else "models_per_hour"
        return named_objective(rate, single=self.objective == ONE_MODEL)

    def replicates_of(self, launch: str) -> int:
        """Return how many fresh cohorts there are of a launch."""
        return self.replicates if self.made is None else self.made.get(launch, 0)

    def to_dict(self) -> Json:
        """Return the content of plan.json, or of searched.json."""
        later = {"made", "searched", "samples", "model_length"}
        unknown = {name for name in later if getattr(self, name) is None}
        return self.model_dump(mode="json", exclude=unknown)

    @classmethod
    def from_dict(cls, data: Mapping[str, object], name: str = "plan.json") -> Self:
        """Read the content of a plan's file; files that it names need not exist here.

        Raises:
            ValueError: Another version of this package wrote it.
        """
        version = data["schema_version"]
        if version != SCHEMA_VERSION:
            raise ValueError(f"{name} has version {version}, not {SCHEMA_VERSION}")
        return cls.model_validate(data)


def read_plan(path: Path) -> Plan:
    """Read plan.json, or searched.json.

    Raises:
        ValueError: Another version of this package wrote it.
    """
    return Plan.from_dict(read_file(path, Json), path.name)


def make_plan(config: Config, shell: Found = (), observed: Observed | None = None) -> Plan:
    """Expand a config's launches; the default launch and an A/A repeat are always among them.

    Args:
        config: The config.
        shell: Settings that were found in the user's shell.
        observed: What one observed start has shown, if there was one.

    Raises:
        ConfigError: a launch to profile or explain is not among them.
    """
    workload = config.workload
    expansion = config.launches.expanded(workload, shell)
    launches = [*expansion.kept]
    baseline = next((item for item in launches if item.role == "baseline"), launches[0])
    repeat = repeat_of(baseline)
    launches.insert(launches.index(baseline) + 1, repeat)
    # A program that runs as a whole cannot be changed while others train.
    whole = workload.pool or workload.runs
    measure = config.measure
    run_s = observed.run_s if observed and workload.runs else None
    if (run_s or 0.0) > measure.shortest_s and "windows" not in measure.model_fields_set:
        measure = measure.model_copy(update={"windows": 1})  # further starts show more
    targets = {"baseline": baseline.id, "default": launches[0].id, "today": launches[0].id}
    targets |= {RECOMMENDED: RECOMMENDED, **{item.label: item.id for item in launches}}
    targets |= {item.id: item.id for item in launches}
    explained = () if whole or config.why.effort == "off" else config.why.launches
    profiled = () if workload.runs or config.profile.effort == "off" else config.profile.launches
    return Plan.model_validate(
        {
            **dict(config),  # sections that both have
            "default": launches[0].id,
            "baseline": baseline.id,
            "repeat": repeat.id,
            "today": next((item.id for item in launches if item.role == "today"), None),
            "today_processes": getattr(config.launches.today, "processes", None),
            "launches": launches,
            "dropped": [Dropped(item.label, item.axes, why) for item, why in expansion.dropped],
            "measure": measure,
            "replicates": measure.replicates,
            "exclude": config.launches.exclude,
            "profiled": _targets("profile", profiled, targets),
            "explained": _targets("why", explained, targets),
            "data_loader": "off" if whole else config.data_loader,
            "observed": observed,
        }
    )


def _targets(section: str, names: Sequence[str], known: Mapping[str, str]) -> dict[str, str]:
    """Return the targets that a section names, each with its name there.

    Args:
        section: The section.
        names: The names in it.
        known: The id of each target, by all of its names.

    Raises:
        ConfigError: a launch is not in the plan.
    """
    what = "is no launch of the plan"
    allowed = "baseline, default, today, recommended, or the label of a launch of the plan"
    problems = [
        Problem((section, "launches", at), shorten(name), what, allowed, nearest_word(name, known))
        for at, name in enumerate(names)
        if name not in known
    ]
    if problems:
        raise ConfigError(problems)
    targets: dict[str, str] = {}
    for name in names:
        targets.setdefault(known[name], name)  # the baseline may be the default launch
    return targets


def priority(plan: Plan, launch: Launch, replicate: int) -> int:
    """Return how early a replicate of a launch is measured: higher is earlier.

    All launches of a replicate come before the next replicate, so that a slow drift of the machine
    affects all launches alike. Within a replicate, a hash of the seed and the launch's own id
    decides, so an added launch moves no other. The default launch comes first of all: if its script
    ends before its first step, the study is over.
    """
    block = plan.replicates - 1 - replicate
    if launch.id == plan.default and not replicate:
        return (block + 1) << ORDER_BITS
    text = f"{plan.seed}:{replicate}:{launch.id}"
    digest = int.from_bytes(hashlib.sha256(text.encode()).digest())
    return (block << ORDER_BITS) + digest % (1 << ORDER_BITS)
