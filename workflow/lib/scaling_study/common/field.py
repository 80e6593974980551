"""The description of a field of a record, and of a column of a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "integer", "number", "yes/no"]
KINDS: Mapping[object, Kind] = {bool: "yes/no", int: "integer", float: "number"}
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
