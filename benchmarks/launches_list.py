"""The workloads of benchmarks/launches.py: their scripts, their studies, their figures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from launches_ways import ONE_THREAD, RUN_CPU
from truth_list import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

QUICK, TEMPLATE = ROOT / "config/quick.yaml", ROOT / "config/own-script.yaml"


class Workload(NamedTuple):
    """A script of the project, and what `recommended` should reach beside other ways.

    Attributes:
        script: Its path.
        steps: Of a model.
        field: A config, whose launches are raced.
        targets: Ratios by way.
    """

    script: Path
    steps: int
    field: Path
    targets: Mapping[str, float]

    def config(self, name: str, budget_minutes: float | None) -> dict[str, Any]:
        """Return a study that only races: config/quick.yaml with this script and these launches.

        Args:
            name: The study's.
            budget_minutes: Of the race; None for that of config/quick.yaml.
        """
        quick: dict[str, Any] = yaml.safe_load(QUICK.read_text(encoding="utf-8"))
        field = yaml.safe_load(self.field.read_text(encoding="utf-8"))
        args = ["--steps", str(self.steps), "--seed", "{member}"]
        search = {"budget_minutes": budget_minutes} if budget_minutes else quick["search"]
        return {
            **quick,
            "study": name,
            "description": f"For benchmarks/launches.py: {self.script}",
            "workload": {"script": str(self.script), "args": args, "steps_per_model": self.steps},
            "processes": sorted({1, len(os.sched_getaffinity(0))}),
            "launches": field["launches"],
            "search": search,
            "confirm": "off",
            "why": "off",
        }


WORKLOADS = {
    "TSMixerx": Workload(
        Path("scripts/workloads/tsmixerx.py"), 500, QUICK, {ONE_THREAD: 1.15, RUN_CPU: 1.3}
    ),
    "plain loop": Workload(Path("benchmarks/launches_loop.py"), 3000, TEMPLATE, {ONE_THREAD: 1.5}),
}
