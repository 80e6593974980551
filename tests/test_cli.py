"""The command line: one subcommand for each stage."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scaling_study import cli
from scaling_study.common import file_errors


@pytest.mark.parametrize(
    "module",
    ["runner.measure", "confirm.confirm", "profiling.profile_launch", "experiments.why",
     "study.run"],
)  # fmt: skip
def test_measuring_loads_neither_tables_nor_figures(module):
    heavy = {"pandas", "scipy", "matplotlib"}
    code = f"import sys, scaling_study.{module}; print({heavy} & {{*sys.modules}})"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"


def test_the_log_has_the_traceback_that_the_terminal_does_not_show(tmp_path, capsys):
    log = tmp_path / "analyse.log"
    told = file_errors.told("analyse", reads="plan.json")
    with pytest.raises(SystemExit), cli._written(log), told:
        raise KeyError("launch")
    assert "KeyError: 'launch'" in log.read_text()
    assert "Traceback" in log.read_text()
    assert "Traceback" not in capsys.readouterr().err


def test_a_full_disk_of_the_log_hides_no_message(capsys):
    with (
        pytest.raises(SystemExit),
        cli._written(Path("/dev/full")),
        file_errors.told("decide", reads="plan.json"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "rounds/1.json")
    said = capsys.readouterr().err
    assert "No space left on device: make room there" in said
    assert "Traceback" not in said
