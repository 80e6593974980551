"""The `launches` section of a config."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import PlainValidator, ValidationInfo, model_validator

from scaling_study.common.problems import (
    ConfigError,
    Problem,
    found,
    nearest_word,
    read_distinct,
    read_each,
    shorten,
    wrong,
)
from scaling_study.config.config_parameters import PARAMETER, Parameters, read_parameter
from scaling_study.config.config_schema import Allowed, Section, must_exist, parameters
from scaling_study.config.launches import Expansion, expand, label, value_text
from scaling_study.config.todays import TODAY, Found, read_today, value_of
from scaling_study.launch.axes.axis import Value
from scaling_study.launch.axes.axis_table import AXES, DEFAULTS, read_value

# A study of more would run for weeks; a product that large is a slip.
MOST_LAUNCHES = 10_000

ONE = "a section of axes with one value each"
LISTS = "a section of axes with a list of values each"
SECTIONS = "a list of sections of axes"


def _allowed(name: object, value: object, own: Parameters) -> str:
    """Say which values an axis takes, one of the study's own, too."""
    if name in own:
        return PARAMETER
    if name not in AXES:
        known = [*AXES, *own]
        raise ConfigError(
            [
                Problem(
                    (), shorten(value), "unknown axis", ", ".join(known), nearest_word(name, known)
                )
            ]
        )
    return AXES[str(name)].allowed


def _read_value(name: object, value: object, info: ValidationInfo) -> Value:
    if name in parameters(info):
        return read_parameter(value)
    return read_value(str(name), value, files=must_exist(info))


def _mapping(value: object, allowed: str) -> Mapping[object, object]:
    if not isinstance(value, Mapping):
        raise wrong(value, found(value), allowed)
    return value


def _read_launch(value: object, info: ValidationInfo) -> dict[str, Value]:
    def read(name: object, item: object) -> tuple[str, Value]:
        _allowed(name, item, parameters(info))
        return str(name), _read_value(name, item, info)

    return dict(read_each(_mapping(value, ONE).items(), read))


def _read_lists(value: object, info: ValidationInfo) -> dict[str, tuple[Value, ...]]:
    def read(name: object, items: object) -> tuple[str, tuple[Value, ...]]:
        allowed = _allowed(name, items, parameters(info))
        values = read_distinct(
            items, lambda item: _read_value(name, item, info), f"a list of values ({allowed})"
        )
        if not values:
            raise wrong(items, "is empty", f"at least one value ({allowed})")
        return str(name), values

    return dict(read_each(_mapping(value, LISTS).items(), read))


def _read_launches(value: object, info: ValidationInfo) -> tuple[dict[str, Value], ...]:
    if not isinstance(value, list | tuple):
        nearest = f"[{shorten(value)}]" if isinstance(value, Mapping) else None
        raise wrong(value, found(value), SECTIONS, nearest)
    return tuple(read_each(enumerate(value), lambda _, item: _read_launch(item, info)))


class Launches(Section):
    """Which launches are measured beside the default one and the repeat of the baseline."""

    baseline: Annotated[Mapping[str, Value], PlainValidator(_read_launch), Allowed(ONE)] = {}
    """The launch that changes start from; axes that are not named keep their default."""

    today: Annotated[Literal["auto", "off"] | Found, PlainValidator(read_today), Allowed(TODAY)] = (
        "auto"
    )
    """What you launch today, beside the default: what your shell sets (auto), or what this says."""

    grid: Annotated[
        Mapping[str, tuple[Value, ...]], PlainValidator(_read_lists), Allowed(LISTS)
    ] = {}
    """Every combination of these values, over the baseline's values."""

    one_change: Annotated[
        Mapping[str, tuple[Value, ...]], PlainValidator(_read_lists), Allowed(LISTS)
    ] = {}
    """Each of these values alone, over the baseline's values."""

    include: Annotated[
        Sequence[Mapping[str, Value]], PlainValidator(_read_launches), Allowed(SECTIONS)
    ] = ()
    """Single further launches, over the baseline's values."""

    exclude: Annotated[
        Sequence[Mapping[str, Value]], PlainValidator(_read_launches), Allowed(SECTIONS)
    ] = ()
    """Drops each launch, also those that a race puts together, that has all values of an item."""

    def expanded(
        self, own: Parameters, shell: Found = (), workload: Mapping[str, str] | None = None
    ) -> Expansion:
        """Return the launches that this section describes.

        Args:
            own: the study's own axes, each with its default.
            shell: what was found in the user's shell.
            workload: ``workload.env``.
        """
        return expand(
            defaults={**DEFAULTS, **own},
            baseline=self.baseline,
            grid=self.grid,
            one_change=self.one_change,
            include=self.include,
            exclude=self.exclude,
            shell=value_of(self.today, shell, workload or {}),
        )

    @model_validator(mode="after")
    def _check_launches(self, info: ValidationInfo) -> Self:
        asked = len(self.include) + sum(
            [math.prod(map(len, self.grid.values())), *map(len, self.one_change.values())]
        )
        if asked > MOST_LAUNCHES:
            raise ConfigError(
                [Problem((), f"{asked} launches", "too many", f"at most {MOST_LAUNCHES}")]
            )
        own = parameters(info)
        problems = list(self._launch_problems(self.expanded(own), {**DEFAULTS, **own}))
        if problems:
            raise ConfigError(problems)
        return self

    def _launch_problems(
        self, expansion: Expansion, defaults: Mapping[str, Value]
    ) -> Iterator[Problem]:
        for index, other in expansion.repeated:
            yield Problem(
                ("include", index),
                shorten(self.include[index]),
                f"is the same launch as launches.{other.origin} ({label(other.axes, defaults)})",
                "a launch that is not there yet",
            )
        if expansion.dropped and all(
            c.arm in {"default", "baseline", "today"} for c in expansion.kept
        ):
            yield Problem(
                ("exclude",),
                shorten(self.exclude),
                f"drops all {len(expansion.dropped)} launches of grid, one_change and include",
                "what leaves one of them",
            )

    def idle_exclusions(self, own: Parameters, *, raced: bool) -> Iterator[Problem]:
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
