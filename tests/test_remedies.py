"""Commands that a person pastes do in any shell what was measured."""

import json
import subprocess
import sys

import pytest

from scaling_study.diagnosis.remedies import TUNING, start_command
from scaling_study.launch.axes.axis_table import AXES
from scaling_study.runner.environment import INHERITED

OWNED = {name for axis in AXES.values() for name in axis.variables}
TELL = "import json, os; print(json.dumps(dict(os.environ)))"


@pytest.mark.parametrize(
    "sets",
    [
        {},
        {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"},
        {"LD_PRELOAD": "", "MALLOC_TRIM_THRESHOLD_": "1 $HOME; 'it'"},
    ],
)
def test_nothing_that_the_shell_exports_changes_what_is_started(sets, tmp_path):
    (tmp_path / "train.py").write_text(TELL)
    (tmp_path / "python").symlink_to(sys.executable)
    exported = dict.fromkeys(OWNED - {"LD_PRELOAD"}, "the shell's") | dict.fromkeys(TUNING, "1")
    done = subprocess.run(
        ["/bin/sh", "-c", start_command(sets)],
        cwd=tmp_path,
        env={**exported, "PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": "/root"},
        capture_output=True,
        text=True,
        check=True,
    )
    got = json.loads(done.stdout)
    assert {name: got[name] for name in got if name in {*OWNED, *TUNING}} == sets
    assert got["HOME"] == "/root"


def test_what_is_unset_is_what_members_do_not_inherit():
    assert not {*OWNED, *TUNING} & set(INHERITED)
    assert not OWNED & set(TUNING)


def test_it_is_readable():
    lines = start_command({"OMP_NUM_THREADS": "1"}).split("\n")
    assert lines[0].startswith("env -u ")
    assert lines[-1] == "  OMP_NUM_THREADS=1 python train.py"
    assert all(len(line) <= 82 for line in lines)
    assert "-u OPENBLAS_CORETYPE" in " ".join(lines)
    assert "-u OMP_NUM_THREADS" not in " ".join(lines)
