"""The plan of a study: what is measured, in which order. It is the same on every machine."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from scaling_study.common.problems import ConfigError, nearest_word, read_each, wrong
from scaling_study.config.config import Config, Measure, Profile, Workload
from scaling_study.config.config_confirm import Confirm
from scaling_study.config.config_search import Search
from scaling_study.config.config_why import Why
from scaling_study.config.launches import Axes, Launch, label, named, repeat_of
from scaling_study.config.todays import Found

# 1: the first format. 2: with what is explained. 3: with how long is confirmed. 4: with the search.
# 5: with what no combination may have, and the nodes of a race. 6: with the objective.
SCHEMA_VERSION = 7

# Where a launch stands within its replicate: 20 bits keep ties among 10,000 launches rare (and a
# tie only leaves two neighbours in the scheduler's own order), and priorities small integers.
ORDER_BITS = 20

RECOMMENDED = "recommended"
"""The launch that is known when all have been measured."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A launch that the config describes and excludes."""

    label: str
    axes: Axes
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured.

    Attributes:
        default: Id of the launch of a person who sets nothing.
        baseline: Id of the launch that changes start from; it may be the default one.
        today: Id of the launch that the user's shell makes; None where that is the default one.
        repeat: Id of the A/A repeat of the baseline.
        launches: All launches, default, baseline and repeat first.
        dropped: What the config excludes, with the reason.
        processes: The ladder's counts, or `auto`: resolved where it is measured.
        profiled: What is profiled: `recommended`, which only the analysis knows, or the id of a
            launch; each with what the config calls it.
        explained: The same for the launches whose end of scaling is explained.
        feed: How much is tried on the recommended launch's data loader.
    """

    study: str
    description: str
    seed: int
    objective: Literal["models_per_hour", "one_model"]
    default: str
    baseline: str
    repeat: str
    today: str | None
    launches: tuple[Launch, ...]
    dropped: tuple[Dropped, ...]
    processes: Literal["auto"] | tuple[int, ...]
    exclude: tuple[Axes, ...]
    search: Search
    measure: Measure
    confirm: Confirm
    profile: Profile
    profiled: Mapping[str, str]
    why: Why
    explained: Mapping[str, str]
    feed: Literal["quick", "full", "off"]
    workload: Workload

    @property
    def replicates(self) -> int:
        """Fresh cohorts of each launch."""
        return self.measure.replicates

    def to_dict(self) -> dict[str, Any]:
        """Return the content of plan.json."""
        return {
            "schema_version": SCHEMA_VERSION,
            "study": self.study,
            "description": self.description,
            "seed": self.seed,
            "objective": self.objective,
            "default": self.default,
            "baseline": self.baseline,
            "repeat": self.repeat,
            "today": self.today,
            "launches": [
                {"id": item.id, "label": item.label, "arm": item.arm, "axes": _to_json(item.axes)}
                for item in self.launches
            ],
            "dropped": [
                {"label": item.label, "axes": _to_json(item.axes), "reason": item.reason}
                for item in self.dropped
            ],
            "processes": self.processes if self.processes == "auto" else list(self.processes),
            "replicates": self.replicates,
            "exclude": [_to_json(item) for item in self.exclude],
            "search": self.search.model_dump(mode="json"),
            "measure": self.measure.model_dump(mode="json"),
            "confirm": self.confirm.model_dump(mode="json"),
            "profile": self.profile.model_dump(mode="json"),
            "profiled": dict(self.profiled),
            "why": self.why.model_dump(mode="json"),
            "explained": dict(self.explained),
            "feed": self.feed,
            "workload": self.workload.model_dump(mode="json"),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the content of plan.json; files that it names need not exist here.

        Raises:
            ValueError: Another version of this package wrote it.
        """
        if data["schema_version"] != SCHEMA_VERSION:
            raise ValueError(
                f"plan.json has version {data['schema_version']}, not {SCHEMA_VERSION}"
            )
        processes = data["processes"]
        return cls(
            study=data["study"],
            description=data["description"],
            seed=data["seed"],
            objective=data["objective"],
            default=data["default"],
            baseline=data["baseline"],
            repeat=data["repeat"],
            today=data.get("today"),  # plans of before have none
            launches=tuple(
                Launch(item["id"], item["label"], item["arm"], _from_json(item["axes"]))
                for item in data["launches"]
            ),
            dropped=tuple(
                Dropped(item["label"], _from_json(item["axes"]), item["reason"])
                for item in data["dropped"]
            ),
            processes="auto" if processes == "auto" else tuple(processes),
            exclude=tuple(_from_json(item) for item in data["exclude"]),
            search=Search.model_validate(data["search"]),
            measure=Measure.model_validate(data["measure"]),
            confirm=Confirm.model_validate(data["confirm"]),
            profile=Profile.model_validate(data["profile"]),
            profiled=dict(data["profiled"]),
            why=Why.model_validate(data["why"]),
            explained=dict(data["explained"]),
            feed=data.get("feed", "off"),  # plans of before have none
            workload=Workload.model_validate(data["workload"]),
        )


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
    launches = [named(item.axes, item.arm, defaults, builds) for item in expansion.kept]
    baseline = next((item for item in launches if item.arm == "baseline"), launches[0])
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
        today=next((item.id for item in launches if item.arm == "today"), None),
        launches=tuple(launches),
        dropped=tuple(
            Dropped(
                label(item.axes, defaults, builds), item.axes, config.launches.exclusion_text(index)
            )
            for item, index in expansion.dropped
        ),
        processes=config.processes if config.processes == "auto" else tuple(config.processes),
        exclude=tuple(config.launches.exclude),
        search=config.search,
        measure=config.measure,
        confirm=config.confirm,
        profile=config.profile,
        profiled=_targets("profile", profiled, launches, baseline),
        why=config.why,
        explained=_targets("why", explained, launches, baseline),
        feed="off" if pool else config.feed,
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
    plan: Mapping[str, Any], recommendation: Mapping[str, Any], machine: str
) -> Mapping[str, Any] | None:
    """Return the launch of a plan that is recommended for a machine; None if there is none.

    Args:
        plan: plan.json.
        recommendation: analysis/recommendation.json.
        machine: the machine's hash.
    """
    for entry in recommendation["machines"]:
        if entry["machine"] == machine and entry["recommended"]:
            chosen = entry["recommended"]["launch"]
            launches: Sequence[Mapping[str, Any]] = plan["launches"]
            return next(launch for launch in launches if launch["id"] == chosen)
    return None


def replicates_of(plan: Mapping[str, Any], launch: Mapping[str, Any]) -> int:
    """Return how many fresh cohorts a plan has of a launch; in a race each has a number of its own.

    Args:
        plan: plan.json, or what a race has made of it.
        launch: one of its launches.
    """
    return int(launch.get("replicates", plan["replicates"]))


def asked_replicates(plan: Mapping[str, Any]) -> int | None:
    """Return how many fresh cohorts of every launch a plan asks for; None where a race decides."""
    return None if "searched" in plan else int(plan["replicates"])


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


def _to_json(axes: Axes) -> dict[str, Any]:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in axes.items()}


def _from_json(axes: Mapping[str, Any]) -> Axes:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in axes.items()}
