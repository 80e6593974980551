"""A real study, recorded once: its tables and analyses are made anew from its records, and equal.

tests/data/recorded.tar.xz is the folder of a study of tests/workloads/loader_workers.py (race,
confirmation, profiles with calls, why and data loader) on two CPUs, without what is drawn. A change
that is meant to change a result records it anew, and says in its message what became different.
"""

import pandas as pd
import pytest

import rendering
from scaling_study.records.codec import read_file

TABLES = ("windows", "replicates", "between", "points", "operators", "experiments")
ANALYSES = (
    "readback", "causes", "confirmation", "failures", "data_loader", "inflation", "noise", "pareto",
    "provenance", "recommendation", "scaling", "single_changes",
)  # fmt: skip

WORDS = {"text", "title", "command", "reason"}
"""Keys of what is said, which tests/data/golden holds; here stands what was found."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The study as it was, and as it is now."""
    return rendering.remake_recorded(tmp_path_factory.mktemp("recorded"))


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_equal(folders, name):
    before, now = (pd.read_csv(folder / f"tables/{name}.csv") for folder in folders)
    pd.testing.assert_frame_equal(before, now, rtol=1e-9)


@pytest.mark.parametrize("name", ANALYSES)
def test_analyses_are_equal(folders, name):
    before, now = (read_file(folder / f"analysis/{name}.json", object) for folder in folders)
    assert approximately(now) == approximately(before)


def approximately(value):
    """Numbers to nine digits: another processor's sums may differ in the last ones.

    Null, and what a record leaves out because it is empty, are the same.
    """
    if isinstance(value, dict):
        known = {key: approximately(item) for key, item in value.items() if key not in WORDS}
        return {key: item for key, item in known.items() if item not in (None, [], {}, "")}
    if isinstance(value, list):
        return [approximately(item) for item in value]
    return pytest.approx(value, rel=1e-9, nan_ok=True) if isinstance(value, float) else value


def test_all_cohorts_are_there(folders):
    before, now = (folder / "tables/cohorts.json" for folder in folders)
    assert approximately(read_file(now, object)) == approximately(read_file(before, object))
