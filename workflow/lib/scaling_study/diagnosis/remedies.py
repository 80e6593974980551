"""Remedies of causes: words, a piece of a config, a command, or a line of the script."""

import shlex
from collections.abc import Iterable, Mapping

import yaml

from scaling_study.common.axis_values import Axes
from scaling_study.common.unavailable import UnavailableError
from scaling_study.diagnosis.case import REFERENCE, Case
from scaling_study.diagnosis.cause import Cause
from scaling_study.launch.axes import axis_table, shell
from scaling_study.launch.axes.axis import Where
from scaling_study.launch.axes.axis_table import AXES
from scaling_study.records.verdict import Remedy
from scaling_study.stats.ratios import mean

UNMEASURED = "This itself was not measured here."
"""Added to a remedy that no measured launch tests: only the cause has been shown."""

CLEARLY_FASTER = 0.98
"""Step times whose ratio is above this count as equal, as throughputs do in the recommendation."""


def remedy(case: Case, cause: Cause, intervention: str | None) -> Remedy:
    """Return what to do about a cause.

    Args:
        case: The case whose launch is changed.
        cause: The cause.
        intervention: The intervention that showed the cause, if any: its change helps here.
    """
    axes = {one.intervention: one.axes for one in case.head.interventions if one.axes}
    best = _fastest(case, intervention, cause.remedies, axes)
    shown = axes.get(best or "")
    changed = shown or (dict(cause.axes) if cause.axes else None)
    text = cause.remedies.get(best or "") or (
        cause.remedy if shown else f"{cause.remedy} {UNMEASURED}"
    )
    command = cause.command or _command(case, changed)
    if unset := _exported(case, changed or {}):
        text = f"{text} Today's launch has {shell.tell(unset)}: unset it."
        command = f"unset {' '.join(shell.variables(unset))}"
    return Remedy(
        text=text,
        axes=changed,
        config=yaml.safe_dump({"launches": {"include": [changed]}}, sort_keys=False)
        if changed
        else None,
        command=command,
        code=cause.code,
    )


def _exported(case: Case, changed: Mapping[str, object]) -> tuple[str, ...]:
    """Return the shell's settings of variables that belong to changed axes."""
    exported = shell.variables(case.head.axes.get("shell", shell.NONE))
    # Both axes decide where threads run: each undoes what the other one's variables do.
    axes = {*changed, *({"openmp_affinity"} if "placement" in changed else ())}
    owned = {name for axis in axes for name in AXES[axis].variables}
    owned |= exported.keys() if "shell" in changed else set()
    return tuple(f"{name}={text}" for name, text in exported.items() if name in owned)


def _fastest(
    case: Case, shown: str | None, others: Iterable[str], axes: Mapping[str, object]
) -> str | None:
    """Return the intervention that showed the cause, or another that was clearly faster at n.

    An intervention that no launch can make (batches from memory, say) shows a cause but is no
    remedy: the others are then compared with the reference itself.
    """
    fastest = shown if shown and shown in axes else REFERENCE
    for other in others if shown else ():
        if case.measured(other, "scaling_loss"):
            steps = case.step(case.n, other) / case.step(case.n, fastest)
            if mean(steps) < CLEARLY_FASTER:
                shown = fastest = other
    return shown


def _command(case: Case, changed: Axes | None) -> str | None:
    """Return the command that makes a change by variables; None if none makes it."""
    if not changed:
        return None
    asked = {**case.head.axes, **changed}
    try:
        where = Where(case.machine)
        before = axis_table.prepare(case.head.axes, where).environment()
        after = axis_table.prepare(asked, where).environment()
    except UnavailableError:
        return None
    return None if before == after else start_command(after)


def start_command(environment: Mapping[str, str]) -> str:
    """Return the shell command that sets these variables for what is started after it."""
    words = (f"{name}={shlex.quote(value)}" for name, value in environment.items())
    return " ".join(["export", *words])
