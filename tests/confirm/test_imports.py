"""How long imports take, as Python says it."""

import json
import os
import sys

from scaling_study.confirm import imports
from scaling_study.launch.launchers.launcher import Launch, Member
from scaling_study.runner.free_run import Program


def test_the_time_of_each_packages_own_modules_is_summed(tmp_path):
    file = tmp_path / "imports.json"
    names = ["torch.optim", "torch", "not.there", "colorsys"]
    steps = [["set", "A", "1"], *(["import", name] for name in names)]
    file.write_text(json.dumps({"steps": steps, "left": {"numexpr": "starts threads"}}))
    launch = Launch(tmp_path, sys.executable, dict(os.environ), step="optimizer")
    found = imports.measure(file, launch, Member(0, None, "default", ()), Program(["train.py"]))
    assert (found.steps, found.left) == (steps, {"numexpr": "starts threads"})
    assert next(iter(found.seconds)) == "torch"
    assert len(found.seconds) == imports.SHOWN
    assert sum(found.seconds.values()) < found.all_s
