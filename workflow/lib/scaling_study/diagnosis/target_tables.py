"""The numbers of a target as causes.json holds them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scaling_study.analysis.experiment_runs import WhyRun
from scaling_study.diagnosis.case import Case
from scaling_study.diagnosis.shares import recovered_share, saved_share
from scaling_study.diagnosis.stressors import Inflation, Sensitivity
from scaling_study.host.perf_events import EVENTS
from scaling_study.member.kernels import KERNELS
from scaling_study.records.window import KERNEL_COUNTS
from scaling_study.stats.ratios import mean

Json = dict[str, Any]

ACCOUNTS: Mapping[str, str] = {
    "user": "CPU time in user mode",
    "system": "CPU time in the kernel",
    "runqueue": "waiting for a CPU (run queue)",
    "throttled": "held back by a quota",
    "blocked": "blocked",
    "residual": "not accounted for",
}
"""The training thread's accounts; they add up to the time of a step."""


def _kernel(*, hardware: bool) -> dict[str, tuple[str, str]]:
    return {
        one.name: (f"{one.name}_per_step", f"{one.title} per step")
        for one in KERNEL_COUNTS
        if (one.name in {event.name for event in EVENTS}) == hardware
    }


COUNTS: Mapping[str, tuple[str, str]] = {
    **_kernel(hardware=False),
    "threads": ("threads", "threads alive per member"),
    "runnable_threads": ("runnable_threads", "threads that run or wait for a CPU, per member"),
    "members_cpus": ("members_cpus", "CPUs that the members may use"),
    "cpu_use": ("cpu_use", "CPUs kept busy by all members"),
    "foreign_cpus": ("foreign_cpus", "CPUs kept busy by other programs"),
    "steal_cpus": ("steal_cpus", "CPUs taken by the hypervisor"),
    "psi_cpu": ("psi_cpu_share", "pressure on CPUs (PSI), share of the time"),
    "psi_memory": ("psi_memory_share", "pressure on memory (PSI), share of the time"),
    "psi_io": ("psi_io_share", "pressure on devices (PSI), share of the time"),
    "frequency": ("frequency_mhz", "CPU frequency in MHz"),
    "clock": ("clock_mhz", "clock while computing in MHz"),
    **_kernel(hardware=True),
}
MOST_WAITS = 8


def _known(value: float) -> float | None:
    return None if np.isnan(value) or np.isinf(value) else float(value)


def accounts(case: Case) -> list[Json]:
    """Where the training thread's time goes with one process and with n."""
    added_s = mean(case.step(case.n) - case.step(1))
    rows = []
    for name, title in ACCOUNTS.items():
        low, high = (_known(case.mean(f"trainer_{name}_s_per_step", n)) for n in (1, case.n))
        if low is None and high is None:
            continue  # the machine does not count it
        difference = (high or 0.0) - (low or 0.0)
        rows.append(
            {
                "account": name,
                "title": title,
                "low_s": low or 0.0,
                "high_s": high or 0.0,
                "difference_s": difference,
                "share": difference / added_s if added_s else 0.0,
            }
        )
    return rows


def counts(case: Case) -> list[Json]:
    """What the kernel counts per step or on average, where it counts."""
    rows = []
    for name, (column, title) in COUNTS.items():
        low, high = (_known(case.mean(column, n)) for n in (1, case.n))
        if low is not None or high is not None:
            rows.append({"name": name, "title": title, "low": low, "high": high})
    return rows


def intervention_rows(case: Case, *, grows: bool) -> list[Json]:
    """What each intervention brought back, and why those without a result have none.

    Args:
        case: The target.
        grows: Whether time is added from 1 to n: shares of nothing are left out.
    """
    rows = []
    for name, title in case.titles.items():
        row: Json = {"intervention": name, "title": title, "comes_back": None, "scaling_loss": None}
        row |= {"single_process_loss": None, "units": 0, "status": "measured", "reason": None}
        level, growth = (
            case.measured(name, "single_process_loss"),
            case.measured(name, "scaling_loss"),
        )
        if level or growth:
            row["units"] = len(case.pair(case.step(1, name), case.step(1)))
            row["single_process_loss"] = (
                _json(recovered_share(case, "single_process_loss", name)) if level else None
            )
            if growth and grows:
                row["comes_back"] = _json(saved_share(case, name)) if level else None
                row["scaling_loss"] = _json(recovered_share(case, "scaling_loss", name))
        elif name in case.left_out:
            row |= {"status": "not_applicable", "reason": case.left_out[name]}
        else:
            reason = case.failed.get(name, "it has no usable window")
            row |= {"status": "failed", "reason": reason}
        rows.append(row)
    return rows


def _json(estimate: Any) -> Json | None:
    return None if estimate is None else estimate.to_dict()


def sensitivity_rows(case: Case, found: Mapping[str, Sensitivity]) -> list[Json]:
    """How the training member reacts to stressors."""
    return [
        {
            "kernel": name,
            "title": kernel_title(case, name),
            "verified": one.verified,
            "doses": [
                {"dose": dose, "ratio": ratio.to_dict(), "rate_share": share}
                for dose, ratio, share in one.doses
            ],
            "effect": _json(one.effect),
        }
        for name, one in found.items()
    ]


def kernel_title(case: Case, name: str) -> str:
    """What a person calls a kernel."""
    listed = case.microbenchmarks["kernels"] if case.microbenchmarks else []
    named = next((one["title"] for one in listed if one["kernel"] == name), None)
    return str(named or (KERNELS[name].title if name in KERNELS else name))


def microbenchmark_rows(case: Case, found: Mapping[str, Inflation]) -> list[Json]:
    """How much slower each kernel gets on this machine."""
    return [
        {
            "kernel": name,
            "title": kernel_title(case, name),
            "inflation": one.inflation.to_dict(),
            "n": one.n,
        }
        for name, one in found.items()
    ]


def foreign_rows(runs: Sequence[WhyRun]) -> list[Json]:
    """Programs beside the study; over several jobs, their CPU time together and mean share."""
    found: dict[tuple[str, int], Json] = {}
    for run in runs:
        for one in run.foreign:
            row = found.setdefault(
                (one["name"], one["pid"]),
                {"name": one["name"], "pid": one["pid"], "cpu_s": 0.0, "share": 0.0},
            )
            row["cpu_s"] += one["cpu_s"]
            row["share"] += one["share"] / len(runs)
    return sorted(found.values(), key=lambda row: -row["share"])


def wait_rows(case: Case) -> list[Json]:
    """In which system calls the training threads were found, as share of all looks."""
    rows = [
        {"n": n, "syscall": syscall, "on": on, "share": count / one.samples}
        for n, one in case.sampled.items()
        for (syscall, on), count in one.calls.items()
        if one.samples
    ]
    return sorted(rows, key=lambda row: -float(str(row["share"])))[:MOST_WAITS]
