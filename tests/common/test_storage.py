import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from scaling_study.common import storage
from scaling_study.records import tables
from scaling_study.records.field import Field

TABLE = tables.Table(
    "rates",
    "a launch",
    (
        Field("launch", str, "", "The launch."),
        Field("n", int, "processes", "Processes that train."),
        Field("steps_per_s", float, "steps/s", "Rate of all of them."),
    ),
)
FRAME = TABLE.frame(
    pd.DataFrame(
        {"launch": ['ü, quoted " and\nbroken', "b"], "n": [1, 2], "steps_per_s": [1 / 3, np.nan]}
    )
)


def test_a_table_comes_back_as_it_was_with_units_and_meanings(tmp_path):
    tables.write_table(tmp_path / "tables", TABLE, FRAME)
    pd.testing.assert_frame_equal(tables.read_table(tmp_path / "tables", TABLE), FRAME)
    read = TABLE.frame(pd.read_csv(tmp_path / "tables/rates.csv"))
    pd.testing.assert_frame_equal(read, FRAME, check_exact=True)
    assert (tmp_path / "tables/rates.csv").read_text().endswith('"b",2,\n')
    field = parquet.read_schema(tmp_path / "tables/rates.parquet").field("steps_per_s")
    assert field.metadata[b"unit"] == b"steps/s"
    assert field.metadata[b"meaning"] == b"Rate of all of them."


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "out.json"
    path.write_text("whole")

    def fail(beside):
        beside.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        storage.write_whole(path, fail)
    assert path.read_text() == "whole"
    assert [each.name for each in tmp_path.iterdir()] == ["out.json"]
