"""What the executor for SLURM says; what it does is shown on a real SLURM, in tests/slurm."""

import sys

import pytest

from processes import captured
from snakemake_executor_plugin_slurm_node import missing_outputs

WITHOUT_PLUGIN = """
import sys
sys.modules["snakemake_executor_plugin_slurm"] = None
import snakemake_executor_plugin_slurm_node
"""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cores", "1"], ""),
        (["--profile", "profiles/slurm"], "pip install snakemake-executor-plugin-slurm\n"),
    ],
)
def test_slurms_plugin_is_needed_by_those_who_use_it(options, said):
    done = captured([sys.executable, "-c", WITHOUT_PLUGIN, *options])
    assert (done.returncode, done.stderr.endswith(said)) == (int(bool(said)), True)
    assert said or not done.stderr


def test_what_a_failed_job_has_not_made_is_named_with_what_it_said_last(tmp_path):
    made, missing, log = tmp_path / "made", tmp_path / "missing", tmp_path / "log"
    made.touch()
    log.write_text("first\nit \x1b[31mfailed\nhalf a li")
    said = list(missing_outputs([str(made), str(missing)], [str(log)]))
    assert said == [f"  missing: {missing} ({log}: it \\x1b[31mfailed)"]


def test_a_job_that_has_not_begun_has_said_nothing(tmp_path):
    (said,) = missing_outputs([str(tmp_path / "missing")], [str(tmp_path / "no log")])
    assert said == f"  missing: {tmp_path / 'missing'}"
