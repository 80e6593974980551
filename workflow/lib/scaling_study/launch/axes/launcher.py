"""How members are started: each of the launchers is a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaling_study.launch.axes.axis import Axis, Effects
from scaling_study.launch.launchers.launcher_table import LAUNCHERS

if TYPE_CHECKING:
    from scaling_study.launch.axes.axis import Where


def _prepare(value: str, _where: Where) -> Effects:
    return Effects(LAUNCHERS[value].environment())


AXIS = Axis(
    "how members are started",
    {name: launcher.meaning for name, launcher in LAUNCHERS.items()},
    # Before the axes whose variables a launcher may set: what these set replaces it.
    order=20,
    prepare=_prepare,
    effective=lambda _, got: str(got.launcher),
    holds=lambda value, got, _: bool(got.launcher == value),
)
