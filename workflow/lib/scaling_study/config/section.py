"""The base of all sections of a config, and the kinds of value in them."""

import math
import re
from collections.abc import Collection, Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    model_validator,
)

from scaling_study.common import placeholders
from scaling_study.common.problems import ConfigError, Problem, found, shorten, wrong
from scaling_study.config.mistakes import shown_key
from scaling_study.launch.axes.axis_table import AXES

T = TypeVar("T")

MOST_PROCESSES = 10_000  # far above any machine; a larger count is a slip of the keyboard
MOST_BITS = 64  # what programs read; a longer number is meant as text
PARAMETER = "a text or a number"
PARAMETERS = (
    "a section of names (a word of small letters, digits and _, a letter first) with the default of"
    " each, a text or a number"
)


class Section(BaseModel):
    """A part of the config: unknown keys are mistakes, and nothing changes once it is read.

    If there is a context, it holds the names of the study's own axes, and files that are named must
    exist. A plan that is read back, perhaps on another machine, is checked without a context.
    """

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _name_all_keys(cls, value: object) -> object:
        """Return a section with keys that are plain text, so that messages can name them."""
        if not isinstance(value, Mapping):
            return value
        return {shown_key(key): item for key, item in value.items()}


def allowed(text: str, *, unit: str = "", pattern: str | None = None) -> object:
    """Return a field that describes what a key allows, if its type does not."""
    extra = {"allowed": text} | ({"unit": unit} if unit else {})
    return Field(pattern=pattern, json_schema_extra={**extra})


def unit(text: str) -> object:
    """Return a field with the unit of a number; a key that ends in `_s` needs none."""
    return Field(json_schema_extra={"unit": text})


def must_exist(info: ValidationInfo) -> bool:
    """Return whether files are looked up on this machine."""
    return info.context is not None


def own_axes(info: ValidationInfo) -> Collection[str]:
    """Return the names of the study's own axes."""
    return info.context or ()


def distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    """Check that no value of a list repeats.

    Raises:
        ConfigError: With all that repeat.
    """
    repeated = [index for index, value in enumerate(values) if value in values[:index]]
    if repeated:
        what, right = "is given twice", "each value once"
        raise ConfigError(Problem((i,), shorten(values[i]), what, right) for i in repeated)
    return values


def or_off(value: object) -> object:
    """Return `off` for false, which is a bare `off` in YAML 1.1; else the value itself."""
    return "off" if value is False else value


Off = Annotated[
    Literal["off"], BeforeValidator(or_off, json_schema_input_type=Literal["off", False])
]
Count = Annotated[int, Field(ge=1, le=MOST_PROCESSES)]
Items = Annotated[tuple[T, ...], Field(strict=False), AfterValidator(distinct)]
Counts = Items[Count]
Steps = Annotated[int, Field(ge=1), unit("steps")]
Seconds = Annotated[float, Field(gt=0, le=3600)]
Effort = Annotated[
    Literal["quick", "full", "off"],
    BeforeValidator(or_off, json_schema_input_type=Literal["quick", "full", "off", False]),
]
Targets = Annotated[
    Items[str],
    allowed("a list of baseline, default, today, recommended, or labels of launches; [] for none"),
]


def read_parameter(item: object) -> str | int | float:
    """Read a value of one of the study's own axes.

    Raises:
        ConfigError: It is no text or number that can be passed to a process.
    """
    infinite = isinstance(item, float) and not math.isfinite(item)
    if isinstance(item, bool) or not isinstance(item, str | int | float) or infinite:
        raise wrong(item, found(item), PARAMETER)
    if isinstance(item, int) and item.bit_length() > MOST_BITS:
        raise wrong(item, "is too large", f"a text, or a number of at most {MOST_BITS} bits")
    if re.search("[\0\ud800-\udfff]", str(item)):
        raise wrong(item, "cannot be passed to a process", "text without NUL and lone surrogates")
    return item


def _read_text(item: object) -> str:
    """Read an argument or a variable's value; a number stands for its text."""
    return str(read_parameter(item))


def _read_parameter_name(name: str) -> str:
    if name in AXES or name == placeholders.MEMBER:
        what = "the slot number" if name == placeholders.MEMBER else "an axis"
        raise wrong(name, f"has the name of {what}", "another name", f"own_{name}")
    return name


def _read_variable(name: str) -> str:
    owners = [axis for axis, one in AXES.items() if name in one.variables]
    if owners:
        axis = owners[-1]
        what, right = f"belongs to the axis {axis}", "variables that no axis sets"
        raise wrong(name, what, right, f"launches.baseline.{axis}")
    return name


_GIVEN = str | int | float
Parameter = Annotated[
    _GIVEN, PlainValidator(read_parameter, json_schema_input_type=_GIVEN), allowed(PARAMETER)
]
Text = Annotated[str, PlainValidator(_read_text, json_schema_input_type=_GIVEN), allowed(PARAMETER)]
ParameterName = Annotated[
    str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$"), AfterValidator(_read_parameter_name)
]
Variable = Annotated[
    str,
    AfterValidator(_read_variable),
    allowed("the name of a variable", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"),
]
