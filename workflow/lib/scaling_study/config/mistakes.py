"""What pydantic finds wrong in a study file, in plain words: one form for all mistakes.

What a key allows is read from the JSON schema of the models, which editors and the documentation
use too, so that a bound or a word is declared once.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from scaling_study.common.problems import (
    MASK,
    ConfigError,
    Problem,
    found,
    may_be_secret,
    nearest_number,
    nearest_word,
    shorten,
)

Loc = tuple[object, ...]
MISSING = "missing"


class Schema(BaseModel):
    """A part of a JSON schema, as far as pydantic writes it for a study file.

    `allowed` and `unit` are the project's own: what a value may be, where bounds and words do not
    say it, and what a number counts.
    """

    model_config = ConfigDict(alias_generator=to_camel, frozen=True)

    ref: str = Field("", alias="$ref")
    defs: Mapping[str, Self] = Field({}, alias="$defs")
    type: str = ""
    const: object = None
    enum: tuple[object, ...] = ()
    any_of: tuple[Self, ...] = ()
    minimum: int | float | None = None
    maximum: int | float | None = None
    exclusive_minimum: int | float | None = None
    exclusive_maximum: int | float | None = None
    pattern: str | None = None
    items: Self | None = None
    properties: Mapping[str, Self] = {}
    pattern_properties: Mapping[str, Self] = {}
    additional_properties: Self | bool = True
    required: tuple[str, ...] = ()
    description: str = ""
    default: object = None
    allowed: str = ""
    unit: str = ""

    @property
    def words(self) -> list[str]:
        """The words among what is allowed."""
        return [word for word in (self.const, *self.enum) if isinstance(word, str)]

    @property
    def kinds(self) -> set[str]:
        """JSON's names of the kinds of value that are allowed, but for words."""
        return set() if self.words else {self.type}

    def nearest_number(self, value: float) -> float | None:
        """Return the closest number within the bounds; None where one of them is left out."""
        if self.type not in {"integer", "number"} or _kinds(value).isdisjoint({"number"}):
            return None
        above, below = self.exclusive_minimum, self.exclusive_maximum
        if (above is not None and value <= above) or (below is not None and value >= below):
            return None
        low = value if self.minimum is None else max(value, self.minimum)
        return low if self.maximum is None else min(low, self.maximum)


