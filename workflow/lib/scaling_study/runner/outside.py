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
from scaling_study.launch.launchers.launcher import LaunchSpec, MemberSpec
from scaling_study.member.numa_maps import memory_policy
from scaling_study.records.readback import Check

PRELOAD = "LD_PRELOAD"
INSIDE = "set by the file of switches, inside the process"


class SlotState:
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
        busiest = max(tree, key=lambda process: tree[process].cpu_s)
        threads = kernel_counters.threads_of([tree])
        maps = kernel_counters.read_text(f"/proc/{busiest}/maps").splitlines()
        texts = kernel_counters.read_text(f"/proc/{busiest}/environ").split("\0")
        self.cpus = kernel_counters.allowed_cpus(threads.values())
        self.policy, _ = memory_policy(busiest)
        self.env = dict(text.split("=", 1) for text in texts if "=" in text)
        self.mapped = {line.split(maxsplit=5)[-1] for line in maps}
        self.threads = len(threads)


def read(pids: Mapping[int, int]) -> dict[int, SlotState]:
    """Return what the kernel tells of each slot's processes; a slot whose run has ended has none.

    Args:
        pids: the process of each slot.
    """
    states = {}
    for slot, pid in pids.items():
        with suppress(OSError):
            states[slot] = SlotState(pid)
    return states


def checks(
    axes: Axes, launch: LaunchSpec, members: Sequence[MemberSpec], states: Mapping[int, SlotState]
) -> list[Check]:
    """Compare what a launch asks for with what its programs got.

    Args:
        axes: the launch's values.
        launch: the launch, with the environment that it asks for.
        members: the program in each slot.
        states: what the kernel tells, by slot.

    Returns:
        A row for CPUs and memory policy, and one for each axis that has another value than its
        default. A row shows the first slot in which a value does not hold, or else the first.
    """
    if not states:
        return []
    both = [(members[slot], state) for slot, state in states.items()]
    rows = [
        _row("placement", [_placed(*pair) for pair in both]),
        _row("membind", [_pair(member.mempolicy, state.policy) for member, state in both]),
    ]
    for name, value in axis_table.whole(axes).items():
        axis = axis_table.AXES.get(name)
        if axis is None or value == axis.default:
            continue
        variables = shell.variables(value) if name == "shell" else axis.variables
        wanted = {key: launch.env[key] for key in variables if key in launch.env}
        if wanted:
            texts = [_pair(_text(wanted), _text(_got(wanted, state))) for _, state in both]
            rows.append(_row(name, texts))
        elif axis.apply is not None:
            rows.append(Check(name, str(value), INSIDE, ok=True))
    return rows


def _row(axis: str, pairs: Sequence[tuple[str, str, bool]]) -> Check:
    """Return the row of an axis, from what each slot's programs should have, have, and if so."""
    wrong = [pair for pair in pairs if not pair[2]]
    wanted, got, _ = (wrong or pairs)[0]
    return Check(axis, wanted, got, ok=not wrong)


def _pair(wanted: str, got: str) -> tuple[str, str, bool]:
    return wanted, got, got == wanted


def _placed(member: MemberSpec, state: SlotState) -> tuple[str, str, bool]:
    """Return a program's CPUs as asked and as seen, which may be some of those."""
    got = f"{format_cpu_list(sorted(state.cpus))}, by {state.threads} threads"
    holds = member.cpus is None or state.cpus <= set(parse_cpu_list(member.cpus))
    return member.cpus or "not bound", got, holds


def _got(wanted: Mapping[str, str], state: SlotState) -> dict[str, str | None]:
    """Return the variables of the busiest process; a preload counts if it is mapped."""
    got = {name: state.env.get(name) for name in wanted}
    files = (wanted.get(PRELOAD) or "").split(":")
    if any(file and os.path.realpath(file) not in state.mapped for file in files):
        got[PRELOAD] = "not loaded"
    return got


def _text(values: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
