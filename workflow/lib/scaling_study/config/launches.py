"""The `launches` section of a config, and the launches that it describes, with lasting names."""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.config import JsonDict
from typing_extensions import TypeAliasType

from scaling_study.common.axis_values import Axes, Value
from scaling_study.common.printable import printable
from scaling_study.common.problems import (
    ConfigError,
    Problem,
    found,
    nearest_word,
    read_each,
    shorten,
    wrong,
)
from scaling_study.config.section import (
    PARAMETER,
    Count,
    Off,
    Section,
    Text,
    allowed,
    distinct,
    must_exist,
    own_axes,
    read_parameter,
)
from scaling_study.config.workload import Workload
from scaling_study.launch.axes.axis import read_id_list
from scaling_study.launch.axes.axis_table import AXES, DEFAULTS, read_value
from scaling_study.launch.axes.shell import CPUS, NONE, POLICY, PREFIXES

Role = Literal["default", "baseline", "repeat", "today", "one_change", "grid", "combined"]
Found = tuple[str, ...]
"""A value of the axis ``shell`` that is not ``none``; empty if nothing was found."""

# These give a rank its place in the group. They slow nothing down, and would hang members.
NOT_OURS = frozenset(AXES["ranks"].variables)
# Set by conda's scripts and by libraries at their import; none of them changes how fast torch is.
HARMLESS = {"KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "KMP_WARNINGS", "MKL_INTERFACE_LAYER"}
OWNED = {name for axis in AXES.values() for name in axis.variables} - NOT_OURS
MODES = ("bind", "interleave", "prefer")
ALWAYS = {"default", "baseline", "today"}
"""Roles that no exclusion drops."""
MOST_LAUNCHES = 10_000  # a study of more would run for weeks; a product that large is a slip
ONE = "a section of axes with one value each"
LISTS = "a section of axes with a list of values each"
CPU_LIST = "a list of CPUs in one text, such as 0-3"
POLICIES = "bind:NODES, interleave:NODES or prefer:NODES, such as interleave:0-1"

# Names become folders. 80 characters leave room for a file system's 255 bytes; the readable part
# gets what the longest hash and "-repeat" leave of them.
READABLE_CHARACTERS = 60
# The end of a path says more than its beginning.
VALUE_CHARACTERS = 30
# Names of words and numbers alone are unique without their hash; a short one is for readers.
SHORT_HASH = 6
# Paths and cut names may look alike: of 10,000 such launches two share 48 bits once in 5 million.
LONG_HASH = 12
REPEAT_SUFFIX = "-repeat"
# Common names of environments; only the folder above tells one project from another.
USUAL_FOLDERS = {".venv", "venv", ".env", "env"}


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of the plan; `axes` holds every axis, in the table's order."""

    id: str
    label: str
    role: Role
    axes: Axes


NO_LAUNCH = Launch("", "none", "grid", {"launcher": "exec"})
"""The launch of a job if none is recommended."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """All launches that a config describes.

    Attributes:
        kept: Each launch once, under the first role that describes it; default, baseline and
            today's (if they differ) come first.
        dropped: Excluded launches, each with the first `exclude` that matches, as a reason.
        repeated: Indices of `include` whose launch is there already.
    """

    kept: list[Launch]
    dropped: list[tuple[Launch, str]]
    repeated: list[int]


def is_ours(name: str) -> bool:
    """Return whether a variable changes how fast a script trains, and can hold no secret."""
    known = name in OWNED or name.startswith(PREFIXES)
    return known and name not in HARMLESS | NOT_OURS


def look(environment: Mapping[str, str], policy: str = "default") -> Found:
    """Return the settings of a shell that make a launch of their own.

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


def named(axes: Axes, role: Role, defaults: Axes, builds: Collection[Value]) -> Launch:
    """Return a launch with its id and label.

    Args:
        axes: its values.
        role: its role.
        defaults: the values of the study's default launch.
        builds: all values of the axis `build` in the study.
    """
    text = role if role == "today" else label(axes, defaults, builds)
    return Launch(launch_id(axes, defaults), text, role, axes)


def repeat_of(baseline: Launch) -> Launch:
    """Return the A/A repeat of the baseline: the same launch under another name."""
    return Launch(
        baseline.id + REPEAT_SUFFIX, f"{baseline.label} (repeat)", "repeat", baseline.axes
    )


def launch_id(axes: Axes, defaults: Axes = DEFAULTS) -> str:
    """Name a launch after the values that differ from the default.

    Nothing else affects the name, so a new axis, or another launch in the plan, changes none.

    Returns:
        Letters, digits, `_`, `.` and `-`; at most 73 characters.
    """
    changed = differing(axes, defaults)
    readable = ".".join(f"{name}-{_slug(value)}" for name, value in changed.items()) or "default"
    digest = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()
    exact = len(readable) <= READABLE_CHARACTERS and all(
        isinstance(value, int) or (name in AXES and value in AXES[name].words)
        for name, value in changed.items()
    )
    return f"{readable[:READABLE_CHARACTERS]}-{digest[: SHORT_HASH if exact else LONG_HASH]}"


def label(axes: Axes, defaults: Axes = DEFAULTS, builds: Collection[Value] = ()) -> str:
    """Describe a launch by the values that differ from the default, such as `intra_op 1`."""
    changed = differing(axes, defaults)
    if "build" in changed:
        changed["build"] = _build_name(changed["build"], builds)
    return ", ".join(f"{name} {value_text(value)}" for name, value in changed.items()) or "default"


def _build_name(build: Value, builds: Collection[Value]) -> Value:
    """Name an interpreter by its environment, or by its path if another one has that name."""
    own = _environment(build)
    return build if own in [_environment(one) for one in builds if one != build] else own


def _environment(build: Value) -> Value:
    """Return the folder of an interpreter's environment; any other build as it is."""
    *folders, above, _ = ("", "", *PurePath(str(build)).parts)
    if above != "bin":
        return build
    return "/".join(folders[-2:] if folders[-1] in USUAL_FOLDERS else folders[-1:])


def value_text(value: Value) -> str:
    """Write an axis's value for a person; the slots' CPUs of an explicit placement as `0-1 | 2`."""
    return " | ".join(value) if isinstance(value, tuple) else printable(value)


def differing(axes: Axes, others: Axes) -> dict[str, Value]:
    """Return the values of a launch that differ from another one's, by axis."""
    return {name: value for name, value in axes.items() if value != others.get(name)}


def _slug(value: Value) -> str:
    words: Iterable[str] = value if isinstance(value, tuple) else (str(value),)
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", "_".join(words))[-VALUE_CHARACTERS:]


def _read_axis(name: object, value: object, info: ValidationInfo) -> Value:
    if name in own_axes(info):
        return read_parameter(value)
    if name not in AXES:
        known = [*AXES, *own_axes(info)]
        raise wrong(value, "unknown axis", ", ".join(known), nearest_word(name, known))
    return read_value(str(name), value, files=must_exist(info))


def _read_launch(value: object, info: ValidationInfo) -> dict[str, Value]:
    if not isinstance(value, Mapping):
        raise wrong(value, found(value), ONE)
    read_one = read_each(value.items(), lambda name, item: _read_axis(name, item, info))
    return dict(zip(map(str, value), read_one, strict=True))


def _read_lists(value: object, info: ValidationInfo) -> dict[str, tuple[Value, ...]]:
    def read(name: object, items: object) -> tuple[Value, ...]:
        axis = AXES.get(str(name))
        allowed = f"a list of values ({axis.allowed if axis else PARAMETER})"
        if name not in AXES and name not in own_axes(info):
            _read_axis(name, items, info)  # refuses the name
        if not isinstance(items, list | tuple):
            raise wrong(items, found(items), allowed)
        if not items:
            raise wrong(items, "is empty", allowed)
        values = read_each(enumerate(items), lambda _, item: _read_axis(name, item, info))
        return distinct(tuple(values))

    if not isinstance(value, Mapping):
        raise wrong(value, found(value), LISTS)
    return dict(zip(map(str, value), read_each(value.items(), read), strict=True))


def _axes_schema(allowed: str, *, lists: bool) -> WithJsonSchema:
    """Describe a section of axes; an axis itself checks values that are not its words."""

    def one(options: list[JsonDict], **more: str) -> JsonDict:
        value: JsonDict = {"anyOf": [*options]}
        return {**more, **({"type": "array", "items": value} if lists else value)}

    kinds: list[JsonDict] = [{"type": "string"}, {"type": "number"}]
    axes: JsonDict = {}
    for name, axis in AXES.items():
        off: list[str | bool] = [False] if "off" in axis.words else []  # as YAML 1.1 reads it
        options: list[JsonDict] = [{"enum": [*axis.words, *off]}]
        options += [*kinds, {"type": "array"}] if axis.others else []
        axes[name] = one(options, description=axis.meaning)
    own = one(kinds)
    return WithJsonSchema(
        {"type": "object", "properties": axes, "additionalProperties": own, "allowed": allowed}
    )


OneLaunch = TypeAliasType(
    "OneLaunch",
    Annotated[Mapping[str, Value], PlainValidator(_read_launch), _axes_schema(ONE, lists=False)],
)
Values = TypeAliasType(
    "Values",
    Annotated[
        Mapping[str, tuple[Value, ...]],
        PlainValidator(_read_lists),
        _axes_schema(LISTS, lists=True),
    ],
)
SomeLaunches = Annotated[
    tuple[OneLaunch, ...], Field(strict=False), allowed("a list of sections of axes")
]


def _read_todays(name: str) -> str:
    if not is_ours(name):
        nearest = nearest_word(name, [one.casefold() for one in sorted(OWNED)])
        allowed = (
            f"variables of axes, and those that begin with {', '.join(PREFIXES)}; "
            "workload.env takes others, for all launches"
        )
        raise wrong(name, "is no variable of a launch", allowed, nearest and nearest.upper())
    return name


def _read_cpus(value: object) -> str:
    return read_id_list(value, CPU_LIST)


def _read_policy(value: str) -> str:
    mode, _, nodes = value.partition(":")
    if mode not in MODES:
        raise wrong(value, "is not a memory policy", nearest=nearest_word(mode, MODES))
    return f"{mode}:{read_id_list(nodes, POLICIES)}"


class Today(Section):
    """The settings of a user's shell, as the config gives them."""

    env: Annotated[
        Mapping[Annotated[str, AfterValidator(_read_todays)], Text],
        allowed("a section of variable names with a text or number each"),
    ] = Field(default={})
    """Environment variables of the shell."""

    cpus: Annotated[
        str, PlainValidator(_read_cpus, json_schema_input_type=str | int), allowed(CPU_LIST)
    ] = ""
    """The CPUs that the shell may use."""

    mempolicy: Annotated[str, AfterValidator(_read_policy), allowed(POLICIES)] = ""
    """The memory policy of the shell."""

    processes: Count | None = None
    """How many processes you run today: the report gives the gain over these, too. Alone, it leaves
    all else to your shell."""

    @property
    def texts(self) -> Found:
        """All settings, as the axis `shell` has them."""
        variables = sorted(f"{name}={text}" for name, text in self.env.items())
        others = [(CPUS, self.cpus), (POLICY, self.mempolicy)]
        return (*variables, *(f"{name}={text}" for name, text in others if text))


class Launches(Section):
    """The launches that are measured beside the default one and the repeat of the baseline."""

    baseline: OneLaunch = Field(default={})
    """The launch that changes start from; axes that are not named keep their default."""

    today: Annotated[
        Literal["auto"] | Off | Today,
        allowed("auto, off, or a section with env ({NAME: value}), cpus, mempolicy and processes"),
    ] = "auto"
    """Your launch of today, beside the default: your shell's settings (auto), or those here."""

    grid: Values = Field(default={})
    """Every combination of these values, over the baseline's values."""

    one_change: Values = Field(default={})
    """Each of these values alone, over the baseline's values."""

    include: SomeLaunches = ()
    """Further single launches, over the baseline's values."""

    exclude: SomeLaunches = ()
    """Drops each launch that has all values of an item, including combinations of a race."""

    def expanded(self, workload: Workload, shell: Found = ()) -> Expansion:
        """Describe every launch once, and drop what is excluded.

        A grid and a list of changes usually repeat the default, the baseline or each other. Equal
        launches merge, under the first role of default, baseline, today, one_change, grid. An
        `include` names one launch, so a repeated one is reported.

        Args:
            workload: its parameters are axes, and its variables are the same in all launches.
            shell: what was found in the user's shell.
        """
        if isinstance(self.today, Today):
            if self.today.texts or self.today.processes is None:
                shell = self.today.texts
        elif self.today == "off":
            shell = ()
        todays = tuple(text for text in shell if text.partition("=")[0] not in workload.env)
        defaults = {**DEFAULTS, **workload.parameters}
        base = {**defaults, **self.baseline}
        known: dict[tuple[Value, ...], tuple[Role, Axes]] = {}

        def add(role: Role, axes: Axes) -> bool:
            """Add a launch; return whether it is a new one."""
            before = len(known)
            known.setdefault(tuple(axes.values()), (role, axes))
            return len(known) > before

        add("default", defaults)
        add("baseline", base)
        add("today", {**defaults, "shell": todays or NONE})
        for name, changes in self.one_change.items():
            for value in changes:
                add("one_change", {**base, name: value})
        for values in itertools.product(*self.grid.values()):
            add("grid", {**base, **dict(zip(self.grid, values, strict=True))})
        repeated = [at for at, one in enumerate(self.include) if not add("grid", {**base, **one})]

        expansion = Expansion([], [], repeated)
        builds = {axes["build"] for _, axes in known.values()}
        for role, axes in known.values():
            launch = named(axes, role, defaults, builds)
            if role not in ALWAYS and (matching := self._matching(launch)):
                expansion.dropped.append((launch, self._exclusion(matching[0])))
            else:
                expansion.kept.append(launch)
        return expansion

    def _matching(self, launch: Launch) -> list[int]:
        """Return the indices of `exclude` that match a launch."""
        values = launch.axes.items()
        return [index for index, item in enumerate(self.exclude) if item.items() <= values]

    def _exclusion(self, index: int) -> str:
        """Return the reason why an item of `exclude` drops a launch."""
        values = ", ".join(f"{n} {value_text(v)}" for n, v in self.exclude[index].items())
        return f"excluded by launches.exclude[{index}] ({values})"

    @model_validator(mode="after")
    def _check_number(self) -> Self:
        changes = sum(map(len, self.one_change.values()))
        asked = len(self.include) + changes + math.prod(map(len, self.grid.values()))
        if asked > MOST_LAUNCHES:
            most = f"at most {MOST_LAUNCHES}"
            raise ConfigError([Problem((), f"{asked} launches", "too many", most)])
        return self

    def contradictions(self, expansion: Expansion, *, raced: bool) -> Iterator[Problem]:
        """Yield a problem for each repeated launch, and each exclusion that drops nothing or all.

        Args:
            expansion: all launches.
            raced: whether a race may combine launches, which an item of `exclude` may forbid.
        """
        defaults = expansion.kept[0].axes
        for index in expansion.repeated:
            change = self.include[index]
            what = f"is there already ({label({**defaults, **self.baseline, **change}, defaults)})"
            yield Problem(("launches", "include", index), shorten(change), what, "another launch")
        if expansion.dropped and all(c.role in ALWAYS for c in expansion.kept):
            what = f"drops all {len(expansion.dropped)} launches of grid, one_change and include"
            shown = shorten(list(self.exclude))
            yield Problem(("launches", "exclude"), shown, what, "what leaves one of them")
        values = {pair for launch in expansion.kept for pair in launch.axes.items()}
        used = {index for launch, _ in expansion.dropped for index in self._matching(launch)}
        for index in sorted(set(range(len(self.exclude))) - used):
            if not raced or not self.exclude[index].items() <= values:
                yield Problem(
                    ("launches", "exclude", index),
                    shorten(self.exclude[index]),
                    "matches no launch that could be dropped",
                    "values that a launch of grid, one_change or include has "
                    "(default and baseline are always measured)",
                )
