"""A change that measures nothing does not measure anew."""

import subprocess
import sys
from pathlib import Path

import pytest

from scaling_study.common import code_digest
from scaling_study.runner import measure

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
    assert (code_digest.read(changed).code == code_digest.read(TEXT).code) is same


def test_it_covers_what_measuring_imports_and_nothing_that_reports():
    modules = code_digest.imported(*measure.HARNESS)
    assert {"runner/cohort", "member/worker", "member/profiled", "launch/axes/axis"} <= {*modules}
    assert {"host/perf_events", "common/topology", "member/hook/sitecustomize"} <= {*modules}
    folders = {name.partition("/")[0] for name in modules}
    assert not folders & {"report", "analysis", "diagnosis", "search", "confirm", "experiments"}


def test_an_import_for_types_only_does_not_count(monkeypatch, tmp_path):
    (tmp_path / "a.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from scaling_study import b\n"
        "def f():\n    from scaling_study.c import d\n"
    )
    for name in "bc":
        (tmp_path / f"{name}.py").write_text("")
    monkeypatch.setattr(code_digest, "FOLDER", tmp_path)
    code_digest._module.cache_clear()
    assert code_digest.imported("a") == ["a", "c"]
    code_digest._module.cache_clear()


def test_it_is_the_same_with_every_python():
    others = sorted(Path("~/.pyenv/versions").expanduser().glob("3.1[1-9].*/bin/python"))
    if not others:
        pytest.skip("there is one Python here")
    show = "import runpy, sys; print(runpy.run_path(sys.argv[1])['of_modules'](*sys.argv[2:]))"
    digests = {
        subprocess.check_output([python, "-c", show, code_digest.__file__, *measure.HARNESS])
        for python in (sys.executable, *others)
    }
    assert len(digests) == 1
