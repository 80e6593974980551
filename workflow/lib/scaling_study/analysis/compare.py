"""Several machines of one study side by side: what each gives per hour, per price and per energy.

Nothing is pooled over machines: each has the intervals of its own replicates, and a ratio joins two
of them. A machine that is not through is named with what it lacks, and does not keep the others
from being compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from scaling_study.analysis.machine_results import Results
from scaling_study.analysis.noise import spread_at
from scaling_study.analysis.recommend import of_objective
from scaling_study.common.objectives import OBJECTIVES, named
from scaling_study.common.storage import FLAT
from scaling_study.host import probe
from scaling_study.stats import intervals
from scaling_study.stats.intervals import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    Json = Mapping[str, Any]

SCHEMA_VERSION = 1
HOUR_S = 3600
WATTS_PER_KW = 1000
SOFTWARE = ("python", "torch")
"""Versions that decide how fast the same script is."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Models (or steps) per hour, per unit of the currency, and per kWh; or ratios of these.

    None where the config does not say what an hour costs, or there is nothing to compare.
    """

    rate: Interval | None = None
    per_price: Interval | None = None
    per_kwh: Interval | None = None


MEASURES = ("rate", "per_price", "per_kwh")


@dataclass(frozen=True, slots=True)
class Given:
    """A launch, and what it gives."""

    launch: str
    label: str
    n: int
    measures: Measures = field(metadata=FLAT)


@dataclass(frozen=True, slots=True)
class Best:
    """The machine that gives most, and how much more than the next; `spread` is of A/A checks."""

    first: str
    next: str
    ratio: Interval | None
    spread: float


def compare(
    found: Mapping[str, Results | str], kinds: Mapping[str, Json], currency: str
) -> dict[str, object]:
    """Set machines side by side.

    Args:
        found: what `read_results` gave of each machine, in the config's order.
        kinds: the config's section of each.
        currency: of the prices.

    Returns:
        Content of analysis/machines.json. `objective` is the rate that is compared, and `single`
        whether that of a launch which was chosen for the time of one model. `machines` has an entry
        for each, `best` for each of
        `MEASURES` the machine that gives most and how much more that is than the next, `same` names
        that stand for one machine, `software` what the machines differ in beside themselves.
    """
    found = _alike(found)
    there = {name: one for name, one in found.items() if isinstance(one, Results)}
    objectives = [_objective(one.recommendation) for one in there.values()]
    asked = [OBJECTIVES[one.recommendation["objective"]] for one in there.values()]
    reference = next((name for name in there if _chosen(there[name])), None)
    return {
        "schema_version": SCHEMA_VERSION,
        "objective": objectives[0] if objectives else None,
        "single": any(one.single for one in asked),
        "currency": currency,
        "reference": reference,
        "machines": [
            {
                "name": name,
                "kind": dict(kinds[name]),
                **(
                    {"status": "missing", "reason": one}
                    if isinstance(one, str)
                    else {
                        **_measured(one, kinds[name]),
                        "to_reference": ratios(there, kinds, name, reference),
                    }
                ),
            }
            for name, one in found.items()
        ],
        "best": {measure: _best(there, kinds, measure) for measure in MEASURES},
        "same": _same(there),
        "software": _software(there),
    }


def _alike(found: Mapping[str, Results | str]) -> dict[str, Results | str]:
    """Compare all machines by steps where only some have seen how many of them a model has."""
    there = [one for one in found.values() if isinstance(one, Results)]
    if all(_objective(one.recommendation) == "models_per_hour" for one in there):
        return dict(found)

    def of_steps(one: Results) -> Results:
        single = OBJECTIVES[one.recommendation["objective"]].single
        objective = named("steps_per_s", single=single)
        return replace(one, recommendation={**one.recommendation, "objective": objective})

    return {name: of_steps(one) if isinstance(one, Results) else one for name, one in found.items()}


def _measured(one: Results, kind: Json) -> dict[str, object]:
    """A machine's entry: its launches with what they give, and nodes that are other machines."""
    recommendation = one.recommendation
    description = one.descriptions[one.hash]
    return {
        "status": "measured",
        "reason": recommendation["reason"],
        "machine": one.hash,
        "cpu_model": description["cpu_model"],
        "hosts": sorted(one.hosts[one.hash]),
        "default": _launch(recommendation, recommendation["default"], kind),
        "recommended": _launch(recommendation, recommendation["recommended"], kind),
        "others": [
            {
                "machine": other,
                "hosts": sorted(one.hosts[other]),
                "cohorts": sum(one.hosts[other].values()),
                "differences": probe.differences(description, one.descriptions[other]),
            }
            for other in one.hosts
            if other != one.hash
        ],
    }


