"""The report's part about what an iteration is, and what lies between steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaling_study.common.quantities import format_percent, format_seconds
from scaling_study.launch.axes.isa import ISAS
from scaling_study.report.report_rows import Row, number_cell
from scaling_study.stats.thresholds import NOTICEABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from scaling_study.report.figure_series import Series

# What ATen calls its kernels, best first, with the CPU flags that each needs.
ATEN_KERNELS = (
    ("AVX512", ("avx512f", "avx512dq", "avx512bw", "avx512vl", "fma")),
    ("AVX2", ("avx2", "fma")),
)

# What the axis isa sets, besides what ATen says itself, and values that limit nothing.
ISA_VARIABLES = sorted(
    {name for isa in ISAS.values() for name in isa.env} - {"ATEN_CPU_CAPABILITY"}
)
NO_LIMIT = ("default", "all")


@dataclass(frozen=True, slots=True)
class BetweenView:
    """What the templates show.

    Attributes:
        rows: one for each launch, count and kind of phase that comes back.
        notes: what was counted, what the script did to itself, and whether its pace changed.
    """

    rows: list[Row]
    notes: list[str]


def view_between(
    between: pd.DataFrame,
    attested: Sequence[Mapping[str, Any]],
    series: Sequence[Series],
    machine: Mapping[str, Any],
    step: Any,
) -> BetweenView:
    """Make the view of one machine.

    Args:
        between: its rows of tables/between.
        attested: launches of its entry of analysis/attestation.json.
        series: the launches that the report shows in colour.
        machine: machine.json.
        step: the config's workload.step.
    """
    titles = {one.launch: one.title for one in series if one.roles}
    shown = between[between["launch"].isin([*titles])]
    largest = shown.groupby(["launch", "n"])["share"].sum()
    worth = largest[largest > NOTICEABLE].index
    rows = [
        {
            "label": titles[row["launch"]],
            "n": number_cell(row["n"], text=str(row["n"])),
            "every": number_cell(row["every_steps"]),
            "duration": number_cell(row["duration_s"], text=format_seconds(row["duration_s"])),
            "share": number_cell(row["share"], text=format_percent(row["share"])),
        }
        for row in shown.to_dict("records")
        if (row["launch"], row["n"]) in worth
    ]
    entries = [entry for entry in attested if entry["launch"] in titles] or list(attested)
    notes = [
        text
        for entry in entries
        for text in (
            _counted(entry, step),
            _once(entry),
            *_changes(entry, titles.get(entry["launch"], entry["label"])),
            _kernels(entry, titles.get(entry["launch"], entry["label"]), machine),
            _limited(entry, titles.get(entry["launch"], entry["label"])),
            _settling(entry.get("settling"), titles.get(entry["launch"], entry["label"])),
            _pace(entry.get("pace"), titles.get(entry["launch"], entry["label"])),
        )
        if text
    ]
    return BetweenView(rows, list(dict.fromkeys(notes)))


def _settling(settling: Mapping[str, Any] | None, title: str) -> str:
    """Whether windows were taken anew, because the script had not settled."""
    if settling is None:
        return ""
    least, most = settling["least"], settling["most"]
    how = "slower" if least > 0 else "faster" if most < 0 else "slower or faster"
    left = ""
    if settling["left"]:
        left = f" In {settling['left']} of these it was still changing in the last windows."
    return (
        f"{title}: in {settling['cohorts']} of {settling['of']} cohorts the first windows do not "
        f"count. In them training became up to {format_percent(max(abs(least), abs(most)))} {how}: "
        "memory is touched and files are made for the first time, or averages decay into denormal "
        f"numbers. A training that is as short as these windows has that time too.{left}"
    )


def _pace(pace: Mapping[str, Any] | None, title: str) -> str:
    """Whether steps became slower or faster from a cohort's first windows to its last ones."""
    if pace is None or pace["low"] is None or abs(pace["value"] - 1) < NOTICEABLE:
        return ""
    if pace["low"] <= 1 <= pace["high"]:
        return ""
    changes = sorted((abs(pace["low"] - 1), abs(pace["high"] - 1)))
    low, high = map(format_percent, changes)
    return (
        f"{title}: a step took {format_percent(abs(pace['value'] - 1))} "
        f"{'longer' if pace['value'] > 1 else 'less'} in the last windows than in the first ones "
        f"(95% interval {low} to {high}). The script or the machine changes its speed while it "
        "trains. A rate from windows holds for as long as they saw."
    )


