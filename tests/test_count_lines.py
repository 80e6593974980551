"""Lines of code: what counts, and that a command shows them by folder."""

import runpy
import sys

from jobs import ROOT

SCRIPT = ROOT / "scripts/count_lines.py"
SOURCE = '''"""A module."""

import os  # for its path

# A comment.
TEXT = """of
two lines"""


def f():
    """Say what it does,
    in two lines."""
    return (
        os.path
    )
'''


def test_comments_docstrings_and_blank_lines_do_not_count():
    counted = runpy.run_path(str(SCRIPT))
    assert counted["python_lines"](SOURCE) == 7
    assert counted["text_lines"]("# a\n\nb: 1  # c\n", "#") == 1


def test_a_command_shows_them_by_folder(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(ROOT / "scripts")])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["Python", "scripts/workloads"] in [row[-2:] for row in rows]
