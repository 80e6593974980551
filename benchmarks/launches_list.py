"""The workloads of benchmarks/launches.py: their scripts, their studies, their figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from launches_ways import (
    ACCELERATE,
    DEFAULT,
    EPOCHS,
    FORKED,
    FRESH,
    ONE_THREAD,
    RECOMMENDED,
    RUN_CPU,
)
from truth_list import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

QUICK, TEMPLATE = ROOT / "config/quick.yaml", ROOT / "config/own-script.yaml"
NCF = ROOT / "config/ncf-one-model.yaml"
EPOCH_STEPS = 328
"""Of NCF, the only script with epochs: 83,731 ratings in batches of 256."""
RIVALS = (DEFAULT, ONE_THREAD, RUN_CPU, ACCELERATE)
"""Than which `recommended` should nowhere be slower."""


class Workload(NamedTuple):
    """A script of the project, and what its study's launch should reach beside other ways.

    Attributes:
        script: Its path.
        length: Its option for the length of a model, with the value.
        field: A config, whose launches are raced.
        targets: What the queue of forked models should reach over these ways; none beside RIVALS.
        parameters: Which of the field's parameters are raced, with their options. The script's own
            defaults hold for the others.
    """

    script: Path
    length: tuple[str, int]
    field: Path
    targets: Mapping[str, float] = {}
    parameters: Mapping[str, str] = {}

    @property
    def steps(self) -> int:
        """How many steps a model has."""
        option, value = self.length
        return value * (EPOCH_STEPS if option == EPOCHS else 1)

    @property
    def ways(self) -> tuple[str, ...]:
        """Which ways are compared."""
        return (*self.targets, FORKED) if self.targets else (*RIVALS, RECOMMENDED)

    def config(self, name: str, n: int, budget_minutes: float | None) -> dict[str, Any]:
        """Return a study that only races: config/quick.yaml with this script and these launches.

        Args:
            name: The study's.
            n: Processes.
            budget_minutes: Of the race; None for that of config/quick.yaml.
        """
        quick: dict[str, Any] = yaml.safe_load(QUICK.read_text(encoding="utf-8"))
        field = yaml.safe_load(self.field.read_text(encoding="utf-8"))
        args = [*map(str, self.length), "--seed", "{member}"]
        for parameter, option in self.parameters.items():
            args += [option, f"{{{parameter}}}"]
        declared = field["workload"].get("parameters", {})
        own = {parameter: declared[parameter] for parameter in self.parameters}
        single = {
            axis: values
            for axis, values in field["launches"]["one_change"].items()
            if axis in own or axis not in declared
        }
        others = declared.keys() - own.keys()
        include = [one for one in field["launches"].get("include", ()) if not one.keys() & others]
        search = {"budget_minutes": budget_minutes} if budget_minutes else quick["search"]
        return {
            **quick,
            "study": name,
            "description": f"For benchmarks/launches.py: {self.script}",
            "workload": {
                "script": str(self.script),
                "args": args,
                "parameters": own,
                "steps_per_model": self.steps,
            },
            "processes": [n],
            "launches": {**field["launches"], "one_change": single, "include": include},
            "search": search,
            "confirm": "off",
            "why": "off",
        }


STEPS = "--steps"
TSMIXERX, NCF_SCRIPT = Path("scripts/workloads/tsmixerx.py"), Path("scripts/workloads/ncf.py")
WORKLOADS = {
    "TSMixerx": Workload(TSMIXERX, (STEPS, 500), QUICK, {ONE_THREAD: 2.2, RUN_CPU: 2.4}),
    "NCF of one epoch": Workload(NCF_SCRIPT, (EPOCHS, 1), NCF, {FRESH: 1.0}),
    "plain loop": Workload(
        Path("benchmarks/launches_loop.py"), (STEPS, 1000), TEMPLATE, {FRESH: 1.0}
    ),
    "longer TSMixerx": Workload(TSMIXERX, (STEPS, 2000), TEMPLATE),
    "NCF as written": Workload(NCF_SCRIPT, (EPOCHS, 2), NCF),
    "NCF as recommended": Workload(
        NCF_SCRIPT, (EPOCHS, 20), NCF, parameters={"sampling": "--sampling"}
    ),
}
