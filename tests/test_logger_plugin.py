"""What Snakemake's logger plugin shows of a run, on a terminal and elsewhere."""

import logging
import sys
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest
from snakemake.settings.types import OutputSettings, Quietness
from snakemake_interface_logger_plugins.common import LogEvent

from scaling_study.study.snakemake_adapter import user_text
from snakemake_logger_plugin_study import CLEAR, LogHandler, LogHandlerSettings

JOB = {"jobid": 7, "rule_name": "measure", "log": ["logs/0.log"], "output": ["0.jsonl"]}


def watched(line=lambda width: f"one of {width}"):
    """The progress of a run, which writes its line so."""
    return Mock(line=line, end=lambda _: "measure: done in 5 s")


@pytest.fixture
def terminal(monkeypatch, capsys):
    """Whether the streams are a terminal is the test's to say."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda _: True)
    return capsys


def handler(**common):
    common = OutputSettings(quiet={Quietness.RULES}, **common)
    shown = LogHandler(common, LogHandlerSettings(verbose=False))
    shown.user_text = user_text
    return shown


def send(to, text, level=logging.INFO, **more):
    record = logging.LogRecord("snakemake.logging", level, "", 0, text, None, None)
    vars(record).update(more)
    to.handle(record)


def test_a_user_sees_what_there_is_to_know_and_not_snakemakes_own_steps(capsys):
    shown = handler()
    for text in (
        "Building DAG of jobs...", "Select jobs to execute...",
        "Touching output file 0.done.", "Updating checkpoint dependencies.",
        "Complete log(s): /a.log", "Elapsed time: 0:00:01",
        "Nothing to be done (all requested files are present and up to date).",
    ):  # fmt: skip
        send(shown, text)
    send(shown, "the disk is full", logging.ERROR)
    send(shown, "three launches", study_says=True)
    out, err = capsys.readouterr()
    assert out == "three launches\n"
    nothing, full = err.splitlines()
    assert nothing.startswith("Nothing to be done")
    assert full == "the disk is full"


def test_a_mistake_of_the_users_stands_alone(capsys):
    text = "StudyError:\nstudy = 'a/b': is not allowed"
    send(handler(), text, logging.ERROR, event=LogEvent.ERROR, exception="StudyError")
    assert capsys.readouterr().err == "study = 'a/b': is not allowed\n"


def test_a_job_that_fails_is_named_with_its_log_and_without_its_command(capsys):
    shown = handler()
    shown.watch(watched())
    send(shown, "info", event=LogEvent.JOB_INFO, **JOB)
    command = "RuleException:\nCalledProcessError in file x, line 3:\nCommand 'python …'"
    send(shown, command, logging.ERROR, event=LogEvent.ERROR)
    for _ in range(2):
        send(shown, "error", logging.ERROR, event=LogEvent.JOB_ERROR, **JOB)
    assert capsys.readouterr().err == (
        "measure failed, so 0.jsonl is missing; its log: logs/0.log\n"
    )


def test_jobs_that_were_stopped_have_not_failed(capsys):
    shown = handler()
    shown.stopping = True
    send(shown, "error", logging.ERROR, event=LogEvent.JOB_ERROR, **JOB)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_one_line_of_its_width(terminal):
    shown = handler()
    shown.watch(watched())
    send(shown, "info", event=LogEvent.JOB_INFO, **JOB)
    send(shown, "three launches", study_says=True)
    shown.close()
    out, err = terminal.readouterr()
    assert out == "three launches\n"
    assert "\n" not in err
    drawn = err.split(CLEAR)
    assert drawn[-1] == ""  # the terminal is left as it was
    assert drawn[1] == "one of 79"


def test_the_line_is_drawn_when_a_job_has_something_to_say_and_not_before(terminal):
    drawing = handler()
    drawn = threading.Event()
    pipe = drawing.watch(watched(lambda _: drawn.set() or "a window ended"))
    assert not drawn.is_set()
    Path(pipe).write_bytes(b".")
    assert drawn.wait(60)
    drawing.close()
