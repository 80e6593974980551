"""The `launches` section of a config: axes and their values."""

import math
from collections.abc import Iterator, Mapping
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

from scaling_study.common.problems import (
    ConfigError,
    Problem,
    found,
    nearest_word,
    read_each,
    shorten,
    wrong,
)
from scaling_study.config.launches import (
    MODES,
    OWNED,
    Expansion,
    Found,
    expand,
    is_ours,
    label,
    value_of,
    value_text,
)
from scaling_study.config.section import (
    PARAMETER,
    Off,
    Section,
    Text,
    allowed,
    distinct,
    must_exist,
    own_axes,
    read_parameter,
)
from scaling_study.launch.axes.axis import Value
from scaling_study.launch.axes.axis_table import AXES, DEFAULTS, read_value
from scaling_study.launch.axes.shell import CPUS, POLICY, PREFIXES
from scaling_study.launch.axes.values import read_id_list

MOST_LAUNCHES = 10_000  # a study of more would run for weeks; a product that large is a slip
ONE = "a section of axes with one value each"
LISTS = "a section of axes with a list of values each"
CPU_LIST = "a list of CPUs in one text, such as 0-3"
POLICIES = "bind:NODES or interleave:NODES, such as interleave:0-1"


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
            shown = None if items is None else f"[{shorten(items)}]"
            raise wrong(items, found(items), allowed, shown)
        if not items:
            raise wrong(items, "is empty", allowed)
        return distinct(
            tuple(read_each(enumerate(items), lambda _, item: _read_axis(name, item, info)))
        )

    if not isinstance(value, Mapping):
        raise wrong(value, found(value), LISTS)
    return dict(zip(map(str, value), read_each(value.items(), read), strict=True))


def _axes_schema(allowed: str, *, lists: bool) -> WithJsonSchema:
    """Describe a section of axes: what is no word of an axis is looked at by the axis itself."""

    def one(words: list[str | bool], kinds: list[str]) -> JsonDict:
        options: list[JsonDict] = [{"enum": [*words]}] * bool(words)
        options += [{"type": kind} for kind in kinds]
        value: JsonDict = {"anyOf": [*options]}
        return {"type": "array", "items": value, "minItems": 1} if lists else value

    further = ["string", "integer", "array"]
    return WithJsonSchema(
        {
            "type": "object",
            "properties": {
                name: {
                    "description": axis.meaning,
                    **one(
                        [*axis.words, *([False] if "off" in axis.words else [])],
                        further if axis.others else [],
                    ),
                }
                for name, axis in AXES.items()
            },
            "additionalProperties": one([], ["string", "number"]),
            "allowed": allowed,
        }
    )


Axes = TypeAliasType(
    "Axes",
    Annotated[Mapping[str, Value], PlainValidator(_read_launch), _axes_schema(ONE, lists=False)],
)
AxesLists = TypeAliasType(
    "AxesLists",
    Annotated[
        Mapping[str, tuple[Value, ...]],
        PlainValidator(_read_lists),
        _axes_schema(LISTS, lists=True),
    ],
)
AxesItems = Annotated[tuple[Axes, ...], Field(strict=False), allowed("a list of sections of axes")]


def _read_todays(name: str) -> str:
    if not is_ours(name):
        nearest = nearest_word(name, [one.casefold() for one in sorted(OWNED)])
        allowed = (
            f"variables of axes, and those that begin with {', '.join(PREFIXES)}; "
            "workload.env takes others, for all launches"
        )
        raise wrong(name, "is no variable of a launch", allowed, nearest and nearest.upper())
    return name


def _read_policy(value: str) -> str:
    mode, _, nodes = value.partition(":")
    if mode not in MODES:
        raise wrong(value, "is not a memory policy", nearest=nearest_word(mode, MODES))
    return f"{mode}:{read_id_list(nodes, POLICIES)}"