def _counted(entry: Mapping[str, Any], step: Any) -> str:
    """What one iteration was, and how that was known."""
    if step == "mark":
        return "An iteration is one call of scaling_study.mark()."
    if isinstance(step, dict) and "every" in step:
        return f"An iteration is {step['every']} optimizer steps, as workload.step says."
    counted = next(iter(entry.get("counted") or []), None)
    optimizers = counted["optimizers"] if counted else []
    if isinstance(step, dict):
        others = sorted({one["name"] for one in optimizers if not one["ends"]})
        left_out = f" Steps of {', '.join(others)} are left out." if others else ""
        return f"An iteration is one step of {step['optimizer']}, as workload.step says.{left_out}"
    if not optimizers:
        return ""
    if len(optimizers) == 1:
        return f"An iteration is one step of the script's optimizer, {optimizers[0]['name']}."
    last = next((one["name"] for one in optimizers if one["ends"]), optimizers[-1]["name"])
    steps = ", ".join(f"{one['name']} {one['steps']:,}" for one in optimizers)
    return (
        f"The script has {len(optimizers)} optimizers (steps since its start: {steps}). An "
        f"iteration is one round of them and ends with a step of {last}, the one that steps least "
        "often. If that is wrong, set workload.step to {every: k} or {optimizer: name}."
    )


def _once(entry: Mapping[str, Any]) -> str:
    if not entry.get("once"):
        return ""
    return (
        "The script can run only once in a process, so each of its runs got a process of its own."
    )


def _changes(entry: Mapping[str, Any], title: str) -> list[str]:
    return [
        f"{title}: the script changed {change['what']} from {change['before']} to "
        f"{change['after']} while it trained."
        for change in entry.get("changes") or []
    ]


def _kernels(entry: Mapping[str, Any], title: str, machine: Mapping[str, Any]) -> str:
    """Whether ATen took older kernels than the CPU has, though the launch did not ask for that."""
    member = entry["member"]
    best = next((name for name, flags in ATEN_KERNELS if set(flags) <= set(machine["isa"])), None)
    asked = _asked_isa(entry)
    names = ["DEFAULT", *(name for name, _ in reversed(ATEN_KERNELS))]
    if member is None or best is None or asked != "default" or member["isa"] not in names:
        return ""
    if names.index(member["isa"]) >= names.index(best):
        return ""
    return (
        f"{title}: ATen ran its {member['isa']} kernels, and this CPU has {best}. The script or "
        "its environment sets ATEN_CPU_CAPABILITY; without that, its operators may be faster."
    )


def _limited(entry: Mapping[str, Any], title: str) -> str:
    """Whether libraries were told which vector instructions to use, though the launch did not."""
    if entry["member"] is None or _asked_isa(entry) != "default":
        return ""
    env = entry["member"]["env"]
    limits = [
        f"{name} to {env[name]}"
        for name in ISA_VARIABLES
        if env.get(name, NO_LIMIT[0]).lower() not in NO_LIMIT
    ]
    if not limits:
        return ""
    return (
        f"{title}: the script or its environment sets {', '.join(limits)}, which decides what "
        "vector instructions a library uses. Without that, its operators may be faster."
    )


def _asked_isa(entry: Mapping[str, Any]) -> str:
    """What the launch asks for on the axis of instruction sets."""
    asked = (one["requested"] for one in entry["checks"] if one["axis"] == "isa")
    return str(next(asked, "default"))
