"""The verdict of a study whose recommendation was not confirmed: what its windows predict.

A difference is claimed only where the interval of the ratio leaves 1 out and the ratio is farther
from 1 than the baseline's repeat was from the baseline at the same process counts. Where that does
not hold of the best launch against the default at its own best, the verdict says what does hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaling_study.analysis.noise import spread_at
from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.quantities import format_percent, format_ratio, known
from scaling_study.report.headline_words import (
    against,
    compared,
    differs,
    gives,
    name_launch,
    open_with,
    processes,
    shortly,
    span,
    times,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    Json = Mapping[str, Any]

MUCH_LARGER = 1.5
"""So much larger than at each launch's own count, the ratio at the same count belongs on top."""
SURE = 0.8
"""Below this probability of being best, the report names the closest other launch."""
SMALL_GAIN = 1.25
"""An interval that ends below this rules a large gain out, which is worth a verdict."""


def predicted_verdict(recommendation: Json, noise: Json | None) -> str:
    """Word what is certain of a recommendation.

    Args:
        recommendation: a machine's entry of analysis/recommendation.json, with a recommendation.
        noise: its entry of analysis/noise.json; None without a repeat of the baseline.
    """
    recommended, default = recommendation["recommended"], compared(recommendation)
    objective, ratio = recommendation["objective"], recommendation["ratio"]
    value = f"{gives(recommended, objective)} predicted with {processes(recommended)}"
    if default is None or ratio is None:
        name = name_launch(recommended)
        return f"{value} of {name}; the default launch gave nothing to compare with"
    if len(recommendation["ranking"]) == 1:
        return f"Only one launch could be measured: {value}"
    if recommended["launch"] == default["launch"]:
        probability = recommended["probability_best"]
        sure = known(probability) and probability >= SURE
        best = f"{open_with(default)} is the best one found"
        slower = f"No launch measured faster than {shortly(default)}"
        return f"{best if sure else slower}: {value}"
    return _compared(recommendation, default, noise)


def _compared(recommendation: Json, default: Json, noise: Json | None) -> str:
    """The verdict on a launch that is not the one it is compared with."""
    recommended = recommendation["recommended"]
    ratio, same = recommendation["ratio"], recommendation["ratio_same_n"]
    objective, name = recommendation["objective"], open_with(recommended)
    # A time says more than a ratio; what all processes give is in the bars.
    soon = f"{gives(recommended, objective)}, " if OBJECTIVES[objective].single else ""
    gain = f"{soon}{times(ratio, against(objective, name_launch(default)))}"
    if not span(ratio):
        return f"{name}: {gain}, predicted without an interval"
    same_tells = differs(same, spread_at(noise, recommended["n"])) and same["low"] > 1
    spread = spread_at(noise, recommended["n"], default["n"])
    if differs(ratio, spread) and ratio["value"] > 1:
        each = ""
        if same_tells and same["value"] > MUCH_LARGER * ratio["value"]:
            # The default launch is at its best with another number of processes.
            each = f"; {format_ratio(same['value'])} with {processes(recommended)} each"
        return f"{name}: {gain}, predicted{each}"
    if same_tells and recommended["n"] != default["n"]:
        other = against(objective, f"{shortly(default)} at {processes(recommended)}")
        return f"{name}: {soon}{times(same, other)}, predicted"
    return f"{_uncertain(recommendation, default, gain)}{_beside_noise(ratio, spread)}"


def _uncertain(recommendation: Json, default: Json, gain: str) -> str:
    """What is certain of a launch that is not shown to be faster than another one."""
    recommended = recommendation["recommended"]
    ratio, objective = recommendation["ratio"], recommendation["objective"]
    name, value = open_with(recommended), format_ratio(ratio["value"])
    if ratio["high"] < 1:
        fastest = f"{open_with(default)} is the fastest; {name_launch(recommended)}"
        if OBJECTIVES[objective].single:
            return f"{fastest}: {gain}, predicted"
        return (
            f"{fastest} gives {value} "
            f"({span(ratio)}) with {processes(recommended)} instead of {default['n']:,}, predicted"
        )
    if ratio["high"] <= SMALL_GAIN:
        most = f"{format_ratio(ratio['high'])} {against(objective, name_launch(default))}"
        return f"{name}: at most {most} ({value}; {span(ratio)}), predicted"
    return f"{name}: {gain}, predicted; a gain is not certain"


def _beside_noise(ratio: Json, spread: float | None) -> str:
    """The A/A check, where it is what makes a difference uncertain."""
    if spread is None or ratio["low"] <= 1 <= ratio["high"] or abs(ratio["value"] - 1) > spread:
        return ""
    return f"; the same launch measured twice differed by {format_percent(spread)}"
