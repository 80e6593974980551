"""Files of experiments as runs, and their windows as the rows of tables/experiments."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scaling_study.analysis import why_schema
from scaling_study.analysis.accounts import PHASES
from scaling_study.analysis.record_rows import LIFE_FIELDS, FileRows
from scaling_study.analysis.record_schema import REMEDY, RecordError, WindowMachine, WindowMember
from scaling_study.analysis.window_table import window_rows
from scaling_study.common.columns import CLOCK, EXPERIMENTS, PER_STEP, RUNNABLE, VMSTAT
from scaling_study.runner.windows import INVALID

EVIDENCE = frozenset({"foreign_cpu", "stolen_cpu"})
"""Flags of a window that is no measurement of the launch, but shows what disturbs it."""

NO_SUCH_COHORT = "not_proven"
"""Flag of a window whose cohort did not show that it got what it asks for."""

MEANS = ("threads", "processes", RUNNABLE.name, CLOCK.name)
CPU_WAITS = ("trainer_runqueue_s_per_step", "trainer_throttled_s_per_step")
MEMBERS = ["name", "n", "block", "slot", "unhindered_s"]
FIELDS = tuple(
    name
    for name in (*WindowMachine.__annotations__, *WindowMember.__annotations__)
    if name not in LIFE_FIELDS
)
"""Of a member and its window; what an older file lacks is null."""


@dataclasses.dataclass(frozen=True, slots=True)
class WhyRun:
    """One job of experiments: one target, one replicate.

    Attributes:
        head: Its first record.
        attestations: By cohort: ``reference``, names of reliefs, ``kernels``.
        failed: Reason by relief that did not start, prove itself or last.
        left_out: Reason by relief that cannot be made in this script, which was tried.
        windows: Rows of tables/experiments.
        members: A row per member and window that counts: `name`, `n`, `block`, `slot` and
            `unhindered_s`, the step less its waiting for a CPU.
        samples: What training threads were found doing.
        foreign: The largest foreign consumers of CPU time.
        end: Its last record; None where the job was cut off.
    """

    head: why_schema.Head
    attestations: dict[str, why_schema.Attestation]
    failed: dict[str, str]
    left_out: dict[str, str]
    windows: pd.DataFrame
    members: pd.DataFrame
    samples: tuple[why_schema.Samples, ...]
    foreign: tuple[why_schema.ForeignProcess, ...]
    end: why_schema.End | None


def read_run(path: Path) -> WhyRun:
    """Read one file of experiments.

    Args:
        path: why/<target>/<replicate>.jsonl.

    Raises:
        RecordError: A record cannot be read or contradicts the ones before it.
    """
    by_kind: dict[str, list[Any]] = {}
    for line, record in why_schema.read(path):
        if record["kind"] == "window":
            refuse_contradictions(path, line, record)
        by_kind.setdefault(record["kind"], []).append(record)
    heads = by_kind.get("why", [])
    if len(heads) != 1:
        raise RecordError(f"{path}: {len(heads)} first records; {REMEDY}")
    attestations = {one["cohort"]: one for one in by_kind.get("attestation", [])}
    unproven = frozenset(
        name for name, one in attestations.items() if not all(c["ok"] for c in one["checks"])
    )
    windows = by_kind.get("window", [])
    counted = member_rows(windows)
    return WhyRun(
        head=heads[0],
        attestations=attestations,
        failed={one["relief"]: one["reason"] for one in by_kind.get("relief_failed", [])},
        left_out={one["relief"]: one["reason"] for one in by_kind.get("relief_left_out", [])},
        windows=_frame(heads[0], windows, counted, unproven),
        members=_unhindered(windows, counted),
        samples=tuple(by_kind.get("samples", [])),
        foreign=tuple(one for each in by_kind.get("foreign", []) for one in each["processes"]),
        end=by_kind["end"][-1] if "end" in by_kind else None,
    )


def frame(runs: Iterable[WhyRun]) -> pd.DataFrame:
    """All windows of some runs, as tables/experiments holds them."""
    frames = [run.windows for run in runs if not run.windows.empty]
    return EXPERIMENTS.frame(pd.concat(frames, ignore_index=True) if frames else None)


def refuse_contradictions(path: Path, line: int, window: why_schema.Timed) -> None:
    """Raise if a window's members contradict each other, or their own step times.

    Raises:
        RecordError: They do.
    """
    slots = {member["slot"] for member in window["members"]}
    if len(slots) < len(window["members"]) or len(slots) > window["n"]:
        raise RecordError(
            f"{path}:{line}: slots {sorted(slots)} of {len(window['members'])} members, "
            f"n is {window['n']}; {REMEDY}"
        )
    for member in window["members"]:
        if member["steps"] != len(member["step_us"]):
            raise RecordError(
                f"{path}:{line}: slot {member['slot']} counted {member['steps']} steps and has "
                f"{len(member['step_us'])} step times; {REMEDY}"
            )


def _frame(
    head: why_schema.Head,
    windows: Sequence[why_schema.Window],
    counted: pd.DataFrame,
    unproven: frozenset[str],
) -> pd.DataFrame:
    """Rows of the table, one per window."""
    if not windows:
        return EXPERIMENTS.frame()
    names = {
        "machine": head["machine_hash"],
        **{key: head[key] for key in ("launch", "label", "arm", "target", "replicate")},
    }
    rows = pd.DataFrame([names | _row(window, unproven) for window in windows])
    members = per_window(counted)
    rows = rows.join(members).join(_machine(windows, members))
    rows["usable"] &= rows["step_s"].gt(0) & np.isfinite(rows["step_s"])
    return EXPERIMENTS.frame(rows)


def _row(window: why_schema.Window, unproven: frozenset[str]) -> dict[str, Any]:
    """What a row holds besides what is counted."""
    cohort = window["name"] if window["experiment"] == "relief" else "reference"
    flags = [*window["flags"], *([NO_SUCH_COHORT] if cohort in unproven else [])]
    # Remarks on a valid window make it no less valid, so they do not make it useless either.
    evidence = EVIDENCE.issuperset(_invalid(flags))
    whole = len(window["members"]) == window["n"]
    return {
        **{key: window[key] for key in ("experiment", "name", "block", "n", "take")},
        "dose": np.nan if window["dose"] is None else window["dose"],
        "count": np.nan if window["count"] is None else window["count"],
        "rate_share": np.nan if window["rate_share"] is None else window["rate_share"],
        "valid": window["valid"] and NO_SUCH_COHORT not in flags,
        "usable": whole and NO_SUCH_COHORT not in flags and (window["valid"] or evidence),
        "flags": ";".join(flags),
    }


def _invalid(flags: Sequence[str]) -> list[str]:
    return [flag for flag in flags if flag in INVALID or flag == NO_SUCH_COHORT]


def member_rows(windows: Sequence[why_schema.Timed]) -> pd.DataFrame:
    """What members counted, a row per member and window; `window` is its place."""
    if not windows:
        return pd.DataFrame()
    flat = [(at, window, one) for at, window in enumerate(windows) for one in window["members"]]
    rows = pd.DataFrame(
        [
            {"window": at, **dict.fromkeys(FIELDS), **window["machine"], **_without_steps(member)}
            for at, window, member in flat
        ]
    )
    # Null counts are objects to pandas.
    rows = rows.astype(np.float64).assign(replicate=0, cohort=0, take=0)
    step_us = np.concatenate([np.array(member["step_us"], np.int64) for *_, member in flat])
    return window_rows([FileRows(rows, step_us, ())])


def _unhindered(windows: Sequence[why_schema.Window], rows: pd.DataFrame) -> pd.DataFrame:
    """What `WhyRun.members` holds; of windows that count only."""
    if rows.empty:
        return pd.DataFrame(columns=MEMBERS)
    at = rows["window"].astype(np.int64).to_numpy()
    names = pd.DataFrame(
        [
            {key: one[key] for key in ("name", "n", "block", "valid")}
            for one in windows
        ]
    )  # fmt: skip
    waits = rows[[*CPU_WAITS]].fillna(0.0).sum(axis=1).to_numpy()
    found = names.iloc[at].reset_index(drop=True)
    found["slot"] = rows["slot"].to_numpy(dtype=np.int64)
    found["unhindered_s"] = 1 / rows["steps_per_s"].to_numpy() - waits
    counts = found["valid"] & np.isfinite(found["unhindered_s"])
    return pd.DataFrame(found.loc[counts, MEMBERS]).reset_index(drop=True)


def per_window(rows: pd.DataFrame) -> pd.DataFrame:
    """What members counted, a row per window: sums over members over sums of their steps."""
    by_window = rows["window"].astype(np.int64)
    steps_per_s = rows["steps_per_s"].groupby(by_window).sum()
    found = {"step_s": rows.groupby(by_window).size() / steps_per_s}
    for column in PER_STEP:
        phase = column.name.removesuffix("_per_step") in PHASES
        steps = rows["steps" if phase else "steps_active"].where(rows[column.name].notna(), 0.0)
        total = (rows[column.name].fillna(0.0) * steps).groupby(by_window).sum()
        found[column.name] = total / steps.groupby(by_window).sum()
    for name in MEANS:
        found[name] = rows[name].groupby(by_window).mean()
    found["restarts"] = rows["restarts"].groupby(by_window).sum()
    found["cpu_use"] = rows["cpu_use"].groupby(by_window).sum()
    found["steps"] = rows["steps_active"].groupby(by_window).sum()
    found["active_s"] = rows["active_s"].groupby(by_window).max()
    return pd.DataFrame(found)


def _without_steps(member: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in member.items() if name not in {"step_us", *LIFE_FIELDS}}


def _machine(windows: Sequence[why_schema.Window], members: pd.DataFrame) -> pd.DataFrame:
    """Readings of the machine: per second between the edges, or per step of all members."""
    names = dict.fromkeys(WindowMachine.__annotations__)
    machine = pd.DataFrame([names | window["machine"] for window in windows]).astype(np.float64)
    window_s = pd.Series([window["window_s"] for window in windows])
    # The last step of a window ends after its close, and the counters are read after that.
    span_s = pd.concat([window_s, members["active_s"]], axis=1).max(axis=1)
    steps = members["steps"].where(members["steps"] > 0)
    found = pd.DataFrame(
        {
            "foreign_cpus": machine["foreign_cpu_s"] / span_s,
            "steal_cpus": machine["steal_s"] / span_s,
            "throttled_s_per_step": machine["throttled_s"] / steps,
            **{name: machine[name] for name in ("members_cpus", "trainers_cpus", "frequency_mhz")},
            **{
                f"psi_{kind}_share": machine[f"psi_{kind}_some_s"] / span_s
                for kind in ("cpu", "memory", "io")
            },
        }
    )
    for name in VMSTAT:
        counts = pd.Series([float(one["vmstat"].get(name, np.nan)) for one in windows])
        found[f"{name}_per_step"] = counts / steps
    return found
