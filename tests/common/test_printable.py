"""Why a program ended, by what it printed: real output of real programs."""

import re

import pytest

from configs import ROOT
from scaling_study.common.printable import last_words

# Standard error of programs, each with the words that say why it ended.
TEXT = (ROOT / "tests/data/last_words.txt").read_text(encoding="utf-8")
CASES = re.findall(r"(.*?\n)=> ([^\n]*)\n+", TEXT, re.DOTALL)
CHAINED, REASON = CASES[0]
BAR = "Epoch 1:  10%|#  | 3/30 [00:01<00:09]\rEpoch 1:  13%|#  | 4/30 [00:01<00:09]"


@pytest.mark.parametrize(
    ("stderr", "expected"),
    [
        *CASES,
        # After a bar of tqdm, on its line.
        (BAR + CHAINED, REASON),
        (BAR, "Epoch 1: 13%|# | 4/30 [00:01<00:09]"),
        ("Killed\n", "Killed"),
        ("no data is left\n\n", "no data is left"),
        ("\x1b[31mValueError: red\x1b[0m\n", "ValueError: red"),
    ],
)
def test_the_last_words_are_the_reason(stderr, expected):
    assert last_words(stderr, "SPS: 4510\n" * 50) == expected


@pytest.mark.parametrize(
    ("stderr", "stdout", "expected"),
    [
        ("", "step 1\nno GPU is here\n\n", "no GPU is here"),
        ("/a/b.py:3: UserWarning: old\n  warn('old')\n", "no GPU is here\n", "no GPU is here"),
        ("", "", ""),
        (" \n", "\n", ""),
    ],
)
def test_where_stderr_has_no_words_stdout_has(stderr, stdout, expected):
    assert last_words(stderr, stdout) == expected


def test_a_traceback_that_began_before_what_is_known_ends_with_its_exception():
    assert last_words(CHAINED[-60:]) == REASON == "FileNotFoundError: /data/train.parquet"
