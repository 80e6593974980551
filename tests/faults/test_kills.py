"""Kill -9 of one process of a running study, at random moments, then the same command again.

And the signals that ask Snakemake to stop, sent to it alone.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from faulty import (
    LONGEST_RUN_S,
    LONGEST_S,
    VICTIMS,
    WHICH,
    Fault,
    FaultyStudy,
    completed,
    counted,
    kill,
    running,
)
from jobs import WORKLOADS, config, environment, processes, profile_command, why_command
from processes import killed_at_the_end, wait_until

pytestmark = pytest.mark.faults

BATCHES, RUNS = 3, 5
"""Of each of four victims: 60 in all."""
WINDOWS = 20
"""Of each of two counts."""


def all_there(study):
    """Whether every planned window is there, once, and the file has ended as it should.

    On a busy machine a script may seem not to settle, and further windows are taken.
    """
    found = counted(study.results)
    ends = {end["status"] for end in study.ends().values()}
    at = 1 + WHICH.index("n")
    enough = all(sum(key[at] == n for key in found) >= WINDOWS for n in (1, 2))
    return enough and set(found.values()) == {1} and ends == {"complete"}


def campaign(victim, batch, folder, note):
    """Kill, run again, kill, until it has been done often enough; then let it come to its end."""
    study = FaultyStudy(folder, measure={"windows": WINDOWS})
    kills = 0
    for seed in range(4 * RUNS):
        moment = random.Random(f"{victim} {batch} {seed}")  # noqa: S311 (a moment, no secret)
        with running(study, *study.files) as process:
            title = f"kill -9 of {victim}"
            killed = kill(study, process, victim, moment=moment, title=title, note=note)
            kills += killed is not None
            if victim == "a member" or killed is None:
                # It goes on without that member, or came to its end before the moment.
                assert process.wait(LONGEST_RUN_S) == 0, study.said()
        if kills == RUNS:
            break
        if all((study.folder / file).exists() for file in study.files):
            assert all_there(study), study.ends()
            shutil.rmtree(study.results)
    assert kills == RUNS
    study.succeeds(*study.files)
    assert all_there(study), study.ends()


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize(
    "victims", [["Snakemake", "the coordinator"], ["the job step", "a member"]], ids=["up", "down"]
)
def test_no_window_is_lost_and_nothing_is_left(tmp_path, victims, batch, record_property):
    """Two studies beside each other: one alone leaves a CPU idle while it starts."""
    folders = [tmp_path / victim for victim in victims]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor() as pool:
        chains = [
            pool.submit(campaign, victim, batch, folder, record_property)
            for victim, folder in zip(victims, folders, strict=True)
        ]
    for chain in chains:
        chain.result()


ELSEWHERE = {"why": why_command, "profile": profile_command}


@pytest.mark.parametrize("victim", ["the coordinator", "the job step", "a member"])
@pytest.mark.parametrize("kind", ELSEWHERE)
def test_other_measuring_jobs(tmp_path, kind, victim, record_property):
    """The experiments, which go on without a member, and the profiles."""
    # Full profiles take so long that no kill comes after the job's end.
    mapping = config(WORKLOADS / "plain_loop.py") | {"why": "quick", "profile": "full"}
    moment = random.Random(f"{kind} {victim}")  # noqa: S311 (a moment, no secret)
    process = subprocess.Popen(
        ELSEWHERE[kind](mapping, tmp_path), env=environment(tmp_path), stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    with killed_at_the_end(process):
        wait_until(lambda: processes(tmp_path, VICTIMS["a member"]), "members", LONGEST_RUN_S)
        if kind == "why":
            wait_until(lambda: completed(tmp_path), "the first window", LONGEST_RUN_S)
        time.sleep(moment.uniform(0, LONGEST_S))
        fault = Fault(f"kill -9 of {victim} ({kind})", record_property, tmp_path, tmp_path)
        texts = {**VICTIMS, "the coordinator": f"scaling_study {kind}"}
        with contextlib.suppress(ProcessLookupError):
            os.kill(moment.choice(processes(tmp_path, texts[victim])), signal.SIGKILL)
        if victim == "a member":
            time.sleep(1)
            process.terminate()
        process.wait(LONGEST_RUN_S)
        fault.leaves()


SIGNALS = ["TERM", "INT", "TERM TERM", "INT INT", "TERM INT", "INT TERM"]
"""The second one comes while the first is handled."""
ENDLESS = {"windows": 1000, "window_s": [1.0, 3.0]}
"""They take longer than LONGEST_RUN_S: only a job that is stopped ends."""
JOBS = 8
"""A signal comes after so many starts of jobs at most."""


def stop(study, process, names, note):
    """Send signals to Snakemake alone; return its code."""
    fault = study.fault(f"SIG{names.partition(' ')[0]} to Snakemake alone", note)
    for name in names.split():
        process.send_signal(signal.Signals[f"SIG{name}"])
        time.sleep(0.1)
    code = process.wait(LONGEST_RUN_S)
    fault.leaves()
    return code


def test_signals_to_snakemake_alone(tmp_path, record_property):
    """Each run goes on where the one before it was stopped."""
    study = FaultyStudy(tmp_path, measure=ENDLESS)
    for seed, names in enumerate(SIGNALS):
        moment = random.Random(f"{names} {seed}")  # noqa: S311 (a moment, no secret)
        before = completed(study.results)
        with running(study, *study.files) as process:
            wait_until(
                lambda: len(completed(study.results)) > len(before) or process.poll() is not None,  # noqa: B023 (called here)
                "a window more", LONGEST_RUN_S,
            )  # fmt: skip
            time.sleep(moment.uniform(0, LONGEST_S))
            code = stop(study, process, names, record_property)
        said = study.said()
        assert code == 1, said
        assert f"SIG{names.partition(' ')[0]} stopped the study before its end." in said
        assert "Traceback" not in said
        assert before < completed(study.results)
    assert set(counted(study.results).values()) == {1}


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_signals_at_any_moment_of_a_study(tmp_path, name, record_property):
    """Before the first job, in jobs that measure and in others, and between jobs."""
    study = FaultyStudy(tmp_path, measure={"windows": 2})
    codes = []
    while 0 not in codes:
        moment = random.Random(f"{name} {len(codes)}")  # noqa: S311 (a moment, no secret)
        begun = moment.randrange(JOBS)
        with running(study, "--logger-study-verbose") as process:  # says when a job starts
            wait_until(
                lambda: study.said().count("Execute ") >= begun or process.poll() is not None,  # noqa: B023 (called here)
                f"{begun} starts of jobs", LONGEST_RUN_S,
            )  # fmt: skip
            time.sleep(moment.uniform(0, LONGEST_S))
            codes.append(stop(study, process, name, record_property))
    # Before it has a scheduler Snakemake just ends.
    assert set(codes) <= {0, 1, -signal.Signals[f"SIG{name}"]}
    assert len(codes) > 1
