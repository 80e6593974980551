"""The list of modules that measure: all that run from a window's start to its record."""

import contextlib
import json
import os
import sys

import pytest

from processes import wait_until
from scaling_study.common import code_digest, private
from scaling_study.launch.launchers.launcher import LaunchSpec, MemberSpec
from scaling_study.runner import cohort, environment, headroom, jobs, windows
from scaling_study.runner.member_processes import HostFacts

MOST_LINES = 3_000

# It notes which files' functions run in its training thread, once it has made some steps.
SCRIPT = """
import json, os, sys, torch

files, steps = set(), 0
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
batches = torch.utils.data.DataLoader(torch.randn(64, 4), batch_size=4)

def note(frame, event, argument):
    files.add(frame.f_code.co_filename)

while True:
    for batch in batches:
        model(batch).sum().backward()
        optimizer.step()
        steps += 1
        if steps == 5:
            sys.setprofile(note)
        if steps % 20 == 0:
            with open(sys.argv[1] + ".part", "w") as file:
                json.dump(sorted(files), file)
            os.replace(sys.argv[1] + ".part", sys.argv[1])
"""

# They hold records, lists of CPUs and the paths of logs, and decide nothing in a window.
OTHERS = ("records", "common/topology", "launch/launchers/launcher")


def modules(files):
    """The modules of the package among files."""
    folder = f"{code_digest.FOLDER}/"
    return {file.removeprefix(folder) for file in files if file.startswith(folder)}


def test_the_list_is_short():
    texts = [path.read_text() for path in code_digest.files(*jobs.MEASURING)]
    assert sum(len(code_digest.code(text).splitlines()) for text in texts) <= MOST_LINES


@pytest.mark.slow
def test_all_that_runs_in_a_window_is_in_the_list(tmp_path):
    script, noted = tmp_path / "script.py", tmp_path / "noted"
    script.write_text(SCRIPT)
    host = HostFacts(frozenset(os.sched_getaffinity(0)), headroom.read_free_memory().free, ())
    settings = cohort.WindowSettings(steps=40, shortest_s=0.5, longest_s=30.0, settle_s=0.05)
    files = set()
    with private.folder() as folder, contextlib.ExitStack() as stack:
        env = environment.member_environment(os.environ, {"OMP_NUM_THREADS": "1"}, {})
        launch = LaunchSpec(folder, sys.executable, env, step="optimizer")
        members = [
            MemberSpec(slot, None, "default", (str(script), str(noted))) for slot in range(2)
        ]
        running = stack.enter_context(cohort.Cohort(launch, members, host))
        running.start([0, 1], 120)
        running.warm_up(5)
        sys.setprofile(lambda frame, *_: files.add(frame.f_code.co_filename))
        try:
            taken = running.take(windows.WindowPlan(0, 0, 1), settings)
        finally:
            sys.setprofile(None)
        wait_until(noted.exists, "the script's note")
        inside = set(json.loads(noted.read_text()))
    assert taken.members[0].steps >= 40
    ran = modules(files), modules(inside)
    assert {"runner/cohort.py", "host/kernel_counters.py"} <= ran[0]
    assert {"member/member.py", "member/loaders.py"} <= ran[1]
    known = modules(map(str, code_digest.files(*jobs.MEASURING)))
    unknown = {name for name in ran[0] | ran[1] if not name.startswith(OTHERS)} - known
    assert not unknown
