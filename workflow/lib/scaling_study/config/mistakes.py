"""Messages for the mistakes that pydantic finds in a study file, in one form.

The values that a key allows are read from the JSON schema of the models, which editors and the
documentation use too, so that a bound or a word is declared once.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from scaling_study.common.problems import (
    MASK,
    ConfigError,
    Problem,
    found,
    may_be_secret,
    nearest_word,
    shorten,
)

M = TypeVar("M", bound=BaseModel)
Loc = tuple[object, ...]
MISSING = "missing"
OF_ANOTHER_KIND = {"literal_error", "none_required", "finite_number"}
"""pydantic's errors for a value of another kind, beside those whose names end in `_type`."""

REPLACED = {
    "data_loader": "feed",
    "measure.retries": "measure.retakes",
    "measure.timeout_s": "measure.start_timeout_s measure.hang_timeout_s",
    "measure.window_s: [shortest, longest]": "measure.shortest_s measure.longest_s",
    "no such key: it follows from measure.window_s": "measure.settle_s",
    "profile: quick, full or off, which set it": "profile.operators profile.stacks profile.calls"
    " profile.steps profile.rate_hz profile.samples profile.unprofiled_s",
    "{n} in workload.args, for a script that starts its processes itself": "workload.pool",
    "no such key: divide models/hour by its cost": "currency machines.price machines.watts",
}
"""For keys of earlier versions, without the names of machines, what replaces them."""


class Schema(BaseModel):
    """A part of a JSON schema, as far as pydantic writes it for a study file.

    `allowed` and `unit` are the project's own. They describe the values that bounds and words do
    not describe, and the unit of a number.
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
    items: Self | None = None
    properties: Mapping[str, Self] = {}
    pattern_properties: Mapping[str, Self] = {}
    additional_properties: Self | bool = True
    description: str = ""
    default: object = None
    allowed: str = ""
    unit: str = ""

    @property
    def words(self) -> list[str]:
        """The words among the allowed values."""
        return [word for word in (self.const, *self.enum) if isinstance(word, str)]


class Keys:
    """All keys of a model, each with what it allows."""

    def __init__(self, model: type[BaseModel]) -> None:
        self.root = Schema.model_validate(model.model_json_schema())

    def options(self, schema: Schema) -> list[Schema]:
        """Return the alternatives that a key allows: words, a kind of value, a section."""
        if schema.ref:
            return self.options(self.root.defs[schema.ref.rpartition("/")[2]])
        if schema.any_of:
            return [option for one in schema.any_of for option in self.options(one)]
        return [schema]

    def at(self, loc: Loc) -> Schema:
        """Return the schema at a place, or of the closest place above it that has one."""
        schema = self.root
        for key in loc:
            schema = next(filter(None, (_below(o, key) for o in self.options(schema))), schema)
        return schema

    def leaves(self, schema: Schema | None = None, path: str = "") -> Iterator[tuple[str, Schema]]:
        """Yield the keys below a section that are not sections, each with its whole path."""
        for option in self.options(schema or self.root):
            for name, one in option.properties.items():
                # A section with a text of its own needs no explanation of its keys.
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
        """Describe what a key allows."""
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

    def problem(self, loc: Loc, value: object, kinds: Collection[str]) -> Problem:
        """Return the problem with a value that a key does not allow.

        Args:
            loc: The key's place.
            value: The value.
            kinds: pydantic's names of the errors, one for each kind of value that is allowed.
        """
        schema = self.at(loc)
        words = [word for option in self.options(schema) for word in option.words]
        if not all(kind.endswith("_type") or kind in OF_ANOTHER_KIND for kind in kinds):
            what = "is empty" if value in ("", [], {}) else "is not allowed"
        elif isinstance(value, str) and words:
            what = "is not a known word"
        else:
            what = found(value)
        nearest = nearest_word(value, words)
        return Problem(loc, shorten(value), what, self.allowed(schema), nearest)

    def unknown(self, loc: Loc, value: object) -> Problem:
        """Return the problem of an unknown key, with the key that is meant, in any section."""
        path = ".".join(map(str, (*loc[:-1][:1], loc[-1])))
        if right := next((right for right, keys in REPLACED.items() if path in keys.split()), ""):
            return Problem(loc, shorten(value), "was removed", right)
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


def shown_key(key: object) -> str:
    """Return a key as text: YAML reads `on` as true, and Python refuses to write long numbers."""
    if isinstance(key, int):
        return shorten(key)
    return key if isinstance(key, str) and key.isprintable() else repr(key)


def validate(model: type[M], content: object, axes: Collection[str] = frozenset()) -> M:
    """Check the content of a study file, in which files that it names must exist.

    Args:
        model: What it must be.
        content: The whole file, as YAML reads it.
        axes: Names of the study's own axes.

    Raises:
        ConfigError: With every mistake found.
    """
    try:
        return model.model_validate(content, context=axes)
    except ValidationError as error:
        raise ConfigError(_problems_of(error, Keys(model), content)) from None


def _problems_of(error: ValidationError, keys: Keys, content: object) -> list[Problem]:
    """Return all that pydantic found, one problem for each mistake."""
    problems: dict[Loc, list[Problem]] = {}
    kinds: dict[Loc, dict[str, object]] = {}  # one error for each alternative of a value
    for details in error.errors(include_url=False):
        loc, value, kind = keys.place(details["loc"], content), details["input"], details["type"]
        inner = details.get("ctx", {}).get("error")
        last = details["loc"][-1:]
        if kind in {"missing", "extra_forbidden"} and loc[-1:] != last:
            loc += last
        if isinstance(inner, ConfigError):
            found_there = inner.under(*loc)
        elif last == ("[key]",):
            allowed = keys.allowed(keys.at(loc[:-1]))
            found_there = [Problem(loc, "", "is no name that is allowed", allowed)]
        elif kind == "extra_forbidden":
            found_there = [keys.unknown(loc, value)]
        elif kind == "missing":
            found_there = [Problem(loc, "", MISSING)]
        else:
            kinds.setdefault(loc, {})[kind] = value
            continue
        problems.setdefault(loc, found_there)  # a wrong name comes before a wrong value
    for loc, found_here in kinds.items():
        if all(place[: len(loc)] != loc or place == loc for place in [*problems, *kinds]):
            value = next(iter(found_here.values()))
            problems.setdefault(loc, [keys.problem(loc, value, found_here)])
    told = [problem for each in problems.values() for problem in each]
    # A key that is missing because it is misspelt is one mistake.
    meant = {(*problem.loc[:-1], problem.nearest) for problem in told}
    return [
        _masked(replace(one, allowed=one.allowed or keys.allowed(keys.at(one.loc))))
        for one in told
        if one.what != MISSING or one.loc not in meant
    ]


def _masked(problem: Problem) -> Problem:
    """Mask a value that may be a secret, wherever it was written by mistake."""
    if not any(map(may_be_secret, (*problem.loc, problem.value))):
        return problem
    # A slip such as {KEY=value} turns both into a name.
    loc = (re.sub("=.*", f"={MASK}", one) if isinstance(one, str) else one for one in problem.loc)
    nearest = problem.nearest if str(problem.nearest).startswith("pass_env: ") else None
    return replace(problem, loc=tuple(loc), value=problem.value and MASK, nearest=nearest)
