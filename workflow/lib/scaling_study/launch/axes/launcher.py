"""How members are started: each of the launchers is a value."""

from collections.abc import Mapping

from scaling_study.common import entries
from scaling_study.common.axis_values import Axes
from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes.axis import Axis, Effects
from scaling_study.launch.launchers.launcher import Launcher

DEFAULT = "exec"
_launchers = entries.found("launch.launchers", "LAUNCHER", Launcher)
LAUNCHERS: Mapping[str, Launcher] = {DEFAULT: _launchers[DEFAULT], **_launchers}
"""All launchers by name; the first one is the default."""


def _refuse(axes: Axes) -> None:
    launcher, membind = axes["launcher"], axes["membind"]
    if membind != "none" and not LAUNCHERS[str(launcher)].binds_memory:
        raise UnavailableError(
            f"a memory policy cannot be set before members that {launcher} starts",
            f"exclude: [{{launcher: {launcher}, membind: {membind}}}]",
        )


AXIS: Axis[str] = Axis(
    "how members are started",
    {name: launcher.meaning for name, launcher in LAUNCHERS.items()},
    refuse=_refuse,
    prepare=lambda value, _where: Effects(LAUNCHERS[value].environment()),
    effective=lambda _, got: str(got.launcher),
    holds=lambda value, got, _: bool(got.launcher == value),
)
