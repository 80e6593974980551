"""What a fault may leave: how it is looked at and counted for docs/evidence/faults.md."""

import contextlib
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from jobs import config, left_behind, planned, processes
from processes import captured, killed_at_the_end, wait_until
from projects import Project
from scaling_study.common import private
from scaling_study.runner.journal import read_part

STUDY = "faults"
# A supervisor needs less than ten seconds on a machine that does nothing else.
LONGEST_END_S = 120.0
LONGEST_RUN_S = 300.0
GO_ON = "then run the same command again: it goes on where it stopped"
VICTIMS = {
    "Snakemake": None,
    "the job step": "scaling_study.runner.supervisor",
    "the coordinator": "scaling_study measure",
    "a member": "scaling_study.member.worker /",  # and its folder
}
LONGEST_S = 3.0
"""A kill or a signal comes so long after what it waits for, at most."""
WHICH = ("experiment", "name", "dose", "n", "block", "window", "attempt")


@contextlib.contextmanager
def running(study, *options):
    """The study's command."""
    process = study.start(*options)
    with killed_at_the_end(process):
        yield process


@contextlib.contextmanager
def small_disk(folder):
    """A file system of its own for a folder; root only."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    folder.mkdir(parents=True)
    made = captured(["/bin/mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)])
    if made.returncode:
        pytest.skip(f"this root may not mount: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["/bin/umount", "--lazy", str(folder)], check=True)


def records(folder):
    """The records below a folder, by the file that they are in or will be in.

    A record file that is finished and not yet collected has two names: it counts once.
    """
    found = {}
    try:
        parts = [
            part for part in folder.glob("**/*.jsonl.part") if not part.with_suffix("").exists()
        ]
        for path in sorted([*folder.glob("**/*.jsonl"), *parts]):
            found[str(path).removesuffix(".part")] = read_part(path)
    except FileNotFoundError:  # it has just got its other name
        return records(folder)
    return found


def completed(folder):
    """The completed windows below a folder, as text."""
    return {
        f"{path} {record}"
        for path, all_of_it in records(folder).items()
        for record in all_of_it
        if record["kind"] == "window"
    }


def counted(folder):
    """How often each planned window is there; an invalid one is taken again by the next run."""
    found = Counter()
    for path, all_of_it in records(folder).items():
        for record in all_of_it:
            if record["kind"] == "window":
                found[path, *map(record.get, WHICH)] += record["valid"]
    return Counter({window: max(1, valid) for window, valid in found.items()})


def names(folder):
    """Names of the private folders of the jobs that run with this temporary folder."""
    mark = f"{private.VARIABLE}=".encode()
    found = {path.name for path in folder.glob(f"{private.PREFIX}*")}
    for pid in processes(folder):
        with contextlib.suppress(OSError):
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            found |= {Path(one.decode()).name for one in variables if one.startswith(mark)}
    return found


class Fault:
    """One fault: what was there before it, and what is there after it.

    Args:
        title: its row in docs/evidence/faults.md.
        note: takes its counts.
        results: the folder that holds the record files.
        temporary: the temporary folder of all its processes.
    """

    def __init__(self, title, note, results, temporary):
        self._title = title
        self._note = note
        self._results = results
        self._temporary = temporary
        self._before = completed(results)
        self._names = names(temporary)

    def leaves(self, *, running=False, planned=None):
        """Assert what is left, and count it.

        Args:
            running: the study goes on; otherwise all of its processes must have ended.
            planned: how many windows there must be by process count; if it is not given,
                all that were completed before the fault must be there.
        """
        left = [] if running else self._left()
        found = counted(self._results)
        windows = len(self._before)
        lost = len(self._before - completed(self._results))
        if planned is not None:
            there = Counter(key[1 + WHICH.index("n")] for key in found)
            windows = sum(planned.values())
            lost = sum(max(0, count - there[n]) for n, count in planned.items())
        twice = [window for window, count in found.items() if count > 1]
        self._note("fault", (self._title, windows, lost, len(twice), len(left)))
        assert left == []
        assert lost == 0
        assert twice == []

    def _left(self):
        """What is left once all had the time to end."""

        def found():
            return left_behind(self._temporary, self._names | names(self._temporary))

        with contextlib.suppress(AssertionError):
            wait_until(lambda: not found(), "nothing left", LONGEST_END_S)
        return found()


def kill(study, process, victim, *, moment, title, note):
    """Kill a process of a study at a moment after its start, or after a window of this run.

    Return the fault; None if the study has ended before.
    """
    before = len(completed(study.results))

    def victims():
        text = study.victims[victim]
        return processes(study.temporary, text) if text else [process.pid]

    def windows():
        return len(completed(study.results)) > before

    stage = moment.choice([victims, windows])
    wait_until(lambda: stage() or process.poll() is not None, "a stage", LONGEST_RUN_S)
    time.sleep(moment.uniform(0, LONGEST_S))
    fault = study.fault(title, note)
    # There is none for a moment where a job ends, and the next one begins.
    wait_until(lambda: victims() or process.poll() is not None, victim, LONGEST_RUN_S)
    if process.poll() is not None:
        return None
    with contextlib.suppress(ProcessLookupError, IndexError):
        os.kill(moment.choice(victims()), signal.SIGKILL)
    if victim != "a member":
        process.wait(LONGEST_RUN_S)
    fault.leaves(running=victim == "a member")
    return fault


class FaultyStudy(Project):
    """A study of one short launch, in a project and with a temporary folder of its own."""

    def __init__(self, folder, *, measure, **sections):
        super().__init__(folder)
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.results = folder / "results" / STUDY
        settings = {"window_s": [0.1, 3.0], **measure}
        mapping = config(folder / "tests/workloads/misbehaves.py", step="mark", **settings)
        mapping |= {"study": STUDY, "why": "off", "confirm": "off", "profile": "off", **sections}
        self.configure(mapping)
        coordinator = f"scaling_study {'race' if 'search' in sections else 'measure'}"
        self.victims = {**VICTIMS, "the coordinator": coordinator}
        plan = planned(mapping)
        self.files = [
            f"results/{STUDY}/measure/{plan.baseline}/{replicate}.jsonl"
            for replicate in range(plan.measure.replicates)
        ]

    def environment(self):
        return {**super().environment(), "TMPDIR": str(self.temporary)}

    def fault(self, title, note):
        return Fault(title, note, self.results, self.temporary)

    def ends(self):
        """The last record of each finished file."""
        return {path: one[-1] for path, one in records(self.results).items()}
