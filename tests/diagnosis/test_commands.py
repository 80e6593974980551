"""Commands that a person pastes set what was measured."""

import json
import subprocess
import sys

import pytest

from scaling_study.diagnosis.verdict import start_command


@pytest.mark.parametrize(
    "sets",
    [
        {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"},
        {"LD_PRELOAD": "", "MALLOC_TRIM_THRESHOLD_": "1 $HOME; 'it'"},
    ],
)
def test_a_pasted_command_starts_the_script_with_these_variables(sets, tmp_path):
    (tmp_path / "train.py").write_text("import json, os; print(json.dumps(dict(os.environ)))")
    (tmp_path / "python").symlink_to(sys.executable)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": "/root", "OMP_NUM_THREADS": "64"}
    words = ["/bin/sh", "-c", f"{start_command(sets)}; python train.py"]
    got = json.loads(subprocess.check_output(words, cwd=tmp_path, env=env, text=True))
    assert {name: got[name] for name in sets} == sets
    assert got["HOME"] == "/root"