class Today(Section):
    """What a user's shell sets, where the config says it."""

    env: Annotated[
        Mapping[Annotated[str, AfterValidator(_read_todays)], Text],
        allowed("a section of variable names with a text or number each"),
    ] = Field(default={})
    """Variables."""

    cpus: Annotated[
        str,
        PlainValidator(
            lambda value: read_id_list(value, CPU_LIST), json_schema_input_type=str | int
        ),
        allowed(CPU_LIST),
    ] = ""
    """The CPUs that it may use."""

    mempolicy: Annotated[str, AfterValidator(_read_policy), allowed(POLICIES)] = ""
    """Its memory policy."""

    @property
    def texts(self) -> Found:
        """All of it, as the axis `shell` has it."""
        variables = sorted(f"{name}={text}" for name, text in self.env.items())
        others = [(CPUS, self.cpus), (POLICY, self.mempolicy)]
        return (*variables, *(f"{name}={text}" for name, text in others if text))


class Launches(Section):
    """Which launches are measured beside the default one and the repeat of the baseline."""

    baseline: Axes = Field(default={})
    """The launch that changes start from; axes that are not named keep their default."""

    today: Annotated[
        Literal["auto"] | Off | Today,
        allowed("auto, off, or a section with env ({NAME: value}), cpus and mempolicy"),
    ] = "auto"
    """What you launch today, beside the default: what your shell sets (auto), or what this says."""

    grid: AxesLists = Field(default={})
    """Every combination of these values, over the baseline's values."""

    one_change: AxesLists = Field(default={})
    """Each of these values alone, over the baseline's values."""

    include: AxesItems = ()
    """Single further launches, over the baseline's values."""

    exclude: AxesItems = ()
    """Drops each launch, also those that a race puts together, that has all values of an item."""

    def expanded(
        self,
        own: Mapping[str, Value],
        shell: Found = (),
        workload: Mapping[str, str] | None = None,
    ) -> Expansion:
        """Return the launches that this section describes.

        Args:
            own: the study's own axes, each with its default.
            shell: what was found in the user's shell.
            workload: ``workload.env``.
        """
        found_today = {"auto": shell, "off": ()}
        today = self.today.texts if isinstance(self.today, Today) else found_today[self.today]
        return expand(
            defaults={**DEFAULTS, **own},
            baseline=self.baseline,
            grid=self.grid,
            one_change=self.one_change,
            include=self.include,
            exclude=self.exclude,
            shell=value_of(today, workload or {}),
        )

    @model_validator(mode="after")
    def _check_number(self) -> Self:
        asked = len(self.include) + sum(
            [math.prod(map(len, self.grid.values())), *map(len, self.one_change.values())]
        )
        if asked > MOST_LAUNCHES:
            most = f"at most {MOST_LAUNCHES}"
            raise ConfigError([Problem((), f"{asked} launches", "too many", most)])
        return self

    def contradictions(self, own: Mapping[str, Value]) -> Iterator[Problem]:
        """Find launches that are asked for twice, and exclusions that leave nothing.

        Args:
            own: the study's own axes, each with its default.
        """
        expansion = self.expanded(own)
        for index, other in expansion.repeated:
            axes = label(other.axes, {**DEFAULTS, **own})
            yield Problem(
                ("include", index),
                shorten(self.include[index]),
                f"is the same launch as launches.{other.origin} ({axes})",
                "a launch that is not there yet",
            )
        if expansion.dropped and all(
            c.arm in {"default", "baseline", "today"} for c in expansion.kept
        ):
            yield Problem(
                ("exclude",),
                shorten(list(self.exclude)),
                f"drops all {len(expansion.dropped)} launches of grid, one_change and include",
                "what leaves one of them",
            )

    def idle_exclusions(self, own: Mapping[str, Value], *, raced: bool) -> Iterator[Problem]:
        """Find items of `exclude` that drop nothing.

        Args:
            own: the study's own axes, each with its default.
            raced: launches may be put together, which an item may forbid.
        """
        expansion = self.expanded(own)
        values = {pair for launch in expansion.kept for pair in launch.axes.items()}
        for index in expansion.idle:
            if raced and self.exclude[index].items() <= values:
                continue
            yield Problem(
                ("exclude", index),
                shorten(self.exclude[index]),
                "matches no launch that could be dropped",
                "values that a launch of grid, one_change or include has "
                "(default and baseline are always measured)",
            )

    def exclusion_text(self, index: int) -> str:
        """Say what an item of `exclude` matches."""
        values = ", ".join(f"{n} {value_text(v)}" for n, v in self.exclude[index].items())
        return f"excluded by launches.exclude[{index}] ({values})"