def _launch(recommendation: Json, entry: Json | None, kind: Json) -> Given | None:
    """A launch, and what it gives."""
    if entry is None:
        return None
    objective = _objective(recommendation)
    value, low, high = of_objective(entry, objective)
    if value is None:
        return None
    rate = Interval(value, low, high)
    hourly = 1 if objective == "models_per_hour" else HOUR_S
    price, kwh = _costs(kind)
    given = Measures(rate, _scaled(rate, hourly, price), _scaled(rate, hourly, kwh))
    return Given(entry["launch"], entry["label"], entry["n"], given)


def _costs(kind: Json) -> tuple[float | None, float | None]:
    """What an hour of a machine costs, in the currency and in kWh."""
    watts = kind["watts"]
    return kind["price"], None if watts is None else watts / WATTS_PER_KW


def _scaled(rate: Interval, over: float | None, under: float | None) -> Interval | None:
    return None if over is None or under is None else rate.times(over / under)


def ratios(
    there: Mapping[str, Results], kinds: Mapping[str, Json], over: str, under: str | None
) -> Measures:
    """How much more one machine gives than another, each with the launch recommended for it."""
    if under is None or over == under or not (_chosen(there[over]) and _chosen(there[under])):
        return Measures()
    found = intervals.ratio(_rate(there[over]), _rate(there[under]))
    costs = zip(_costs(kinds[under]), _costs(kinds[over]), strict=True)
    return Measures(found, *(_scaled(found, theirs, ours) for theirs, ours in costs))


def _objective(recommendation: Json) -> str:
    """What machines are compared by: an hour's price is that of all that it gives."""
    return OBJECTIVES[recommendation["objective"]].rate


def _rate(one: Results) -> intervals.LogMean:
    """What the recommended point gives."""
    chosen, objective = one.recommendation["recommended"], _objective(one.recommendation)
    return intervals.Means(one.rates, objective).of(chosen["launch"], chosen["n"])


def _chosen(one: Results) -> bool:
    return one.recommendation["recommended"] is not None


def _best(there: Mapping[str, Results], kinds: Mapping[str, Json], measure: str) -> Best | None:
    """The machine that gives most, against the next; None with fewer than two to compare."""
    values: dict[str, float] = {}
    for name, one in there.items():
        given = _launch(one.recommendation, one.recommendation["recommended"], kinds[name])
        found = given and getattr(given.measures, measure)
        if found:
            values[name] = found.value
    if len(values) < 2:  # noqa: PLR2004 (two to compare)
        return None
    first, second, *_ = sorted(values, key=lambda name: -values[name])
    spreads = [
        spread_at(there[name].noise, there[name].recommendation["recommended"]["n"]) or 0.0
        for name in (first, second)
    ]
    ratio = getattr(ratios(there, kinds, first, second), measure)
    return Best(first, second, ratio, max(spreads))


def _same(there: Mapping[str, Results]) -> list[list[str]]:
    """Names that stand for the same machine, as far as its speed goes."""
    names: dict[str, list[str]] = {}
    for name, one in there.items():
        names.setdefault(one.hash, []).append(name)
    return [group for group in names.values() if len(group) > 1]


def _software(there: Mapping[str, Results]) -> list[dict[str, object]]:
    """Versions and measuring code that are not the same on all machines, by machine."""
    values = {
        name: {name_: one.provenance["versions"].get(name, "none") for name_, one in there.items()}
        for name in SOFTWARE
    }
    hashes = {
        "measuring code": "harness_hashes",
        "what was measured (script, arguments, inputs or build)": "measured_hashes",
    }
    values |= {
        what: {name: ", ".join(one.provenance[key]) for name, one in there.items()}
        for what, key in hashes.items()
    }
    return [
        {"what": what, "machines": by_name}
        for what, by_name in values.items()
        if len(set(by_name.values())) > 1
    ]
