"""A real study, recorded once: its tables and analyses are made anew from its records, and equal.

tests/data/recorded.tar.xz is the folder of a study of tests/workloads/loader_workers.py (race,
confirmation, profiles with calls, why and data loader) on two CPUs, without what is drawn. A change
that is meant to change a result records it anew, and says in its message what became different.
"""

import shutil

import pandas as pd
import pytest

import rendering
from scaling_study.records.codec import read_file
from scaling_study.study import stages

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


# ---- a study that was stopped: what its records show, predicted


@pytest.fixture
def stopped(tmp_path):
    """The recorded study as it was before its race had ended: one start was being measured."""
    folder = rendering.unpack_recorded(tmp_path)
    for name in ("tables", "analysis", "confirm", "why", "profile", "data_loader", "rounds"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "searched.json").unlink()
    return folder


def test_the_records_of_a_stopped_study_give_a_report(stopped, tmp_path):
    whole = sorted(stopped.glob("measure/*/*.jsonl"))
    cut = whole[-1].with_name(f"{whole[-1].name}.part")
    whole[-1].rename(cut)
    cut.write_bytes(cut.read_bytes()[:-20])  # in the middle of a line
    page = tmp_path / "so-far.html"
    said = stages.report_so_far(stopped, page)
    assert "predicted" in said
    assert f"Report: {page}" in said
    assert f"bash {stopped}/so_far/launch/recommended.sh" in said
    assert (stopped / "so_far/launch/recommended.sh").exists()
    assert "predicted, not confirmed" in page.read_text()
    assert not (stopped / "analysis").exists()  # the study goes on as if nothing were there
    assert stages.report_so_far(stopped, page) == said


def test_without_a_window_nothing_is_known(stopped, tmp_path):
    shutil.rmtree(stopped / "measure")
    page = tmp_path / "so-far.html"
    assert stages.report_so_far(stopped, page) == ""
    assert not page.exists()
