"""Today's launch: the default one with what a user's shell sets, or what the config says of it."""

from collections.abc import Mapping
from typing import Literal

from scaling_study.common.problems import found, nearest_word, read_each, wrong
from scaling_study.config.config_parameters import read_text
from scaling_study.launch.axes.axis import Value
from scaling_study.launch.axes.axis_table import AXES
from scaling_study.launch.axes.shell import CPUS, NONE, POLICY, PREFIXES
from scaling_study.launch.axes.values import read_id_list

Found = tuple[str, ...]
"""A value of the axis ``shell`` that is not ``none``; empty where nothing was found."""

# What tells a process of a group of ranks which one it is slows nothing, and would hang members.
NOT_OURS = frozenset(AXES["ranks"].variables)
# Set by conda's scripts and by libraries at their import; none of them changes how fast torch is.
HARMLESS = {"KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "KMP_WARNINGS", "MKL_INTERFACE_LAYER"}
OWNED = {name for axis in AXES.values() for name in axis.variables} - NOT_OURS

TODAY = "auto, off, or a section with env ({NAME: value}), cpus and mempolicy"
KEYS = ("env", CPUS, POLICY)
MODES = ("bind", "interleave")
POLICIES = "bind:NODES or interleave:NODES, such as interleave:0-1"
NAMES = (
    f"variables of axes, and those that begin with {', '.join(PREFIXES)}; "
    "workload.env takes others, for all launches"
)


def is_ours(name: str) -> bool:
    """Whether a variable changes how fast a script trains, and can hold no key."""
    known = name in OWNED or name.startswith(PREFIXES)
    return known and name not in HARMLESS | NOT_OURS


def look(environment: Mapping[str, str], policy: str = "default") -> Found:
    """Return what of a shell makes a launch of its own.

    Args:
        environment: its variables.
        policy: its memory policy, as numa_maps writes it (proc(5)).
    """
    kept = sorted(
        f"{name}={text}"
        for name, text in environment.items()
        if is_ours(name) and text and text.isprintable()
    )
    kept += [f"{POLICY}={policy}"] if policy.partition(":")[0] in MODES else []
    return tuple(kept)


def value_of(
    said: Literal["auto", "off"] | Found, shell: Found, workload: Mapping[str, str]
) -> Value:
    """Return the value of the axis ``shell`` in today's launch.

    Args:
        said: ``launches.today``.
        shell: what was found in the user's shell.
        workload: ``workload.env``, whose variables are the same in all launches.
    """
    texts = {"auto": shell, "off": ()}[said] if isinstance(said, str) else said
    return tuple(one for one in texts if one.partition("=")[0] not in workload) or NONE


def read_today(value: object) -> Literal["auto", "off"] | Found:
    """Read ``launches.today``."""
    if value == "auto":
        return "auto"
    if value is False or value == "off":  # YAML 1.1 reads off as false
        return "off"
    if isinstance(value, list | tuple):  # of a config that was read before
        return tuple(value)
    if not isinstance(value, Mapping):
        what = "is not a known word" if isinstance(value, str) else found(value)
        raise wrong(value, what, TODAY, nearest_word(value, ["auto", "off"]))
    texts = dict(read_each(value.items(), _read_part))
    return tuple(one for key in KEYS for one in texts.get(key, ()))


def _read_part(key: object, item: object) -> tuple[object, Found]:
    if key not in KEYS:
        raise wrong(item, "unknown key", ", ".join(KEYS), nearest_word(key, KEYS))
    if key == "env":
        if not isinstance(item, Mapping):
            raise wrong(item, found(item), "a section of variable names with a text or number each")
        return key, tuple(sorted(read_each(item.items(), _read_variable)))
    if key == CPUS:
        return key, (f"{CPUS}={read_id_list(item, 'a list of CPUs in one text, such as 0-3')}",)
    mode, _, nodes = str(item).partition(":")
    if mode not in MODES:
        raise wrong(item, "is not a memory policy", POLICIES, nearest_word(mode, MODES))
    return key, (f"{POLICY}={mode}:{read_id_list(nodes, POLICIES)}",)


def _read_variable(name: object, item: object) -> str:
    if not isinstance(name, str) or not is_ours(name):
        nearest = nearest_word(name, [one.casefold() for one in sorted(OWNED)])
        raise wrong(item, "is no variable of a launch", NAMES, nearest and nearest.upper())
    return f"{name}={read_text(item)}"
