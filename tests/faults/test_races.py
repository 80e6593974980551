"""A race is killed in one of its rounds, or gets Ctrl-C: then the same command again."""

import json
import os
import random
import signal
import time

import pytest

from faulty import LONGEST_RUN_S, LONGEST_S, STUDY, FaultyStudy, kill, records, running
from processes import wait_until

pytestmark = pytest.mark.faults

CTRL_C = "Ctrl-C"
RUNS = [
    [(0, "Snakemake")],
    [(0, "the coordinator")],
    [(0, "a member"), (1, "the job step")],
    [(1, "Snakemake")],
    [(1, "the coordinator")],
    [(1, CTRL_C)],
    [(1, "a member")],
]
"""Who is killed in which round. A run goes on without a member that was killed."""
WINDOWS = 3
"""Of each of two counts, in each fresh start."""


@pytest.fixture
def study(tmp_path):
    study = FaultyStudy(
        tmp_path,
        workload={"script": "tests/workloads/plain_loop.py", "steps_per_model": 300},
        launches={"baseline": {"intra_op": 1}, "one_change": {"wait_policy": ["passive"]}},
        search={"budget_minutes": 5, "confidence": 0.5, "tolerance": 0.2},
        measure={"windows": WINDOWS, "window_s": [0.2, 1.0]},
    )
    # A window that was invalid and taken again would be one that is there twice.
    study.take_every_window()
    return study


def comes_to_its_end(study):
    """Assert that the race is over, and that its records are those that its rounds ask for."""
    page = (study.folder / f"reports/{STUDY}.html").read_bytes()
    assert b"It ended because" in page
    assert page.rstrip().endswith(b"</html>")
    rounds = [json.loads(one.read_text()) for one in study.results.glob("rounds/*[0-9].json")]
    asked = {
        f"{task['launch']}/{task['replicate']}.jsonl": set(task["counts"])
        for one in rounds
        for batch in one["batches"]
        for task in batch
    }
    folder = study.results / "measure"
    assert list(study.results.rglob(".*.new")) == []
    # Neither parts, nor records that were set aside, nor files beside those that were renamed.
    assert {str(path.relative_to(folder)) for path in folder.glob("*/*")} == set(asked)
    for path, found in records(folder).items():
        counts = asked[os.path.relpath(path, folder)]
        assert found[-1]["status"] == "complete", found[-1]
        taken = {(one["n"], one["window"]) for one in found if one["kind"] == "window"}
        for n in counts:
            assert len({window for count, window in taken if count == n}) >= WINDOWS


def stop(study, process, victim, moment, note):
    """Kill a process of a race, or press Ctrl-C; return the fault."""
    if victim != CTRL_C:
        title = f"kill -9 of {victim} (race)"
        return kill(study, process, victim, moment=moment, title=title, note=note)
    time.sleep(moment.uniform(0, LONGEST_S))
    fault = study.fault("Ctrl-C (race)", note)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(LONGEST_RUN_S) != 0
    fault.leaves()
    return fault


def test_kills(study, record_property):
    faults = []
    for seed, run in enumerate(RUNS):
        moment = random.Random(f"race {seed}")  # noqa: S311 (a moment, no secret)
        with running(study) as process:
            for number, victim in run:
                round_file = study.results / f"rounds/{number}.json"
                wait_until(round_file.exists, round_file.name, LONGEST_RUN_S)
                fault = stop(study, process, victim, moment, record_property)
                assert fault, study.said()
                faults.append(fault)
            if process.poll() is None:
                assert process.wait(LONGEST_RUN_S) == 0, study.said()
    for fault in faults:
        fault.leaves()
    comes_to_its_end(study)
