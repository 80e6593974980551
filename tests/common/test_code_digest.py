"""A change that measures nothing does not measure anew."""

import subprocess
import sys
from pathlib import Path

import pytest

from scaling_study.common import code_digest
from scaling_study.runner import jobs

TEXT = '''"""A module."""

import os  # what for


def f(x):
    """What it does.

    More.
    """
    # Why so.
    text = "# no comment"
    return text, x


LIMIT = 3
"""Of what."""


class Empty:
    """Only a docstring."""
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("# Why so.", "# For another reason: é.", True),
        ("What it does.", "Something else.", True),
        ("\n\n\nLIMIT", "\nLIMIT", True),
        ("LIMIT = 3", "LIMIT = 4", False),
        ("Only a docstring.", "Another one.", True),  # in place of code
        ("# no comment", "# a comment", False),
    ],
)
def test_only_what_runs_counts(old, new, same):
    changed = TEXT.replace(old, new)
    assert changed != TEXT
    assert (code_digest.code(changed) == code_digest.code(TEXT)) is same


def test_a_folder_stands_for_all_its_modules(monkeypatch, tmp_path):
    for name in ("a", "more/b", "more/c", "d"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text("")
    monkeypatch.setattr(code_digest, "FOLDER", tmp_path)
    found = code_digest.files("more", "a")
    assert [str(path.relative_to(tmp_path)) for path in found] == ["a.py", "more/b.py", "more/c.py"]


def test_it_is_the_same_with_every_python():
    others = sorted(Path("~/.pyenv/versions").expanduser().glob("3.1[1-9].*/bin/python"))
    if not others:
        pytest.skip("there is one Python here")
    show = "import runpy, sys; print(runpy.run_path(sys.argv[1])['of_modules'](*sys.argv[2:]))"
    digests = {
        subprocess.check_output([python, "-c", show, code_digest.__file__, *jobs.MEASURING])
        for python in (sys.executable, *others)
    }
    assert len(digests) == 1
