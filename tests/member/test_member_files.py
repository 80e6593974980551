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
files.note_written("cohort", 3)
"""

LOADER = """
from torch.utils.data import DataLoader
list(DataLoader([1], num_workers=1, worker_init_fn=lambda _: open("out", "w").close()))
"""


def run(folder, script):
    """Run a script that says nothing, in a folder, and note its files there."""
    (folder / "cohort").mkdir(exist_ok=True)
    command = [sys.executable, "-c", NOTED + script]
    done = subprocess.run(command, cwd=folder, check=False, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def noted(folder, script):
    """What is noted of a script that runs in a folder, by names relative to it."""
    run(folder, script)
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
        "from torch import save; save(1, 'out', _use_new_zipfile_serialization=False)",
        "import numpy; numpy.save(open('out', 'wb'), 1)",
        "import logging; logging.basicConfig(filename='out')",
        "import os\nif os.fork(): os.wait()\nelse: open('out', 'w')",
        LOADER,
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


PICKLED = """
import builtins, functools, io, os, pickle, _io
import torch
for function in (open, functools.partial(open, "x"), os.replace, os.rename, torch.save):
    again = pickle.loads(pickle.dumps(function))
    assert again is function or again.func is open
assert builtins.open is io.open is _io.open
"""


def test_nothing_of_python_is_replaced(tmp_path):
    assert noted(tmp_path, PICKLED) == []


FAILING = """
import os, traceback
import torch
for fails in (
    lambda: open("missing/x", "w"),
    lambda: os.replace("missing/x", "y"),
    lambda: torch.save(1, "missing/x"),
    lambda: torch.save(lambda: 1, "x"),
):
    try:
        fails()
    except Exception as error:
        while error is not None:
            for frame in traceback.extract_tb(error.__traceback__):
                assert "scaling_study" not in frame.filename, frame
            error = error.__context__
    else:
        raise AssertionError("it did not fail")
"""


def test_tracebacks_have_the_scripts_frames_only(tmp_path):
    run(tmp_path, FAILING)


@pytest.mark.parametrize(
    "script",
    [
        "import os; os.symlink('/dev/full', 'cohort/written-3')",
        "import os; os.rmdir('cohort')",
        "import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
        "sys.audit('open'); sys.audit('open', 1, 2, 3); sys.audit('os.rename', None)",
        "import os; os.closerange(3, 100)",
    ],
    ids=["full disk", "no folder", "moved", "foreign events", "closed descriptors"],
)
def test_a_note_that_fails_is_not_the_scripts_error(tmp_path, script):
    run(tmp_path, f"{script}\nopen({str(tmp_path / 'out')!r}, 'w').write('1')")
    assert (tmp_path / "out").read_text() == "1"


# The last objects are deleted when even the names in `builtins` are None.
LAST = """
import builtins
class Last:
    def __init__(self, number): self.number = number
    def __del__(self, open=open):
        with open(f"out-{self.number}", "w") as file: file.write("1")
kept = Last(0)
sys.kept = Last(1)
builtins.kept = Last(2)
files.kept = Last(3)
"""


def test_files_are_written_until_the_interpreters_end(tmp_path):
    run(tmp_path, LAST)
    assert {path.read_text() for path in tmp_path.glob("out-*")} == {"1"}
    assert len(list(tmp_path.glob("out-*"))) == 4


@pytest.mark.parametrize(
    "serialization",
    ["", "_open_zipfile_writer_file = None", "class _open_zipfile_writer_file: pass"],
)
def test_a_torch_of_another_version_is_imported(tmp_path, serialization):
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("from torch import serialization")
    (package / "serialization.py").write_text(serialization)
    assert noted(tmp_path, "sys.path.insert(0, '.'); import torch; open('out', 'w')") == ["out"]


def test_a_class_that_keeps_open_makes_no_method_of_it(tmp_path):
    assert noted(tmp_path, "class One: opens = open\nOne().opens('out', 'w')") == ["out"]


def test_files_of_several_members_are_counted(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    for slot, names in enumerate((["a", "b"], ["a", "c", "a"], ["link/a", "d"], ["b"])):
        text = "".join(f"{tmp_path / name}\n" for name in names)
        (tmp_path / f"written-{slot}").write_text(text)
    assert files.shared(tmp_path) == {str(tmp_path / "a"): 3, str(tmp_path / "b"): 2}
