"""The plan of a study: what is measured, in which order. It is the same on every machine."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from scaling_study.common.problems import ConfigError, nearest_word, read_each, wrong
from scaling_study.config.config import Config, Confirm, Measure, Profile, Search, Why
from scaling_study.config.launches import Axes, Found, Launch, label, named, repeat_of
from scaling_study.config.workload import Workload
from scaling_study.records.analysis import Machines, Recommendation

# 1: the first format. 2: with what is explained. 3: with how long is confirmed. 4: with the search.
# 5: with what no combination may have, and the nodes of a race. 6: with the objective.
SCHEMA_VERSION: Literal[8] = 8

# Where a launch stands within its replicate: 20 bits keep ties among 10,000 launches rare (and a
# tie only leaves two neighbours in the scheduler's own order), and priorities small integers.
ORDER_BITS = 20

RECOMMENDED = "recommended"
"""The launch that is known when all have been measured."""


class Dropped(BaseModel):
    """A launch that the config describes and excludes."""

    model_config = ConfigDict(frozen=True)

    label: str
    axes: Axes
    reason: str


class Plan(BaseModel):
    """What is measured: the content of plan.json.

    Attributes:
        default: Id of the launch of a person who sets nothing.
        baseline: Id of the launch that changes start from; it may be the default one.
        today: Id of the launch that the user's shell makes; None where that is the default one.
        repeat: Id of the A/A repeat of the baseline.
        launches: All launches, default, baseline and repeat first.
        dropped: What the config excludes, with the reason.
        processes: The process counts, or `auto`: resolved where it is measured.
        profiled: What is profiled: `recommended`, which only the analysis knows, or the id of a
            launch; each with what the config calls it.
        explained: The same for the launches whose end of scaling is explained.
        data_loader: How much is tried on the recommended launch's data loader.
    """

    model_config = ConfigDict(frozen=True)

    schema_version: Literal[8] = SCHEMA_VERSION
    study: str
    description: str
    seed: int
    objective: Literal["models_per_hour", "one_model"]
    default: str
    baseline: str
    repeat: str
    today: str | None = None
    launches: tuple[Launch, ...]
    dropped: tuple[Dropped, ...]
    processes: Literal["auto"] | tuple[int, ...]
    replicates: int
    exclude: tuple[Axes, ...]
    search: Search
    measure: Measure
    confirm: Confirm
    profile: Profile
    profiled: Mapping[str, str]
    why: Why
    explained: Mapping[str, str]
    data_loader: Literal["quick", "full", "off"] = "off"
    workload: Workload

    def to_dict(self) -> dict[str, Any]:
        """Return the content of plan.json."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the content of plan.json; files that it names need not exist here.

        Raises:
            ValueError: Another version of this package wrote it.
        """
        version = data["schema_version"]
        if version != SCHEMA_VERSION:
            raise ValueError(f"plan.json has version {version}, not {SCHEMA_VERSION}")
        return cls.model_validate(data)


def make_plan(config: Config, shell: Found = ()) -> Plan:
    """Expand a config's launches; the default launch and an A/A repeat are always among them.

    Args:
        config: The config.
        shell: What was found in the user's shell.

    Raises:
        ConfigError: a launch that is to be profiled or explained is not among them.
    """
    workload = config.workload
    expansion = config.launches.expanded(workload.parameters, shell, workload.env)
    defaults = expansion.kept[0].axes
    described = (*expansion.kept, *(item for item, _ in expansion.dropped))
    builds = {item.axes["build"] for item in described}
    launches = [named(item.axes, item.role, defaults, builds) for item in expansion.kept]
    baseline = next((item for item in launches if item.role == "baseline"), launches[0])
    repeat = repeat_of(baseline)
    launches.insert(launches.index(baseline) + 1, repeat)
    # With a pool nothing can be done to single processes while others train.
    pool = config.workload.pool
    explained = () if pool or config.why.effort == "off" else config.why.launches
    profiled = () if pool else config.profile.launches
    return Plan(
        study=config.study,
        description=config.description,
        seed=config.seed,
        objective=config.objective,
        default=launches[0].id,
        baseline=baseline.id,
        repeat=repeat.id,
        today=next((item.id for item in launches if item.role == "today"), None),
        launches=tuple(launches),
        dropped=tuple(
            Dropped(
                label=label(item.axes, defaults, builds),
                axes=item.axes,
                reason=config.launches.exclusion_text(index),
            )
            for item, index in expansion.dropped
        ),
        processes=config.processes,
        replicates=config.measure.replicates,
        exclude=config.launches.exclude,
        search=config.search,
        measure=config.measure,
        confirm=config.confirm,
        profile=config.profile,
        profiled=_targets("profile", profiled, launches, baseline),
        why=config.why,
        explained=_targets("why", explained, launches, baseline),
        data_loader="off" if pool else config.data_loader,
        workload=workload,
    )


def _targets(
    section: str, names: Sequence[str], launches: Sequence[Launch], baseline: Launch
) -> dict[str, str]:
    """Return what a section's names of launches stand for, each with what it is called there.

    Raises:
        ConfigError: a launch is not in the plan.
    """
    known = {"baseline": baseline.id, "default": launches[0].id, RECOMMENDED: RECOMMENDED}
    known["today"] = launches[0].id
    known |= {item.label: item.id for item in launches} | {item.id: item.id for item in launches}

    def find(_: object, name: object) -> tuple[str, str]:
        if name not in known:
            allowed = "baseline, default, today, recommended, or the label of a launch of the plan"
            raise wrong(name, "is no launch of the plan", allowed, nearest_word(name, known))
        return known[str(name)], str(name)

    try:
        pairs = read_each(enumerate(names), find)
    except ConfigError as error:
        raise ConfigError(error.under(section, "launches")) from None
    targets: dict[str, str] = {}
    for target, name in pairs:
        targets.setdefault(target, name)  # the baseline may be the default launch
    return targets


def recommended(
    plan: Mapping[str, Any], found: Machines[Recommendation], machine: str
) -> Mapping[str, Any] | None:
    """Return the launch of a plan that is recommended for a machine; None if there is none.

    Args:
        plan: plan.json.
        found: analysis/recommendation.json.
        machine: the machine's hash.
    """
    entry = found.of(machine)
    if entry is None or entry.recommended is None:
        return None
    launches: Sequence[Mapping[str, Any]] = plan["launches"]
    return next(launch for launch in launches if launch["id"] == entry.recommended.launch)


def replicates_of(plan: Mapping[str, Any], launch: Mapping[str, Any]) -> int:
    """Return how many fresh cohorts a plan has of a launch; in a race each has a number of its own.

    Args:
        plan: plan.json, or what a race has made of it.
        launch: one of its launches.
    """
    return int(launch.get("replicates", plan["replicates"]))


def priority(plan: Plan, launch: Launch, replicate: int) -> int:
    """Say how early a replicate of a launch is measured: higher is earlier.

    All launches of a replicate come before the next replicate, so that a slow drift of the machine
    meets all launches alike. Within a replicate the seed decides by a hash of the launch's own id:
    a launch that is added moves no other. The default launch begins: where its script ends before
    its first step, the study is over.
    """
    block = plan.replicates - 1 - replicate
    if launch.id == plan.default and not replicate:
        return (block + 1) << ORDER_BITS
    text = f"{plan.seed}:{replicate}:{launch.id}"
    digest = int.from_bytes(hashlib.sha256(text.encode()).digest())
    return (block << ORDER_BITS) + digest % (1 << ORDER_BITS)


def measuring_order(plan: Plan) -> tuple[tuple[Launch, int], ...]:
    """Return every launch and replicate, first to last as they are measured."""
    jobs = [(launch, index) for index in range(plan.replicates) for launch in plan.launches]
    return tuple(sorted(jobs, key=lambda job: priority(plan, *job), reverse=True))
