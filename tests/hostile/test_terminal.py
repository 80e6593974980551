"""What reaches a terminal or a log: one line each, with nothing in it that a terminal obeys."""

import subprocess
import sys

import pytest

import texts
from scaling_study.common.printable import printable, printable_lines
from scaling_study.config.launches import label
from scaling_study.report.launch_script import one_line

SCRIPT = """
import logging, sys
from pathlib import Path
from scaling_study.runner import job_process
title, *messages = sys.argv[1:]
with job_process.prepared(title, Path("log")):
    for message in messages:
        logging.getLogger("measure").info("%s", message)
        logging.getLogger("measure").info(message)
"""


@pytest.mark.parametrize("name", texts.ALL)
def test_any_text_is_one_plain_line(name):
    text = texts.ALL[name]
    assert printable(text).isprintable()
    assert label({"allocator": text}) == f"allocator {printable(text)}"
    assert one_line(text).isprintable()
    if text.isprintable():
        assert printable(text) == text


def test_what_is_escaped_reads_as_python_writes_it():
    assert (
        printable("a\x1b[2J\nb\u202e\ud800\x9bé עב😀") == "a\\x1b[2J\\nb\\u202e\\ud800\\x9bé עב😀"
    )
    assert printable_lines("a\nb\x1b\n") == "a\nb\\x1b\n"


def test_a_job_logs_plain_lines(tmp_path):
    known = [text for name, text in texts.ALL.items() if name != "long"]
    title = "".join(known)
    command = [sys.executable, "-c", SCRIPT, title, *known]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    expected = "".join(f"{printable(title)}: {printable(text)}\n" * 2 for text in known)
    assert (tmp_path / "log").read_text() == done.stderr.decode() == expected
