"""Launch scripts of recommendations that are made up."""

import os
import subprocess
from pathlib import Path

from msgspec import convert

from made_records import made_plan
from processes import PATIENCE_S, captured
from scaling_study.records.analysis import Confirmation, Recommendation
from scaling_study.report.launch_script import SWITCHES, render_launch_script
from scaling_study.runner.switch_script import render_switches

BASH = "/bin/bash"


def slot(number, cpus=None, policy="default"):
    return {"slot": number, "cpus": cpus, "policy": policy, "oversubscribed": False}


def recommendation(slots, env=None, label="intra_op 1", **axes):
    found = {
        "launch": "x", "label": label, "n": len(slots), "steps_per_s": 212.3, "low": 208.0,
        "high": 215.1, "models_per_hour": 1530.0, "probability_best": 0.97, "slots": slots,
        "axes": {"inter_op": "default", "launcher": "exec", **axes}, "requested_env": env or {},
    }  # fmt: skip
    return {"status": "ok", "tolerance": 0.02, "reason": None, "recommended": found}


def plan(script, args=(), study="quick", **workload):
    workload = {"script": str(script), "args": [*args], **workload}
    return made_plan({}, study=study, workload=workload)


def write(tmp_path, found, planned, name="recommended.sh"):
    workload = planned.workload.model_copy(update={"cwd": str(tmp_path)})
    planned = planned.model_copy(update={"workload": workload})
    path = tmp_path / name
    text = render_launch_script(
        convert(found, Recommendation), Confirmation(), planned, path, tmp_path / "builds"
    )
    recommended = found["recommended"]
    if switches := recommended and render_switches(recommended["axes"], "switches.py"):
        path.with_suffix(SWITCHES).write_text(switches)
    path.write_text(text, encoding="utf-8")
    subprocess.run([BASH, "-n", path], check=True)
    return path


def launched(folder, script, slots=1, args=(), *, env=None, name="recommended.sh", **axes):
    """Write the launch script of a script, a path or a text, for so many slots or for these."""
    if not isinstance(script, Path):
        (folder / "train.py").write_text(script)
        script = folder / "train.py"
    slots = list(map(slot, range(slots))) if isinstance(slots, int) else slots
    return write(folder, recommendation(slots, env, **axes), plan(script, args), name)


def run(path, *words, status=0, cwd=None, **environment):
    """Run a launch script to its end, which must have this status, with variables besides."""
    env = os.environ | environment
    done = captured([BASH, path, *words], cwd=cwd or path.parent, env=env, timeout=PATIENCE_S)
    assert done.returncode == status, done.stdout + done.stderr
    return done
