"""Lines of code: what counts, and that a command shows them by folder."""

import runpy
import subprocess
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


def test_a_command_shows_them_by_folder():
    done = subprocess.run(
        [sys.executable, SCRIPT, ROOT / "scripts"], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["Python", "scripts/workloads"] in [row[-2:] for row in rows]
    total = sum(int(row[0].replace(",", "")) for row in rows if "files" in row and "Python" in row)
    assert [f"{total:,}", "Python", "the", "project"] in rows
