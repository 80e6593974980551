"""The report of a study that was stopped: what its records show, predicted."""

import shutil
import tarfile

import pytest

from configs import ROOT
from scaling_study.study import stages


@pytest.fixture
def stopped(tmp_path):
    """The recorded study as it was before its race had ended: one start was being measured."""
    with tarfile.open(ROOT / "tests/data/recorded.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    folder = tmp_path / "recorded"
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
