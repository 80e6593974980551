"""Which files a process writes, and which of them several do."""

import subprocess
import sys
from pathlib import Path

import pytest

from jobs import ROOT
from scaling_study.member import files

NOTED = f"""
import sys
sys.path.insert(0, {str(ROOT / "workflow/lib")!r})
from pathlib import Path
from scaling_study.member import files
files.note_written(Path("cohort"), 3)
"""


def noted(folder, script):
    """What is noted of a script that runs in a folder, by names relative to it."""
    (folder / "cohort").mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-c", NOTED + script], cwd=folder, check=True)
    log = folder / "cohort/written-3"
    paths = map(Path, log.read_text().splitlines() if log.exists() else [])
    return [str(path.relative_to(folder)) if folder in path.parents else path for path in paths]


@pytest.mark.parametrize(
    "script",
    [
        "open('out', 'w')",
        "open('out', mode='xb')",
        "open('out', 'a')",
        "Path('out').write_text('1'); open('out', 'r+')",
        "import io, os; io.open(os.path.abspath('out').encode(), 'wb')",
        "Path('was').mkdir(); Path('was').rename('out')",
        "import os, pathlib; os.mkdir('was'); os.replace('was', pathlib.Path('out'))",
        "from torch import save as s; import io; s(1, io.BytesIO()); s(1, 'out'); s(1, f='out')",
        "import numpy; numpy.save(open('out', 'wb'), 1)",
        "import logging; logging.basicConfig(filename='out')",
        "import os\nif os.fork(): os.wait()\nelse: open('out', 'w')",
    ],
)
def test_what_is_written_is_noted_once(tmp_path, script):
    assert noted(tmp_path, script) == ["out"]


@pytest.mark.parametrize(
    "script",
    [
        "Path('out').touch(); open('out'); open('out', 'rb').close()",
        "open('/dev/null', 'w')",
        "import tempfile; tempfile.NamedTemporaryFile(dir='.'); tempfile.TemporaryFile(dir='.')",
        "open('cohort/own', 'w')",
        "Path('.cache/a').mkdir(parents=True); open('.cache/a/b', 'w')",
        "import os; open(os.open('out', os.O_WRONLY | os.O_CREAT), 'w')",
    ],
)
def test_what_is_read_or_nobodys_output_is_not_noted(tmp_path, script):
    assert noted(tmp_path, script) == []


def test_errors_are_those_of_the_function_itself(tmp_path):
    script = (
        "for wrong in (lambda: open(), lambda: open('out', 1), lambda: open('no/out', 'w')):\n"
        "    try: wrong()\n"
        "    except (TypeError, FileNotFoundError) as error: print(error, file=open('told', 'a'))\n"
    )
    assert noted(tmp_path, script) == ["told", "no/out"]
    told = (tmp_path / "told").read_text()
    assert "open() missing required argument 'file'" in told
    assert "argument 'mode' must be str, not int" in told
    assert "No such file or directory: 'no/out'" in told


def test_a_class_that_keeps_open_makes_no_method_of_it(tmp_path):
    assert noted(tmp_path, "class One: opens = open\nOne().opens('out', 'w')") == ["out"]


def test_files_of_several_members_are_counted(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    for slot, names in enumerate((["a", "b"], ["a", "c", "a"], ["link/a", "d"], ["b"])):
        text = "".join(f"{tmp_path / name}\n" for name in names)
        (tmp_path / f"written-{slot}").write_text(text)
    assert files.shared(tmp_path) == {str(tmp_path / "a"): 3, str(tmp_path / "b"): 2}
