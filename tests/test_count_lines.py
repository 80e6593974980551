"""Lines of code: what counts."""

import runpy

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
