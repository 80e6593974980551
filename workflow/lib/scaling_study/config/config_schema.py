"""How a config's sections are declared, and what pydantic reports about them in plain words."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from scaling_study.common.problems import (
    ConfigError,
    Problem,
    found,
    nearest_number,
    nearest_word,
    shorten,
)

MISSING = "missing"
UNKNOWN_KEY = "unknown key"


@dataclass(frozen=True, slots=True)
class Context:
    """A config that is read on the machine on which its files must exist.

    A plan read back on another machine is validated without it.

    Attributes:
        parameters: The study's own axes, each with its default.
    """

    parameters: Mapping[str, str | int | float] = dataclasses.field(default_factory=dict)


def must_exist(info: ValidationInfo) -> bool:
    """Say whether files are looked up on this machine."""
    return isinstance(info.context, Context)


def parameters(info: ValidationInfo) -> Mapping[str, str | int | float]:
    """Return the study's own axes, each with its default."""
    return info.context.parameters if isinstance(info.context, Context) else {}


class Section(BaseModel):
    """A part of the config: unknown keys are mistakes, and nothing changes once it is read."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _name_all_keys(cls, value: object) -> object:
        """Show keys that are no plain text as Python does, so that messages can name them.

        Of themselves, pydantic shows `on` (true) as 1 and refuses lone surrogates without a place.
        """
        if not isinstance(value, Mapping):
            return value
        return {_shown(key): item for key, item in value.items()}


def _shown(key: object) -> str:
    if isinstance(key, int):  # Python refuses to print long ones
        return shorten(key)
    return key if isinstance(key, str) and key.isprintable() else repr(key)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a key allows, for a person, where its type does not say it."""

    text: str


@dataclass(frozen=True, slots=True)
class Unit:
    """What a number counts; a key that ends in `_s` is in seconds anyway."""

    text: str


def section_of(field: FieldInfo) -> type[Section] | None:
    """Return the section that a key holds, None for a plain value."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def keys_of(section: type[Section], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Iterate over all keys below a section, each with its whole path."""
    for name, field in section.model_fields.items():
        yield prefix + name, field
        inner = section_of(field)
        if inner:
            yield from keys_of(inner, f"{prefix}{name}.")


def allowed_text(field: FieldInfo) -> str:
    """Say what a key allows, for the table of keys and for messages alike."""
    for item in field.metadata:
        if isinstance(item, Allowed):
            return item.text
    section = section_of(field)
    if section:
        return f"a section with the keys {', '.join(section.model_fields)}"
    if get_origin(field.annotation) is Literal:
        return " or ".join(get_args(field.annotation))
    if field.annotation is bool:
        return "true or false"
    kinds: dict[object, str] = {int: "a whole number", float: "a number", str: "text"}
    return ", ".join([kinds[field.annotation], *filter(None, map(_limit, field.metadata))])


def _limit(constraint: object) -> str | None:
    match constraint:
        case annotated_types.Ge(ge=low):
            return f"at least {low}"
        case annotated_types.Gt(gt=low):
            return f"above {low}"
        case annotated_types.Le(le=high):
            return f"at most {high}"
        case _:
            return None


def problems_of(error: ValidationError, config: type[Section]) -> list[Problem]:
    """Put all that pydantic found into plain words, one problem for each mistake.

    A key that is missing because it is misspelt is one mistake, so only the misspelling is named.
    """
    problems = [problem for details in error.errors() for problem in _problems(details, config)]
    meant = {(*problem.loc[:-1], problem.nearest) for problem in problems}
    return [p for p in problems if p.what != MISSING or p.loc not in meant]


def _problems(details: ErrorDetails, config: type[Section]) -> list[Problem]:
    loc, value, kind = details["loc"], details["input"], details["type"]
    inner = details.get("ctx", {}).get("error")
    if isinstance(inner, ConfigError):
        return inner.under(*loc)
    if kind == "extra_forbidden":
        return [_unknown_key(loc, value, config)]
    field = dict(keys_of(config))[".".join(map(str, loc))]
    allowed = allowed_text(field)
    if kind == "missing":
        return [Problem(loc, "", MISSING, allowed)]
    if kind == "literal_error" and isinstance(value, str):
        words = get_args(field.annotation)
        return [
            Problem(loc, shorten(value), "is not a known word", allowed, nearest_word(value, words))
        ]
    wrong_kind = kind.endswith(("_type", "_error", "_number"))
    what = found(value) if wrong_kind else "is not allowed"
    return [Problem(loc, shorten(value), what, allowed, _nearest(kind, value))]


def _unknown_key(loc: tuple[int | str, ...], value: object, config: type[Section]) -> Problem:
    section = config
    for name in loc[:-1]:
        section = section_of(section.model_fields[str(name)]) or section
    nearest = nearest_word(loc[-1], section.model_fields)
    elsewhere = (path for path, _ in keys_of(config) if path.split(".")[-1] == loc[-1])
    return Problem(
        loc,
        shorten(value),
        UNKNOWN_KEY,
        ", ".join(section.model_fields),
        nearest or next(elsewhere, None),
    )


def _nearest(kind: str, value: object) -> str | None:
    """Return the right way to write a value of the wrong kind."""
    if kind == "string_type" and isinstance(value, int | float) and not isinstance(value, bool):
        return f'"{shorten(value)}"'
    if kind == "int_type":
        return nearest_number(value)
    if kind == "float_type" and isinstance(value, str):
        try:
            number = float(value)  # YAML 1.1 reads 1e-1 as text
        except ValueError:
            return None
        return repr(number) if math.isfinite(number) else None
    return None
