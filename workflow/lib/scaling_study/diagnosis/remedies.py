"""What to do about a cause: in words, as a piece of a config, as a command, in the script."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from scaling_study.common.unavailable import UnavailableError
from scaling_study.diagnosis.case import REFERENCE, Case
from scaling_study.diagnosis.causes.cause import Remedy
from scaling_study.launch.axes import axis_table, shell
from scaling_study.launch.axes.axis import Where
from scaling_study.launch.axes.axis_table import AXES
from scaling_study.stats.ratios import mean

TUNING = (
    *("OMP_DYNAMIC", "OMP_THREAD_LIMIT", "KMP_HW_SUBSET", "MKL_CBWR", "MKL_DEBUG_CPU_TYPE"),
    *("MALLOC_ARENA_MAX", "PYTHONMALLOC"),
)
"""Variables that no axis sets and no member inherits, and that change how fast it trains."""

COLUMNS = 80
"""Of a command, which a person reads before pasting it."""

UNMEASURED = "This itself was not measured here."
"""Said of a remedy that is no launch: an experiment has shown the cause, not what removes it."""

CLEARLY_FASTER = 0.98
"""Step times whose ratio is above this count as equal, as throughputs do in the recommendation."""


def remedy(case: Case, what: Remedy, relief: str | None) -> dict[str, Any]:
    """A remedy as causes.json holds it.

    Args:
        case: Whose launch is changed.
        what: The cause's remedy.
        relief: The relief that showed the cause: its change is known to help here.
    """
    relief = _fastest(case, relief, what.others)
    shown = _shown(case, relief)
    changed = shown or (dict(what.axes) if what.axes else None)
    text = what.others.get(relief or "") or (what.text if shown else f"{what.text} {UNMEASURED}")
    unset = _exported(case, changed or {})
    return {
        "text": f"{text} Today's launch has {shell.tell(unset)}: unset it." if unset else text,
        "axes": changed,
        "config": None if changed is None else _config(changed),
        "command": f"unset {' '.join(shell.variables(unset))}"
        if unset
        else what.command or _command(case, changed),
        "code": what.code,
    }


def _exported(case: Case, changed: Mapping[str, Any]) -> tuple[str, ...]:
    """What the shell sets of the variables that belong to axes which are changed."""
    exported = shell.variables(case.head["axes"].get("shell", shell.NONE))
    # Where threads run is decided by both axes: each undoes what the other one's variables do.
    axes = {*changed, *({"openmp_affinity"} if "placement" in changed else ())}
    owned = {name for axis in axes for name in AXES[axis].variables}
    owned |= exported.keys() if "shell" in changed else set()
    return tuple(f"{name}={text}" for name, text in exported.items() if name in owned)


def _fastest(case: Case, relief: str | None, others: Iterable[str]) -> str | None:
    """The relief with which n processes were clearly fastest, of those that take a cause away.

    What no launch can do (batches from memory, say) shows a cause, and is no remedy: there the
    others are compared with the reference itself.
    """
    if relief is None:
        return None
    best, fastest = relief, relief if _shown(case, relief) else REFERENCE
    for other in others:
        if case.measured(other, "growth"):
            steps = case.step(case.n, other) / case.step(case.n, fastest)
            if mean(steps) < CLEARLY_FASTER:
                best = fastest = other
    return best


def _shown(case: Case, relief: str | None) -> dict[str, Any] | None:
    """Axes that a relief changes; None where it changes none."""
    for one in case.head["reliefs"]:
        if one["relief"] == relief and one["axes"]:
            return dict(one["axes"])
    return None


def _config(changed: Mapping[str, Any]) -> str:
    """A piece of a study's config that measures the launch with this change."""
    content = {"launches": {"include": [dict(changed)]}}
    return str(yaml.safe_dump(content, sort_keys=False))


def _command(case: Case, changed: Mapping[str, Any] | None) -> str | None:
    """How to start the training script with a change; None where no variable makes it."""
    if not changed:
        return None
    asked = {**case.head["axes"], **changed}
    try:
        where = Where(case.machine.raw)
        before = axis_table.prepare(case.head["axes"], where).environment()
        after = axis_table.prepare(asked, where).environment()
    except (UnavailableError, KeyError):
        return None
    return None if before == after else start_command(after)


def start_command(environment: Mapping[str, str]) -> str:
    """A command that starts a script as a measured member, whatever the caller's shell exports.

    Args:
        environment: What the launch sets. A member inherits no other variable that tunes, so the
            command unsets them: an exported OPENBLAS_CORETYPE, say, would change OpenBLAS's kernel.
    """
    owned = {name for axis in AXES.values() for name in axis.variables}
    lines = ["env"]
    for name in sorted({*owned, *TUNING} - environment.keys()):
        if len(lines[-1]) + len(f" -u {name}") > COLUMNS:
            lines.append(" ")
        lines[-1] += f" -u {name}"
    words = [shlex.quote(f"{name}={value}") for name, value in environment.items()]
    lines.append(" ".join([" ", *words, "python train.py"]))
    return " \\\n".join(lines)
