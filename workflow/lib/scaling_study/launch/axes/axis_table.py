"""All axes by name, and a whole launch: its values, its effects, and their check."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from scaling_study.common import entries
from scaling_study.common.axis_values import Axes, Value
from scaling_study.common.problems import found, nearest_word, wrong
from scaling_study.common.topology import Topology, format_cpu_list
from scaling_study.launch.axes import (
    binding,
    launcher,
    libraries,
    loaders,
    placement,
    ranks,
    shell,
    threads,
    training,
)
from scaling_study.launch.axes.axis import Axis, Effects, PlacedSlot, Slots, Where
from scaling_study.records import window
from scaling_study.records.readback import Check, Readback

OWN: dict[str, Axis[Any]] = {  # type: ignore[explicit-any]  # each has its own values
    "shell": shell.AXIS,
    **launcher.AXES,
    **threads.AXES,
    **libraries.AXES,
    "placement": placement.AXIS,
    **binding.AXES,
    **training.AXES,
    **loaders.AXES,
    "ranks": ranks.AXIS,
}
"""The order is that of labels and names of launches: a change would rename all launches. Effects of
a later axis replace those of an earlier one, above all of the shell and the launcher."""

AXES = entries.found("launch.axes", "AXIS", Axis, OWN)
DEFAULTS: Mapping[str, Value] = {name: axis.default for name, axis in AXES.items()}
LIBRARIES = {name: entry for axis in AXES.values() for name, entry in axis.libraries.items()}


def read_value(name: str, value: object, *, files: bool) -> Value:
    """Read the value of an axis from a config.

    Args:
        name: A known axis.
        value: Whatever the config holds.
        files: Whether a path must exist.

    Raises:
        ConfigError: The value is not allowed.
    """
    axis = AXES[name]
    if isinstance(value, str) and value in axis.words:
        return value
    if value is False and "off" in axis.words:  # YAML 1.1 reads off as false
        return "off"
    read = axis.others.read(value, files) if axis.others else None
    if read is not None:
        return read
    what = "is not a known word" if isinstance(value, str) else found(value)
    raise wrong(value, what, axis.allowed, nearest_word(value, axis.words))


def whole(axes: Axes) -> dict[str, Value]:
    """Return a launch with every axis: old records lack axes that were added later."""
    return {**DEFAULTS, **axes}


def prepare(axes: Axes, where: Where) -> Effects:
    """Return the effects of a launch on its members before they start.

    Args:
        axes: the launch's values; an axis that is not named has its default.
        where: the machine.

    Raises:
        UnavailableError: this machine cannot do a value, or two values exclude each other.
    """
    asked = whole(axes)
    set_axes = {name: axis for name, axis in AXES.items() if asked[name] != axis.default}
    for axis in set_axes.values():
        if axis.refuse:
            axis.refuse(asked)
    effects = Effects()
    for name, axis in set_axes.items():
        if axis.prepare:
            effects |= axis.prepare(asked[name], replace(where, axes=asked))
    return effects


def place(axes: Axes, topology: Topology, count: int) -> Slots:
    """Return the slots of a launch.

    Args:
        axes: the launch's values.
        topology: the CPUs and nodes that may be used.
        count: how many slots.

    Raises:
        UnavailableError: the machine has no such CPUs or nodes.
    """
    asked = whole(axes)
    slots = tuple(PlacedSlot(number) for number in range(count))
    for axis in AXES.values():
        if axis.place:
            slots = axis.place(asked, topology, slots)
    return slots


def recorded(slot: PlacedSlot) -> window.Slot:
    """Return a slot as it is recorded, with its CPUs as a list in one text."""
    cpus, loader_cpus = (
        None if own is None else format_cpu_list(own) for own in (slot.cpus, slot.loader_cpus)
    )
    return window.Slot(**asdict(slot) | {"cpus": cpus, "loader_cpus": loader_cpus})


def switches(axes: Axes) -> tuple[str, ...]:
    """Return the switches of a launch: values that each member applies or observes in itself."""
    return tuple(
        f"{inside.__module__}:{name}={json.dumps(axes[name])}"
        for name, axis in AXES.items()
        if (inside := axis.apply or axis.observe) and axes.get(name, axis.default) != axis.default
    )


def checks(axes: Axes, slots: Sequence[window.Slot], readbacks: Sequence[Readback]) -> list[Check]:
    """Compare what was asked for with what the members got.

    Args:
        axes: the launch's values.
        slots: at least one for each member.
        readbacks: one for each member.

    Returns:
        A row for each axis, except for switches at their default, which no member reads back. A row
        shows the first member in which the value does not hold; if it holds in all, the first one.
    """
    asked = {slot.slot: slot for slot in slots}
    whole_axes = whole(axes)
    members = [(got, asked[got.slot]) for got in readbacks]
    exported = shell.variables(whole_axes["shell"])
    rows = []
    for name, axis in AXES.items():
        value = whole_axes[name]
        if axis.effective is None and value == axis.default:
            continue
        # The shell's variables replace an axis's default.
        left = value == axis.default and not exported.keys().isdisjoint(axis.variables)
        wrong = [one for one in members if not left and not _holds(name, value, *one)]
        got, slot = (wrong or members)[0]
        requested = shell.SAYS if left else axis.requested(value, slot)
        observed = str(got.switches.get(name, "nothing was observed"))
        effective = axis.effective(value, got) if axis.effective else observed
        rows.append(Check(name, requested, effective, ok=not wrong))
    return rows


def failed(rows: Sequence[Check]) -> str:
    """Return a message on the values that did not take effect; empty if all did."""
    return "; ".join(
        f"{row.axis} {row.requested} did not take effect: {row.effective}"
        for row in rows
        if not row.ok
    )


def _holds(name: str, value: Value, got: Readback, slot: window.Slot) -> bool:
    axis = AXES[name]
    if axis.holds is not None:
        return axis.holds(value, got, slot)
    return value == axis.default or got.switches.get(name) == value
