"""What a fault does to a script without the harness: n processes, and when their steps end."""

from __future__ import annotations

import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fault_cases import Case, clean_of
from fault_list import FAULTS, FOLDER

from scaling_study.config.config import load_config
from scaling_study.config.plan import make_plan
from scaling_study.host import probe
from scaling_study.launch.launchers.launcher import bind_command
from scaling_study.runner import resolve

SECONDS = 4.0
SETTLE_S = 0.5
"""Left out at the beginning: not all processes train yet, and caches are cold."""


@functools.cache  # many faults are compared with the same clean script
def step_s(case: Case, n: int) -> tuple[float, float]:
    """Run n processes of a case at once; return the wall and the CPU time (s) of a step.

    Raises:
        RuntimeError: a process ended before its time.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = make_plan(load_config(case.config(folder)))
        axes = plan.by_id[plan.baseline].axes
        resolved = resolve.resolve(plan, axes, probe.read_machine(), folder, [n])
        env = dict(resolved.launch.env)
        timed = [sys.executable, str(FOLDER / "timed.py"), "--seconds", str(SECONDS), "--"]
        commands = [
            [*_bind(one.cpus, one.mempolicy), *timed, *one.command] for one in resolved.members
        ]
        outputs = _run_beside(case.outside(folder), commands, env)
    return summarise(outputs)


def _bind(cpus: str | None, mempolicy: str) -> list[str]:
    """Return what binds a process and ends it with its parent, who is known only later."""
    own = str(os.getpid())
    return ["PARENT" if word == own else word for word in bind_command(cpus, mempolicy, {})]


def _run_beside(
    outside: tuple[str, ...], commands: list[list[str]], env: dict[str, str]
) -> list[list[list[float]]]:
    """Run commands at once, beside a fault's hogs or in its cgroup."""
    # One process starts them all: it is what is put beside or inside.
    code = (
        "import os,subprocess,sys,json\n"
        "commands, env = json.load(sys.stdin)\n"
        "commands = [[str(os.getpid()) if w == 'PARENT' else w for w in c] for c in commands]\n"
        "ran = [subprocess.Popen(c, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,"
        " text=True) for c in commands]\n"
        "print(json.dumps([one.communicate()[0].splitlines()[-1:] for one in ran]))"
    )
    around = [sys.executable, str(FOLDER / "outside.py"), *outside, "--"]
    done = subprocess.run(
        [*around, sys.executable, "-c", code],
        input=json.dumps([commands, env]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=dict(os.environ),
    )
    lines = json.loads(done.stdout)
    if not all(lines):
        raise RuntimeError("a process ended before its time")
    return [json.loads(line[0]) for line in lines]


def summarise(ends: list[list[list[float]]]) -> tuple[float, float]:
    """Return the mean wall and CPU time (s) of a member's step while all members train.

    Args:
        ends: for each member, for each step, its end and the CPU time until then.
    """
    begin = max(member[0][0] for member in ends) + SETTLE_S
    until = min(member[-1][0] for member in ends)
    walls, cpus = [], []
    for member in ends:
        inside = [step for step in member if begin <= step[0] <= until]
        if len(inside) < 3:
            raise RuntimeError("too few steps while all processes trained")
        count = len(inside) - 1
        walls.append((inside[-1][0] - inside[0][0]) / count)
        cpus.append((inside[-1][1] - inside[0][1]) / count)
    return len(walls) / sum(1 / wall for wall in walls), statistics.fmean(cpus)


def effect(workload: str, fault: str) -> dict[str, Any]:
    """Compare a fault with its control, or the bare script, alone and at its reference n."""
    case = Case(workload, fault, 0)
    clean = clean_of(case)
    most, clean_most = FAULTS[fault].most, FAULTS[fault].clean_most
    clean_1, injected_1 = step_s(clean, 1), step_s(case, 1)
    clean_n, injected_n = step_s(clean, clean_most), step_s(case, most)
    return {
        "workload": workload,
        "fault": fault,
        "clean_ms": [1e3 * clean_1[0], 1e3 * clean_n[0]],
        "injected_ms": [1e3 * injected_1[0], 1e3 * injected_n[0]],
        "clean_cpu_ms": [1e3 * clean_1[1], 1e3 * clean_n[1]],
        "injected_cpu_ms": [1e3 * injected_1[1], 1e3 * injected_n[1]],
        "slowdown": injected_n[0] / clean_n[0],
    }
