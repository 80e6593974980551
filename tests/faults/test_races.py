"""A race is killed, its disk is full, its user presses Ctrl-C: then the same command again."""

import contextlib
import json
import os
import random
import signal
import time

import pytest

from faulty import (
    GO_ON,
    LONGEST_RUN_S,
    STUDY,
    VICTIMS,
    FaultyStudy,
    completed,
    records,
    running,
    small_disk,
)
from jobs import processes
from processes import wait_until

pytestmark = pytest.mark.faults

TEXTS = VICTIMS | {"the coordinator": "scaling_study race"}
RUNS = [
    [(0, "Snakemake")],
    [(0, "the coordinator")],
    [(0, "a member"), (1, "the job step")],
    [(1, "Snakemake")],
    [(1, "the coordinator")],
    [(1, "a member")],
]
"""Who is killed in which round. A run goes on without a member that was killed."""
LONGEST_S = 3.0
"""A kill comes so long after its victim's start, or after a window, at most."""
WINDOWS = 3
"""Of each of two counts, in each fresh start."""


@pytest.fixture
def study(tmp_path):
    study = FaultyStudy(
        tmp_path,
        workload={"script": "tests/workloads/plain_loop.py", "steps_per_model": 300},
        launches={"baseline": {"intra_op": 1}, "one_change": {"wait_policy": ["passive"]}},
        search={"budget_minutes": 5, "confidence": 0.5, "tolerance": 0.2},
        measure={"windows": WINDOWS, "shortest_s": 0.2, "longest_s": 1.0},
    )
    # A window that was invalid and taken again would be one that is there twice.
    study.take_every_window()
    return study


def said(study):
    return (study.folder / "said").read_text()


def report(study):
    """The report's bytes, which are those of a whole page."""
    page = (study.folder / f"reports/{STUDY}.html").read_bytes()
    assert page.rstrip().endswith(b"</html>")
    return page


def reached(study, pattern, process):
    """Wait until such a file is among the results."""

    def there():
        return list(study.results.glob(pattern))

    wait_until(lambda: there() or process.poll() is not None, pattern, LONGEST_RUN_S)
    assert there(), said(study)


def comes_to_its_end(study):
    """Assert that the race is over, and that its records are those that its rounds ask for."""
    assert b"It ended because" in report(study)
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


def goes_on(study, *faults):
    """The same command again, to the end of the race; nothing of before is lost or taken anew."""
    done = study.snakemake()
    assert done.returncode == 0, done.stdout + done.stderr
    for fault in faults:
        fault.leaves()
    comes_to_its_end(study)


def random_moment(seed):
    return random.Random(f"race {seed}")  # noqa: S311 (a moment, no secret)


def kill(study, process, victim, moment, note):
    """Kill a victim at a moment; return the fault."""
    text = TEXTS[victim]
    before = len(completed(study.results))

    def victims():
        return processes(study.temporary, text) if text else [process.pid]

    def windows():
        return len(completed(study.results)) > before

    stage = moment.choice([victims, windows])
    wait_until(lambda: stage() or process.poll() is not None, "a stage", LONGEST_RUN_S)
    time.sleep(moment.uniform(0, LONGEST_S))
    fault = study.fault(f"kill -9 of {victim} (race)", note)
    # There is none for a moment where a round ends, and the next one begins.
    wait_until(lambda: victims() or process.poll() is not None, victim, LONGEST_RUN_S)
    assert process.poll() is None, said(study)
    os.kill(moment.choice(victims()), signal.SIGKILL)
    if victim != "a member":
        assert process.wait(LONGEST_RUN_S) != 0
    fault.leaves(running=victim == "a member")
    return fault


def test_kills(study, record_property):
    faults = []
    for seed, run in enumerate(RUNS):
        moment = random_moment(seed)
        with running(study) as process:
            for number, victim in run:
                reached(study, f"rounds/{number}.json", process)
                faults.append(kill(study, process, victim, moment, record_property))
            if process.poll() is None:
                assert process.wait(LONGEST_RUN_S) == 0, said(study)
    for fault in faults:
        fault.leaves()
    comes_to_its_end(study)


def test_a_full_disk(study, record_property):
    """It is full while a round is measured, and while the next one is decided."""
    faults = []
    with small_disk(study.results.parent, "32m") as disk:
        filler = disk / "filler"
        for moment in ("measure/*/*.part", "rounds/0*.done"):
            with running(study) as process:
                reached(study, moment, process)
                wait_until(lambda: completed(study.results), "a window", LONGEST_RUN_S)
                with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                    while True:
                        file.write(bytes(4096))
                faults.append(study.fault("a full disk (race)", record_property))
                assert process.wait(LONGEST_RUN_S) != 0
            text = said(study)
            assert "No space left on device: make room there" in text, text
            assert GO_ON in " ".join(text.split()), text
            assert "Traceback" not in text, text
            faults[-1].leaves()
            filler.unlink()
        goes_on(study, *faults)


def ctrl_c(study, process, note):
    """Press it; return the fault."""
    fault = study.fault("Ctrl-C (race)", note)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(LONGEST_RUN_S) != 0
    fault.leaves()
    return fault


def test_ctrl_c(study, record_property):
    """It is pressed while a round is measured, and while the next one is decided."""
    moment, faults = random_moment("Ctrl-C"), []
    for begun in ("measure/*/*.part", "rounds/0*.done"):
        with running(study) as process:
            reached(study, begun, process)
            time.sleep(moment.uniform(0, LONGEST_S))
            faults.append(ctrl_c(study, process, record_property))
    goes_on(study, *faults)