class Keys:
    """All keys of a model, each with what it allows."""

    def __init__(self, model: type[BaseModel]) -> None:
        self.root = Schema.model_validate(model.model_json_schema())

    def options(self, schema: Schema) -> list[Schema]:
        """Return what a key allows, one by one: words, a kind of value, a section."""
        if schema.ref:
            return self.options(self.root.defs[schema.ref.rpartition("/")[2]])
        if schema.any_of:
            return [option for one in schema.any_of for option in self.options(one)]
        return [schema]

    def at(self, loc: Loc) -> Schema:
        """Return what stands at a place, or above it where nothing is known of the place."""
        schema = self.root
        for key in loc:
            schema = next(filter(None, (_below(o, key) for o in self.options(schema))), schema)
        return schema

    def leaves(self, schema: Schema | None = None, path: str = "") -> Iterator[tuple[str, Schema]]:
        """Iterate over the keys below a section that are no sections, each with its whole path."""
        for option in self.options(schema or self.root):
            for name, one in option.properties.items():
                # A section that has a text of its own is explained by it.
                explained = one.allowed or any(other.allowed for other in self.options(one))
                inner = () if explained else self.leaves(one, f"{path}{name}.")
                yield from list(inner) or [(path + name, one)]

    def place(self, loc: Loc, content: object) -> Loc:
        """Return a place without pydantic's names of kinds and steps.

        Args:
            loc: as pydantic has it.
            content: what was checked.
        """
        place: Loc = ()
        for key in loc:
            names = {name for one in self.options(self.at(place)) for name in one.properties}
            below: dict[object, object] = {}
            if isinstance(content, Mapping):
                below = {**dict.fromkeys(names), **content}
                below = {**{shown_key(name): value for name, value in below.items()}, **below}
            elif isinstance(content, list | tuple):
                below = dict(enumerate(content))
            if key in below:
                place, content = (*place, key), below[key]
        return place

    def allowed(self, schema: Schema) -> str:
        """Say what a key allows."""
        if schema.allowed:
            return schema.allowed
        if schema.ref or schema.any_of:
            options = schema.any_of or self.options(schema)
            *first, last = dict.fromkeys(map(self.allowed, options))
            return f"{', '.join(first)}, or {last}" if first else last
        if schema.words:
            return " or ".join(filter(None, [", ".join(schema.words[:-1]), schema.words[-1]]))
        if schema.items:
            return f"a list, each {self.allowed(schema.items)}"
        if schema.properties:
            return f"a section with the keys {', '.join(schema.properties)}"
        limits = {
            " from": schema.minimum,
            " above": schema.exclusive_minimum,
            ", at most" if schema.minimum is None else " to": schema.maximum,
            ", below": schema.exclusive_maximum,
        }
        kinds = {
            "integer": "a whole number",
            "number": "a number",
            "string": "text",
            "boolean": "true or false",
        }
        said = (f"{word} {limit}" for word, limit in limits.items() if limit is not None)
        return "".join([kinds.get(schema.type, schema.type), *said])

    def problem(self, loc: Loc, value: object) -> Problem:
        """Say what is wrong with a value that a key does not allow."""
        schema = self.at(loc)
        options = self.options(schema)
        kinds = {kind for option in options for kind in option.kinds}
        words = [word for option in options for word in option.words]
        if isinstance(value, str) and words and "string" not in kinds:
            what = "is not a known word"
        elif kinds.isdisjoint(_kinds(value)):
            what = found(value)
        else:
            what = "is empty" if value in ("", [], {}) else "is not allowed"
        fitting = [option for option in options if option.kinds & _kinds(value)] or options
        near = (self._nearest(option, value) for option in fitting if not option.words)
        nearest = nearest_word(value, words) or next(filter(None, near), None)
        return Problem(loc, shorten(value), what, self.allowed(schema), nearest)

    def _nearest(self, schema: Schema, value: object) -> str | None:
        """Return a value as it would be written, or the closest one that is allowed."""
        kind, given = schema.type, _kinds(value)
        items = self.options(schema.items) if schema.items else []
        nearest = None
        if kind == "integer" and "integer" not in given:
            nearest = nearest_number(value)
        elif kind == "number" and isinstance(value, str):  # YAML 1.1 reads 1e-1 as text
            number = re.fullmatch(r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?", value)
            nearest = repr(float(value)) if number else None
        elif kind == "string" and isinstance(value, str):
            nearest = _matching(value, schema.pattern or "")
        elif kind == "array" and any(given & item.kinds for item in items):
            # An option with its value is two arguments.
            split = isinstance(value, str) and value.startswith("-")
            nearest = shorten(str(value).split() if split else [value])
        elif kind == "string" and "number" in given:
            nearest = f'"{shorten(value)}"'
        elif isinstance(value, int | float) and "number" in given:
            number_there = schema.nearest_number(value)
            nearest = None if number_there in {None, value} else str(number_there)
            for name, first in list(schema.properties.items())[:1]:
                if any(one.nearest_number(value) == value for one in self.options(first)):
                    nearest = f"{{{name}: {value}}}"
        return nearest

    def misnamed(self, loc: Loc, name: object) -> Problem:
        """Say that a section does not take such a name."""
        section = self.at(loc[:-1])
        patterns = (pattern for one in self.options(section) for pattern in one.pattern_properties)
        nearest = _matching(str(name), next(patterns, ""))
        return Problem(loc, "", "is no name that is allowed", self.allowed(section), nearest)

    def unknown(self, loc: Loc, value: object) -> Problem:
        """Say that there is no such key, and which one is meant: here, or in another section."""
        names = [name for one in self.options(self.at(loc[:-1])) for name in one.properties]
        everywhere = [*self.root.properties, *(path for path, _ in self.leaves())]
        others = (path for path in everywhere if path.rpartition(".")[2] == loc[-1])
        nearest = nearest_word(loc[-1], names) or next(others, None)
        return Problem(loc, shorten(value), "unknown key", ", ".join(names), nearest)


def _below(schema: Schema, key: object) -> Schema | None:
    if isinstance(key, int) and schema.items:
        return schema.items
    others = [*schema.pattern_properties.values(), schema.additional_properties]
    further = next((one for one in others if isinstance(one, Schema)), None)
    return schema.properties.get(str(key), further)


def _kinds(value: object) -> set[str]:
    """Return JSON's names of a value's kind; a whole number is a number, too."""
    kinds: tuple[tuple[type | tuple[type, ...], set[str]], ...] = (
        (bool, {"boolean"}),
        (int, {"integer", "number"}),
        (float, {"number"} if isinstance(value, float) and math.isfinite(value) else set()),
        (str, {"string"}),
        ((list, tuple), {"array"}),
        (Mapping, {"object"}),
    )
    return next((names for kind, names in kinds if isinstance(value, kind)), {"null"})


def _matching(value: str, pattern: str) -> str | None:
    """Return a name that is allowed, as close as can be to one that is not."""
    path = re.sub(r"\.py$", "", value).replace("/", ".").strip(".")
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", value).strip("_.-")
    names = (plain[:64].rstrip(".-"), plain.replace(".", "-")[:32].strip("-"), path)
    return next((one for one in names if one != value and re.fullmatch(pattern, one)), None)


def shown_key(key: object) -> str:
    """Return a key as text: YAML reads `on` as true, and Python writes no number that is long."""
    if isinstance(key, int):
        return shorten(key)
    return key if isinstance(key, str) and key.isprintable() else repr(key)


def problems_of(error: ValidationError, keys: Keys, content: object) -> list[Problem]:
    """Say all that pydantic found, one problem for each mistake.

    Args:
        error: What it found.
        keys: Those of the model.
        content: What was checked.
    """
    problems: dict[Loc, list[Problem]] = {}
    kinds: dict[Loc, Problem] = {}  # of a value that may be this or that, each says it is not this
    for details in error.errors(include_url=False):
        loc, value, kind = keys.place(details["loc"], content), details["input"], details["type"]
        inner = details.get("ctx", {}).get("error")
        last = details["loc"][-1:]
        if kind in {"missing", "extra_forbidden"} and loc[-1:] != last:
            loc += last
        if isinstance(inner, ConfigError):
            found_there = inner.under(*loc)
        elif last == ("[key]",):
            found_there = [keys.misnamed(loc, value)]
        elif kind == "extra_forbidden":
            found_there = [keys.unknown(loc, value)]
        elif kind == "missing":
            found_there = [Problem(loc, "", MISSING)]
        else:
            kinds.setdefault(loc, keys.problem(loc, value))
            continue
        problems.setdefault(loc, found_there)  # of a name and its value, the name
    for loc, problem in kinds.items():
        if all(place[: len(loc)] != loc or place == loc for place in [*problems, *kinds]):
            problems.setdefault(loc, [problem])
    told = [problem for each in problems.values() for problem in each]
    # A key that is missing because it is misspelt is one mistake.
    meant = {(*problem.loc[:-1], problem.nearest) for problem in told}
    return [
        _masked(replace(one, allowed=one.allowed or keys.allowed(keys.at(one.loc))))
        for one in told
        if one.what != MISSING or one.loc not in meant
    ]


def _masked(problem: Problem) -> Problem:
    """Mask a value that may be a secret, wherever it slipped to."""
    if not any(map(may_be_secret, (*problem.loc, problem.value))):
        return problem
    # A slip such as {KEY=value} makes a name of both.
    loc = (re.sub("=.*", f"={MASK}", one) if isinstance(one, str) else one for one in problem.loc)
    nearest = problem.nearest if str(problem.nearest).startswith("pass_env: ") else None
    return replace(problem, loc=tuple(loc), value=problem.value and MASK, nearest=nearest)
