"""Several machines of one study side by side: what each gives per hour, per price and per energy.

Nothing is pooled over machines: each has the intervals of its own replicates, and a ratio joins two
of them. A machine that is not through is named with what it lacks, and does not keep the others
from being compared.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from scaling_study.analysis.machine_results import Results
from scaling_study.common.objectives import OBJECTIVES, named
from scaling_study.config.config import NodeKind
from scaling_study.host import probe
from scaling_study.records.analysis import (
    Best,
    Candidate,
    Compared,
    ComparedMachine,
    Measures,
    OtherNodes,
    Rate,
    Software,
)
from scaling_study.stats import intervals
from scaling_study.stats.interval import Interval

HOUR_S = 3600
WATTS_PER_KW = 1000
SOFTWARE = ("python", "torch")
"""Versions that decide how fast the same script is."""


MEASURES = Measures.__struct_fields__


def compare(
    found: Mapping[str, Results | str], kinds: Mapping[str, NodeKind], currency: str
) -> Compared:
    """Set machines side by side.

    Args:
        found: what `read_results` gave of each machine, in the config's order.
        kinds: the config's section of each.
        currency: of the prices.
    """
    found = _alike(found)
    there = {name: one for name, one in found.items() if not isinstance(one, str)}
    objectives = [one.objective for one in there.values()]
    reference = next((name for name, one in there.items() if one.recommendation.recommended), None)
    machines = tuple(
        ComparedMachine(name=name, kind=dict(kinds[name]), status="missing", reason=one)
        if isinstance(one, str)
        else replace(
            _measured(name, one, kinds[name]),
            to_reference=ratios(there, kinds, name, reference),
        )
        for name, one in found.items()
    )
    given = {one.name: one.recommended for one in machines if one.recommended}
    return Compared(
        objective=objectives[0] if objectives else None,
        single=any(one.recommendation.single for one in there.values()),
        currency=currency,
        reference=reference,
        machines=machines,
        best={measure: _best(there, kinds, given, measure) for measure in MEASURES},
        same=_same(there),
        software=tuple(_software(there)),
    )


def _alike(found: Mapping[str, Results | str]) -> dict[str, Results | str]:
    """Compare all machines by steps where only some have seen how many of them a model has."""
    there = [one for one in found.values() if not isinstance(one, str)]
    if all(one.objective == "models_per_hour" for one in there):
        return dict(found)

    def of_steps(one: Results) -> Results:
        objective = named("steps_per_s", single=one.recommendation.single)
        return dataclasses.replace(
            one, recommendation=replace(one.recommendation, objective=objective)
        )

    return {name: one if isinstance(one, str) else of_steps(one) for name, one in found.items()}


def _measured(name: str, one: Results, kind: NodeKind) -> ComparedMachine:
    """A machine's entry: its launches with what they give, and nodes that are other machines."""
    description = one.descriptions[one.hash]
    return ComparedMachine(
        name=name,
        kind=kind.model_dump(),
        status="measured",
        reason=one.recommendation.reason,
        machine=one.hash,
        cpu_model=description.cpu_model,
        hosts=tuple(sorted(one.hosts[one.hash])),
        default=_given(one, one.recommendation.default, kind),
        recommended=_given(one, one.recommendation.recommended, kind),
        others=tuple(
            OtherNodes(
                machine=other,
                hosts=tuple(sorted(one.hosts[other])),
                cohorts=sum(one.hosts[other].values()),
                differences=probe.differences(description, one.descriptions[other]),
            )
            for other in one.hosts
            if other != one.hash
        ),
    )


def _given(one: Results, point: Candidate | None, kind: NodeKind) -> Rate | None:
    """A launch, and what it gives."""
    if point is None:
        return None
    rate = point.rate(OBJECTIVES[one.objective])
    if math.isnan(rate.value):
        return None
    hourly = 1 if one.objective == "models_per_hour" else HOUR_S
    price, kwh = _costs(kind)
    return Rate(
        launch=point.launch,
        label=point.label,
        n=point.n,
        rate=rate,
        per_price=_scaled(rate, hourly, price),
        per_kwh=_scaled(rate, hourly, kwh),
    )


def _costs(kind: NodeKind) -> tuple[float | None, float | None]:
    """What an hour of a machine costs, in the currency and in kWh."""
    return kind.price, None if kind.watts is None else kind.watts / WATTS_PER_KW


def _scaled(rate: Interval, over: float | None, under: float | None) -> Interval | None:
    return None if over is None or under is None else rate.times(over / under)


def ratios(
    there: Mapping[str, Results], kinds: Mapping[str, NodeKind], over: str, under: str | None
) -> Measures:
    """How much more one machine gives than another, each with the launch recommended for it."""
    if under is None or over == under:
        return Measures()
    ours, theirs = there[over].recommended_rate(), there[under].recommended_rate()
    if ours is None or theirs is None:
        return Measures()
    found = intervals.ratio(ours, theirs)
    costs = zip(_costs(kinds[under]), _costs(kinds[over]), strict=True)
    price, kwh = (_scaled(found, theirs, ours) for theirs, ours in costs)
    return Measures(rate=found, per_price=price, per_kwh=kwh)


def _best(
    there: Mapping[str, Results],
    kinds: Mapping[str, NodeKind],
    given: Mapping[str, Rate],
    measure: str,
) -> Best | None:
    """The machine that gives most, against the next; None with fewer than two to compare."""
    values = {name: found.value for name, one in given.items() if (found := one.of(measure))}
    if len(values) < 2:  # noqa: PLR2004 (two to compare)
        return None
    first, second, *_ = sorted(values, key=lambda name: -values[name])
    return Best(
        first=first,
        next=second,
        ratio=ratios(there, kinds, first, second).of(measure) or Interval(),
        spread=max(there[name].noise.at(given[name].n) or 0.0 for name in (first, second)),
    )


def _same(there: Mapping[str, Results]) -> tuple[tuple[str, ...], ...]:
    """Names that stand for the same machine, as far as its speed goes."""
    names: dict[str, list[str]] = {}
    for name, one in there.items():
        names.setdefault(one.hash, []).append(name)
    return tuple(tuple(group) for group in names.values() if len(group) > 1)


def _software(there: Mapping[str, Results]) -> Iterator[Software]:
    """Versions and measuring code that are not the same on all machines, by machine."""
    values = {
        name: {
            name_: one.provenance.description.versions.get(name) or "none"
            for name_, one in there.items()
        }
        for name in SOFTWARE
    }
    hashes = {
        "measuring code": "harness_hashes",
        "what was measured (script, arguments, inputs or build)": "measured_hashes",
    }
    values |= {
        what: {name: ", ".join(getattr(one.provenance, key)) for name, one in there.items()}
        for what, key in hashes.items()
    }
    for what, by_name in values.items():
        if len(set(by_name.values())) > 1:
            yield Software(what=what, machines=by_name)
