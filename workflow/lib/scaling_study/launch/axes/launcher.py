"""How members are started: each of the launchers is a value."""

from scaling_study.launch.axes.axis import Axis, Effects
from scaling_study.launch.launchers.launcher_table import LAUNCHERS

AXIS: Axis[str] = Axis(
    "how members are started",
    {name: launcher.meaning for name, launcher in LAUNCHERS.items()},
    # Before the axes whose variables a launcher may set: what these set replaces it.
    order=20,
    prepare=lambda value, _where: Effects(LAUNCHERS[value].environment()),
    effective=lambda _, got: str(got.launcher),
    holds=lambda value, got, _: bool(got.launcher == value),
)
