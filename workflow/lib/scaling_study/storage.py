"""Writing and reading a study's tables and JSON files, each whole or not at all."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import csv, parquet

from scaling_study.columns import Table


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path` and rename it there: no reader sees half a file.

    Args:
        path: The file; its folder is made when missing.
        write: Given the path to write to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        beside = Path(folder) / path.name
        write(beside)
        beside.replace(path)


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


def read_table(folder: Path, table: Table) -> pd.DataFrame:
    """Read the parquet that `write_table` wrote to `folder`."""
    return table.frame(pd.read_parquet(folder / f"{table.name}.parquet"))


def write_json(path: Path, content: object) -> None:
    """Write `content` as indented JSON; a NaN in it is an error."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
