"""All launchers by name; the first one is the default."""

from collections.abc import Mapping

from scaling_study.common import entries
from scaling_study.launch.launchers.launcher import Launcher

DEFAULT = "exec"


_launchers = entries.found("launch.launchers", "LAUNCHER", Launcher)
LAUNCHERS: Mapping[str, Launcher] = {DEFAULT: _launchers[DEFAULT], **_launchers}
