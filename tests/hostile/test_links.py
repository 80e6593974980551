"""Links in a study's folder that lead out of it: nothing is written through them."""

import pytest

from scaling_study.common.file_errors import UnusableError
from scaling_study.study.run import StudyLock


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_text("mine")
    return folder


@pytest.mark.parametrize(
    ("link", "target"),
    [
        (".lock", "file"),
        ("logs/render.log", "file"),
        ("tables", "."),
        ("measure/launch/0.jsonl.part", "file"),
        ("launch/recommended.sh", "none"),
        ("analysis/deep/er", "../../../etc/passwd"),
    ],
)
def test_a_link_that_leads_out_is_refused(tmp_path, outside, link, target):
    study = tmp_path / "results/study"
    path = study / link
    path.parent.mkdir(parents=True)
    path.symlink_to(outside / target)
    with pytest.raises(UnusableError) as caught:
        StudyLock(study)
    assert str(path) in str(caught.value)
    assert "delete the link" in str(caught.value)
    assert (outside / "file").read_text() == "mine"
    assert [entry.name for entry in outside.iterdir()] == ["file"]


def test_links_that_stay_inside_and_a_linked_folder_are_a_users_own(tmp_path):
    disk = tmp_path / "large disk/study"
    disk.mkdir(parents=True)
    (disk / "file").touch()
    (disk / "same").symlink_to("file")
    (disk / "round").symlink_to("round")
    study = tmp_path / "results"
    study.symlink_to(disk)
    StudyLock(study)
    assert (disk / ".lock").exists()
