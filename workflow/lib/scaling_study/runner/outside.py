"""The settings of programs that do not report them, read from outside: /proc of their processes.

A program may be any, and start others. Of each slot, the environment and the memory policy are
those of the process that has used the most CPU time; CPUs are those of all its threads.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from scaling_study.common.axis_values import Axes
from scaling_study.common.topology import format_cpu_list, parse_cpu_list
from scaling_study.host import kernel_counters
from scaling_study.launch.axes import axis_table, shell
from scaling_study.launch.launchers.launcher import Launch, Member
from scaling_study.member.numa_maps import memory_policy
from scaling_study.records.readback import Check

PRELOAD = "LD_PRELOAD"
INSIDE = "set by the file of switches, inside the process"


class Seen:
    """What the kernel tells of a slot's processes.

    Args:
        pid: the first of them.

    Attributes:
        cpus: CPUs that some thread of them may run on.
        policy: the memory policy of the busiest one, as numa_maps writes it.
        env: its environment when it began.
        mapped: the files that it has mapped.
        threads: threads of all of them.
    """

    def __init__(self, pid: int) -> None:
        tree = kernel_counters.read_tree(pid)
        busiest = max(tree, key=lambda one: tree[one].cpu_s)
        threads = kernel_counters.threads_of([tree])
        maps = kernel_counters.read_text(f"/proc/{busiest}/maps").splitlines()
        texts = kernel_counters.read_text(f"/proc/{busiest}/environ").split("\0")
        self.cpus = kernel_counters.allowed_cpus(threads.values())
        self.policy, _ = memory_policy(busiest)
        self.env = dict(text.split("=", 1) for text in texts if "=" in text)
        self.mapped = {line.split(maxsplit=5)[-1] for line in maps}
        self.threads = len(threads)


def read(pids: Mapping[int, int]) -> dict[int, Seen]:
    """Return what the kernel tells of each slot's processes; a slot whose run has ended has none.

    Args:
        pids: the process of each slot.
    """
    found = {}
    for slot, pid in pids.items():
        with suppress(OSError):
            found[slot] = Seen(pid)
    return found


def checks(
    axes: Axes, launch: Launch, members: Sequence[Member], seen: Mapping[int, Seen]
) -> list[Check]:
    """Compare what a launch asks for with what its programs got.

    Args:
        axes: the launch's values.
        launch: the launch, with the environment that it asks for.
        members: the program in each slot.
        seen: what the kernel tells, by slot.

    Returns:
        A row for CPUs and memory policy, and one for each axis that has another value than its
        default. A row shows the first slot in which a value does not hold, or else the first.
    """
    if not seen:
        return []
    both = [(members[slot], one) for slot, one in seen.items()]
    rows = [
        _row("placement", [_placed(*pair) for pair in both]),
        _row("membind", [_pair(member.mempolicy, one.policy) for member, one in both]),
    ]
    for name, value in axis_table.whole(axes).items():
        axis = axis_table.AXES.get(name)
        if axis is None or value == axis.default:
            continue
        own = shell.variables(value) if name == "shell" else axis.variables
        asked = {one: launch.env[one] for one in own if one in launch.env}
        if asked:
            texts = [_pair(_text(asked), _text(_got(asked, one))) for _, one in both]
            rows.append(_row(name, texts))
        elif axis.apply is not None:
            rows.append(Check(name, str(value), INSIDE, ok=True))
    return rows


def _row(axis: str, found: Sequence[tuple[str, str, bool]]) -> Check:
    """Return the row of an axis, from what each slot's programs should have, have, and if so."""
    wrong = [one for one in found if not one[2]]
    asked, got, _ = (wrong or found)[0]
    return Check(axis, asked, got, ok=not wrong)


def _pair(asked: str, got: str) -> tuple[str, str, bool]:
    return asked, got, got == asked


def _placed(member: Member, one: Seen) -> tuple[str, str, bool]:
    """Return a program's CPUs as asked and as seen, which may be some of those."""
    seen = f"{format_cpu_list(sorted(one.cpus))}, by {one.threads} threads"
    holds = member.cpus is None or one.cpus <= set(parse_cpu_list(member.cpus))
    return member.cpus or "not bound", seen, holds


def _got(asked: Mapping[str, str], one: Seen) -> dict[str, str | None]:
    """Return the variables of the busiest process; a preload counts if it is mapped."""
    got = {name: one.env.get(name) for name in asked}
    files = (asked.get(PRELOAD) or "").split(":")
    if any(file and os.path.realpath(file) not in one.mapped for file in files):
        got[PRELOAD] = "not loaded"
    return got


def _text(values: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
