from typing import get_args

import pytest

from scaling_study.records import columns, confirmation, experiment, window
from scaling_study.records.field import fields


@pytest.mark.parametrize("union", [window.Record, experiment.WhyRecord, experiment.LoaderRecord,
                                   confirmation.Record])  # fmt: skip
def test_every_field_of_a_record_has_a_meaning(union):
    for record in get_args(union):
        for field in fields(record).values():
            assert field.name == "schema_version" or field.meaning.endswith((".", ")")), field


@pytest.mark.parametrize("table", columns.TABLES, ids=lambda table: table.name)
def test_columns_of_a_table_have_names_of_their_own(table):
    assert len(set(table.names)) == len(table.names)
