"""Tables of a study: their columns, and their files as parquet and CSV."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyarrow import csv, parquet

from scaling_study.common import file_errors
from scaling_study.common.storage import write_whole
from scaling_study.records.field import Field, Kind

PANDAS_TYPES: dict[Kind, str] = {
    "text": "str",
    "integer": "int64",
    "number": "float64",
    "yes/no": "bool",
}


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a study.

    Attributes:
        name: File name in tables/, without its ending.
        row: What one row is.
        columns: In the order of the files.
    """

    name: str
    row: str
    columns: tuple[Field, ...]

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return [*self.types]

    @property
    def types(self) -> dict[str, str]:
        """The type of each column in pandas, by its name."""
        return {column.name: PANDAS_TYPES[column.kind] for column in self.columns}

    def frame(self, data: pd.DataFrame | None = None) -> pd.DataFrame:
        """Return the table's columns of `data`, ordered and typed; an empty frame without data."""
        if data is None:
            data = pd.DataFrame(columns=self.names)
        return data[self.names].astype(self.types)


def write_table(folder: Path, table: Table, frame: pd.DataFrame) -> None:
    """Write `frame` as parquet and CSV, units and meanings in the parquet's field metadata.

    Args:
        folder: Where `<table name>.parquet` and `.csv` go.
        table: What the frame holds.
        frame: As `table.frame` returns it.
    """
    data = pa.Table.from_pandas(frame, preserve_index=False)
    fields = [
        field.with_metadata({"unit": column.unit, "meaning": column.meaning})
        for field, column in zip(data.schema, table.columns, strict=True)
    ]
    data = data.cast(pa.schema(fields, metadata=data.schema.metadata))
    write_whole(folder / f"{table.name}.parquet", lambda path: parquet.write_table(data, path))
    write_whole(folder / f"{table.name}.csv", lambda path: csv.write_csv(data, path))


def read_table(folder: Path, table: Table, names: Sequence[str] = ()) -> pd.DataFrame:
    """Read the parquet that `write_table` wrote to `folder`, in the table's types.

    Args:
        folder: Where it is.
        table: What it holds.
        names: The columns to read; without names, all of them.

    Raises:
        UnusableError: The file is damaged, or holds values of other types.
    """
    path = folder / f"{table.name}.parquet"
    types = {name: table.types[name] for name in names or table.names}
    try:
        # The file's metadata for pandas is dropped: it may name any type.
        data = parquet.read_table(path, columns=[*types]).replace_schema_metadata()
        frame: pd.DataFrame = data.to_pandas()[[*types]].astype(types)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise file_errors.unreadable(path, error) from error
    return frame
