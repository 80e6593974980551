"""All launchers by name; the first one is the default."""

from collections.abc import Mapping

from scaling_study.common import entries
from scaling_study.launch.launchers.launcher import Launcher

DEFAULT = "exec"


def _all() -> dict[str, Launcher]:
    found = entries.found("launch.launchers", "LAUNCHER", Launcher)
    return {DEFAULT: found[DEFAULT], **found}


LAUNCHERS: Mapping[str, Launcher] = _all()
