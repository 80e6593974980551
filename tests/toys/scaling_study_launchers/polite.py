"""A fresh interpreter for each member, with a lower priority than other programs have."""

import os

from scaling_study.launch.launchers.launcher import Exec, Launcher


class Polite(Exec):
    """Starts members as ``exec`` does, then lowers their priority."""

    def start(self, member):
        """Start a member and return its process id."""
        pid = super().start(member)
        os.setpriority(os.PRIO_PROCESS, pid, 1)
        return pid


LAUNCHER = Launcher(
    "a fresh interpreter of lower priority",
    Polite,
    environment=lambda: {"MALLOC_TRIM_THRESHOLD_": "1000000"},
    note=(
        "The measured members had a lower priority. This script starts them with the usual one.",
    ),
)
