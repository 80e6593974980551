import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from scaling_study.common import storage
from scaling_study.records.columns import REPLICATES


@pytest.fixture
def frame():
    return REPLICATES.frame(
        pd.DataFrame(
            {
                "machine": ["a", "a"],
                "launch": ['ü, quoted " and\nbroken', "b"],
                "label": ["x", "y"],
                "role": ["grid", "grid"],
                "n": [1, 2],
                "replicate": [0, 0],
                "windows": [3, 3],
                "steps_per_s": [1 / 3, np.nan],
                "step_s": [3.0, np.nan],
                "drift": [1.0, np.nan],
                "non_step_share": [0.0, np.nan],
                "start_s": [6.5, np.nan],
                "models_per_hour": [2.4, np.nan],
            },
        ),
    )


def test_a_table_comes_back_as_it_was(tmp_path, frame):
    storage.write_table(tmp_path / "tables", REPLICATES, frame)
    pd.testing.assert_frame_equal(storage.read_table(tmp_path / "tables", REPLICATES), frame)
    pd.testing.assert_frame_equal(
        REPLICATES.frame(pd.read_csv(tmp_path / "tables" / "replicates.csv")),
        frame,
        check_exact=True,
    )


def test_parquet_tells_units_and_meanings(tmp_path, frame):
    storage.write_table(tmp_path, REPLICATES, frame)
    field = parquet.read_schema(tmp_path / "replicates.parquet").field("steps_per_s")
    assert field.metadata[b"unit"] == b"steps/s"
    assert b"iterations over all active time" in field.metadata[b"meaning"]


def test_a_missing_number_is_an_empty_cell(tmp_path, frame):
    storage.write_table(tmp_path, REPLICATES, frame)
    assert (tmp_path / "replicates.csv").read_text().rstrip().endswith(",3,,,,,,")


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
