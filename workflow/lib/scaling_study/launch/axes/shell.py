"""Settings of the shell that starts a study, or those that ``launches.today`` describes.

A value is ``none``, or texts such as ``OMP_PROC_BIND=close``, ``cpus=0-3`` and
``mempolicy=interleave:0-1``.
"""

from dataclasses import replace

from scaling_study.common.axis_values import Axes, Value
from scaling_study.common.printable import printable
from scaling_study.common.topology import Topology
from scaling_study.launch.axes import placement
from scaling_study.launch.axes.axis import Axis, Effects, Others, PlacedSlot, Slots, Where, path_of
from scaling_study.launch.axes.binding import LIBRARIES, memory_policy
from scaling_study.records import window
from scaling_study.records.readback import Readback

NONE = "none"
CPUS, POLICY = "cpus", "mempolicy"
"""Names of the two entries that are no environment variables."""
SAYS = "what the shell says"
"""Shown in place of the default of an axis whose variables the shell sets."""

# Prefixes of variables that change how fast a script trains: the libraries below torch, malloc and
# Python read them. None of them holds a secret. Members report all of them.
PREFIXES = (
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "ATEN_", "ONEDNN_", "DNNL_"),
    *("MALLOC_", "TCMALLOC_", "MIMALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD", "PYTHONMALLOC"),
    *("PYTHONDEVMODE", "TORCH_LOGS", "TORCH_DISTRIBUTED_DEBUG", "TORCH_COMPILE_DISABLE"),
)

SHOWN_CHARACTERS = 60
"""Most characters of one variable: a preload may have many paths."""


def split(value: Value) -> dict[str, str]:
    """Return the settings of a value, by name."""
    texts = [] if isinstance(value, str | int | float) else [*value]  # a job has lists for tuples
    return {name: text for name, _, text in (one.partition("=") for one in texts)}


def variables(value: Value) -> dict[str, str]:
    """Return the environment variables among a value's settings."""
    return {name: text for name, text in split(value).items() if name not in {CPUS, POLICY}}


def tell(value: Value) -> str:
    """Return a value as readable text."""
    texts = (printable(f"{name}={text}") for name, text in split(value).items())
    cut = (f"{one[:SHOWN_CHARACTERS]}…" if len(one) > SHOWN_CHARACTERS else one for one in texts)
    return ", ".join(cut) or NONE


def _prepare(value: Value, where: Where) -> Effects:
    if POLICY in split(value):
        path_of("numa", where.machine, LIBRARIES["numa"])
    # A preload is a variable like others here, so an axis that preloads something replaces it.
    return Effects(variables(value))


def _place(axes: Axes, topology: Topology, slots: Slots) -> Slots:
    """Give all slots the same CPUs and policy; placement and membind may replace them."""
    asked = split(axes["shell"])
    if CPUS in asked:
        slots = placement.slots([asked[CPUS]], topology, len(slots), 1)
    if POLICY in asked:
        mode, _, nodes = asked[POLICY].partition(":")
        policy = memory_policy(nodes, PlacedSlot(0), topology).replace("bind", mode)
        slots = tuple(replace(slot, policy=policy) for slot in slots)
    return slots


def _holds(value: Value, got: Readback, _slot: window.Slot) -> bool:
    """Return whether each variable is set; the script or another axis may have changed it."""
    return all(name in got.env for name in variables(value) if name.startswith(PREFIXES))


AXIS = Axis(
    "what your shell, or launches.today, sets for a process",
    {NONE: "nothing"},
    Others("what launches.today describes", lambda _value, _files: None),
    prepare=_prepare,
    place=_place,
    requested=lambda value, _slot: tell(value),
    effective=lambda value, got: tell(
        tuple(f"{name}={got.env[name]}" for name in variables(value) if name in got.env)
    ),
    holds=_holds,
)
