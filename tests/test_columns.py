from pathlib import Path

import pandas as pd
import pytest

from scaling_study.common import columns

DOCUMENTATION = Path(__file__).parent.parent / "docs" / "columns.md"


def test_the_documentation_is_what_the_module_prints():
    assert DOCUMENTATION.read_text(encoding="utf-8") == columns.markdown()


@pytest.mark.parametrize("table", columns.TABLES, ids=lambda table: table.name)
def test_every_column_has_a_meaning_and_a_unit_that_fits_its_name(table):
    assert len(set(table.names)) == len(table.names)
    units = {"_per_step": ("s", "1/step"), "_s": ("s",), "_bytes": ("bytes",), "_mhz": ("MHz",)}
    for column in table.columns:
        assert column.meaning.endswith(".")
        name = column.name.removesuffix("_low").removesuffix("_high")
        for ending, allowed in units.items():
            if name.endswith(ending) and not name.endswith("_per_s"):
                assert column.unit.removeprefix("CPU ") in allowed, column
                break


@pytest.mark.parametrize("table", columns.TABLES, ids=lambda table: table.name)
def test_an_empty_table_has_all_columns_with_their_types(table):
    frame = table.frame()
    assert frame.empty
    assert frame.columns.tolist() == table.names
    assert frame["n"].dtype == "int64"
    assert {"int64", "float64"} <= {str(kind) for kind in frame.dtypes}


def test_a_missing_column_is_an_error():
    with pytest.raises(KeyError):
        columns.REPLICATES.frame(pd.DataFrame({"machine": ["a"]}))
