"""A real CPU quota for tests, where this user may make one (cgroup version 1)."""

import contextlib
import os

import pytest

from processes import wait_until
from scaling_study.host import limits

PERIOD_US = 100_000


@contextlib.contextmanager
def divided_group(controller="cpu"):
    """A cgroup below this process's own, with a group ``inner``; removed at the end."""
    found = limits.read_hierarchy(controller)
    if found is None or found.version != 1 or not os.access(found.folders[0], os.W_OK):
        pytest.skip("no cgroup of version 1 that this user may divide")
    folder = found.folders[0] / f"scaling-study-test-{os.getpid()}"
    (folder / "inner").mkdir(parents=True)
    try:
        yield folder
    finally:
        for each in (folder / "inner", folder):
            wait_until(lambda each=each: _removed(each), f"the end of {each}")


def inside(group, command):
    """A command that runs in a cgroup."""
    return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs"), *command]


def set_quota(group, cpus):
    """Let a cgroup use so many CPUs; None for all."""
    quota_us = -1 if cpus is None else round(cpus * PERIOD_US)
    (group / "cpu.cfs_quota_us").write_text(str(quota_us))


def _removed(group):
    with contextlib.suppress(OSError):  # a killed process leaves its group a moment later
        group.rmdir()
    return not group.exists()
