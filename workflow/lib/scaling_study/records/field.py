"""Descriptions of the fields of records: type, bounds, unit, meaning and source.

A field is declared once. Its type holds its unit and the bounds that reading checks; the text below
it gives its meaning and, after "Source:", its source. The bounds catch mistakes of unit.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

from msgspec import Meta

LARGEST_SECONDS = 10**9  # thirty years
LARGEST_COUNT = 10**15  # a petabyte, which a double still holds exactly
LARGEST_STEP_US = 2**32 - 1  # 71 minutes
LARGEST_N = 2**20  # far more processes than Linux starts (its pid_max is 2**22)
LARGEST_SHARE = 10**6  # no rate is a million times its expected value

Kind = Literal["text", "integer", "number", "yes/no"]
KINDS: dict[object, Kind] = {bool: "yes/no", int: "integer", float: "number"}
"""The kind of a column's cells, by the type of its field; text for any other type."""


@dataclass(frozen=True, slots=True)
class Field:
    """A described field of a record, or column of a table.

    Attributes:
        name: As in the record or table; ends in its unit if it has one.
        type: Type of the value, without bounds and null.
        unit: Unit as text; empty for names and flags.
        meaning: What it is.
        nullable: Whether it may be null.
        source: Where it is read, if that is not obvious.
        title: Name in words, for a number that the kernel counts.
    """

    name: str
    type: object
    unit: str
    meaning: str
    nullable: bool = False
    source: str = ""
    title: str = ""

    @property
    def kind(self) -> Kind:
        """The kind of its cells. Only a number may be missing (an empty cell)."""
        return "number" if self.nullable and self.type is int else KINDS.get(self.type, "text")


def bounds(unit: str, most: int, least: int = 0) -> Meta:
    """Return a field's unit with the smallest and largest number that it may hold."""
    return Meta(ge=least, le=most, extra={"unit": unit})


Json = dict[str, object]
Seconds = Annotated[float, bounds("s", LARGEST_SECONDS)]
CpuSeconds = Annotated[float, bounds("CPU s", LARGEST_SECONDS)]
Megahertz = Annotated[float, bounds("MHz", LARGEST_SECONDS)]
Share = Annotated[float, bounds("", 1)]
Ratio = Annotated[float, bounds("", LARGEST_SHARE)]
Amount = Annotated[float, bounds("", LARGEST_COUNT)]
Count = Annotated[int, bounds("", LARGEST_COUNT)]
Bytes = Annotated[int, bounds("bytes", LARGEST_COUNT)]
StepCount = Annotated[int, bounds("steps", LARGEST_COUNT)]
SampleCount = Annotated[int, bounds("samples", LARGEST_COUNT)]
ThreadCount = Annotated[int, bounds("threads", LARGEST_COUNT)]
ProcessCount = Annotated[int, bounds("processes", LARGEST_COUNT)]
CpuCount = Annotated[int, bounds("CPUs", LARGEST_COUNT)]
StepMicroseconds = Annotated[int, bounds("us", LARGEST_STEP_US)]
Index = Annotated[int, bounds("", LARGEST_N)]
Positive = Annotated[int, bounds("", LARGEST_N, 1)]
Processes = Annotated[int, bounds("processes", LARGEST_N, 1)]


def fields(record: type) -> dict[str, Field]:
    """Return the fields of a record by name, in order, those of its bases first."""
    described = {}
    texts: dict[str, str] = {}
    for base in reversed(record.__mro__[:-1]):
        texts |= _texts(base.__module__).get(base.__name__, {})
    for name, hint in get_type_hints(record, include_extras=True).items():
        parts = [hint, *get_args(hint)]
        known = next((part for part in parts if get_origin(part) is Annotated), None)
        metas = [meta for meta in get_args(known)[1:] if isinstance(meta, Meta)]
        meaning, _, source = texts.get(name, "").partition(" Source: ")
        described[name] = Field(
            name=name,
            type=get_args(known)[0] if known else next(p for p in parts if p is not NoneType),
            nullable=NoneType in parts,
            unit=next((meta.extra["unit"] for meta in metas if meta.extra), ""),
            meaning=meaning,
            source=source.removesuffix("."),
            title=next((meta.title for meta in metas if meta.title), ""),
        )
    return described


@cache
def _texts(module: str) -> dict[str, dict[str, str]]:
    """Return the texts below the fields of a module's classes, by class and field."""
    if not module.startswith("scaling_study."):
        return {}
    tree = ast.parse(Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8"))
    return {
        node.name: {
            ast.unparse(field.target): " ".join(str(ast.literal_eval(text.value)).split())
            for field, text in zip(node.body, node.body[1:], strict=False)
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
        }
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
