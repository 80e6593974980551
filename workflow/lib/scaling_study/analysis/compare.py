"""Several machines of one study side by side: what each gives per hour, per price and per energy.

Nothing is pooled over machines: each has the intervals of its own replicates, and a ratio joins two
of them. A machine that is not through is named with what it lacks, and does not keep the others
from being compared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scaling_study.analysis.machine_results import Results
from scaling_study.analysis.noise import spread_at
from scaling_study.analysis.recommend import of_objective, ratio_entry
from scaling_study.common.objectives import OBJECTIVES, named
from scaling_study.host import probe
from scaling_study.stats import intervals

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]
SCHEMA_VERSION = 1
HOUR_S = 3600
WATTS_PER_KW = 1000
MEASURES = ("rate", "per_price", "per_kwh")
"""Models (or steps) per hour, per unit of the currency, and per kWh."""
SOFTWARE = ("python", "torch")
"""Versions that decide how fast the same script is."""


def compare(
    found: Mapping[str, Results | str], kinds: Mapping[str, Mapping[str, Any]], currency: str
) -> Json:
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
        "interval": intervals.INTERVAL,
        "objective": objectives[0] if objectives else None,
        "single": any(one.single for one in asked),
        "currency": currency,
        "reference": reference,
        "machines": [
            {
                "name": name,
                "kind": dict(kinds[name]),
                **(
                    _missing(one)
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


def _missing(reason: str) -> Json:
    return {"status": "missing", "reason": reason}


def _measured(one: Results, kind: Mapping[str, Any]) -> Json:
    """A machine's entry: its launches with what they give, and nodes that are other machines."""
    recommendation = one.recommendation
    description = one.descriptions[one.hash]
    return {
        "status": "measured",
        "reason": recommendation["reason"],
        "machine": one.hash,
        "cpu_model": description["cpu_model"],
        "hosts": sorted(one.hosts[one.hash]),
        "spread": one.noise["spread"],
        "default": _launch(recommendation, recommendation["default"], kind),
        "recommended": _launch(recommendation, recommendation["recommended"], kind),
        "others": [
            {
                "machine": other,
                "hosts": sorted(one.hosts[other]),
                "cohorts": sum(one.hosts[other].values()),
                "differences": [
                    {"fact": each.fact, "here": each.here, "there": each.there}
                    for each in probe.differences(description, one.descriptions[other])
                ],
            }
            for other in one.hosts
            if other != one.hash
        ],
    }


def _launch(
    recommendation: Mapping[str, Any], entry: Mapping[str, Any] | None, kind: Mapping[str, Any]
) -> Json | None:
    """A launch, and what it gives by each of `MEASURES`; None where the config does not say."""
    if entry is None:
        return None
    objective = _objective(recommendation)
    rate = dict(zip(("value", "low", "high"), of_objective(entry, objective), strict=True))
    hourly = 1 if objective == "models_per_hour" else HOUR_S
    return {
        **{name: entry[name] for name in ("launch", "label", "n")},
        "rate": rate,
        **{
            measure: _scaled(rate, None if cost is None else hourly / cost)
            for measure, cost in _costs(kind).items()
        },
    }


def _costs(kind: Mapping[str, Any]) -> dict[str, float | None]:
    """What an hour of a machine costs, in the currency and in kWh."""
    watts = kind["watts"]
    return {"per_price": kind["price"], "per_kwh": None if watts is None else watts / WATTS_PER_KW}


def _scaled(estimate: Mapping[str, float | None], factor: float | None) -> Json | None:
    if factor is None:
        return None
    return {name: None if value is None else value * factor for name, value in estimate.items()}


def ratios(
    there: Mapping[str, Results],
    kinds: Mapping[str, Mapping[str, Any]],
    over: str,
    under: str | None,
) -> Json:
    """How much more one machine gives than another, each with the launch recommended for it.

    Returns:
        Value and interval for each of `MEASURES`; None where there is nothing to compare.
    """
    if under is None or over == under or not (_chosen(there[over]) and _chosen(there[under])):
        return dict.fromkeys(MEASURES)
    found = ratio_entry(intervals.ratio(_rate(there[over]), _rate(there[under])))
    costs, others = _costs(kinds[over]), _costs(kinds[under])
    factors = {
        measure: None if mine is None or other is None else other / mine
        for measure, mine, other in ((name, costs[name], others[name]) for name in costs)
    }
    return {"rate": found} | {name: _scaled(found, factor) for name, factor in factors.items()}


def _objective(recommendation: Mapping[str, Any]) -> str:
    """What machines are compared by: an hour's price is that of all that it gives."""
    return OBJECTIVES[recommendation["objective"]].rate


def _rate(one: Results) -> intervals.LogMean:
    """What the recommended point gives."""
    chosen, objective = one.recommendation["recommended"], _objective(one.recommendation)
    return intervals.Means(one.rates, objective).of(chosen["launch"], chosen["n"])


def _chosen(one: Results) -> bool:
    return one.recommendation["recommended"] is not None


def _best(
    there: Mapping[str, Results], kinds: Mapping[str, Mapping[str, Any]], measure: str
) -> Json | None:
    """The machine that gives most, against the next; None with fewer than two to compare."""
    values = {
        name: launch[measure]["value"]
        for name, one in there.items()
        if (launch := _launch(one.recommendation, one.recommendation["recommended"], kinds[name]))
        and launch[measure] is not None
    }
    if len(values) < 2:  # noqa: PLR2004 (two to compare)
        return None
    first, second, *_ = sorted(values, key=lambda name: -values[name])
    spreads = [
        spread_at(there[name].noise, there[name].recommendation["recommended"]["n"]) or 0.0
        for name in (first, second)
    ]
    return {
        "first": first,
        "next": second,
        "ratio": ratios(there, kinds, first, second)[measure],
        "spread": max(spreads),
    }


def _same(there: Mapping[str, Results]) -> list[list[str]]:
    """Names that stand for the same machine, as far as its speed goes."""
    names: dict[str, list[str]] = {}
    for name, one in there.items():
        names.setdefault(one.hash, []).append(name)
    return [group for group in names.values() if len(group) > 1]


def _software(there: Mapping[str, Results]) -> list[Json]:
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
