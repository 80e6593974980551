"""A coordinator as small as it can be: real members, started and released by hand."""

import contextlib
import json
import os
import runpy
import signal
import sys
import time
from pathlib import Path

from msgspec import convert

from processes import PATIENCE_S, wait_until
from scaling_study.host import kernel_counters
from scaling_study.launch.axes.launcher import LAUNCHERS
from scaling_study.launch.launchers.launcher import LaunchSpec, MemberSpec
from scaling_study.member import channel
from scaling_study.records.readback import Readback
from scaling_study.runner.environment import member_environment
from scaling_study.runner.members import Members

# One thread: these tests share their CPUs with others, and two spinning threads would crawl.
ONE_THREAD = {"OMP_NUM_THREADS": "1"}

# On PYTHONPATH, this folder brings the launcher `fork`, whose members start fast and share torch.
FORKING = Path(__file__).parents[1] / "launchers"
_FORK = FORKING / "scaling_study_launchers/fork.py"
STARTERS = {
    **LAUNCHERS,
    "fork": runpy.run_path(str(_FORK), run_name="scaling_study_launchers.fork")["LAUNCHER"],
}


def until():
    """The time at which waiting is given up."""
    return time.perf_counter_ns() + round(PATIENCE_S * 1e9)


def train(members, slots, steps=5):
    """Let members make some steps, then rest again; return when they were released and closed."""
    release_ns = members.order(slots, channel.RUN)

    def trained(slot):
        words = members.words(slot)
        return words[channel.RELEASED_NS] >= release_ns and words[channel.STEPS] >= steps

    wait_until(lambda: all(map(trained, slots)), f"{steps} steps of each of {slots}")
    closed_ns = members.tell(slots, channel.CLOSED)
    assert members.wait_resting(slots, until()) == set()
    assert members.resting.issuperset(slots)
    return release_ns, closed_ns


class SmallCohort:
    """Members of any launcher, each with a script of its own."""

    def __init__(self, folder, count, ranks=None):
        (folder / "memory").mkdir(parents=True)
        self.folder = folder
        self.ranks = ranks
        self.members = Members(folder, count, ranks or 1)
        self._launchers = []

    def launcher(self, name="exec", *, env=None, step="optimizer", members=1, **inside):
        """A launcher of the real kind, with what is changed inside; the cohort closes it."""
        own = os.environ | ({"PYTHONPATH": str(FORKING)} if name == "fork" else {})
        env = member_environment(own, ONE_THREAD | (env or {}), {})
        launch = LaunchSpec(
            self.folder, sys.executable, env, step, launcher=name, ranks=self.ranks, **inside
        )
        self._launchers.append(STARTERS[name].starter(launch, members))
        return self._launchers[-1]

    def start(self, how, slot, *command, cpus=None):
        """Start a member, and return its process id."""
        self.members.clear(slot)
        pid = how.start(MemberSpec(slot, cpus, "default", tuple(map(str, command))))
        self.members.add(slot, pid)
        return pid

    def log(self, slot):
        paths = [self.folder / f"{kind}-{slot}" for kind in ("log", "errors")]
        return "".join(path.read_text() for path in paths if path.exists())

    def wait_resting(self, slots):
        """Wait for the first steps of members that are just being started."""
        ended = self.members.wait_resting(slots, until())
        logs = {slot: self.log(slot) for slot in {*ended, *slots} - self.members.resting}
        assert not logs, logs

    def train(self, slot, steps=5):
        """Steps of a window of one member alone, each with its duration in ns."""
        train(self.members, [slot], steps)
        found = self.members.steps(slot)
        starts = [self.members.words(slot)[channel.RELEASED_NS], *(step.end_ns for step in found)]
        return [(step.end_ns - start, step) for start, step in zip(starts, found, strict=False)]

    def read_back(self, slot):
        """What a resting member reports of itself."""
        self.members.order([slot], channel.READ_BACK)
        assert self.members.wait_resting([slot], until()) == set(), self.log(slot)
        return convert(json.loads((self.folder / f"readback-{slot}.json").read_text()), Readback)

    def run_out(self, slot):
        """Let a resting member run until it ends by itself; return its output."""
        self.members.order([slot], channel.RUN)
        return self.wait_ended(slot)

    def wait_ended(self, slot):
        """Wait until a member ends by itself; return its output."""
        assert self.members.sleep_until(until()) == {slot}
        self.members.kill(slot)
        return self.log(slot)

    def close(self):
        """End all members, what they have started, and launchers."""
        for slot, pid in list(self.members.pids.items()):
            started = kernel_counters.descendants(pid)[1:]
            self.members.kill(slot)
            # A loader's worker that has just been started does not notice that its parent is gone.
            for child in started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        self.members.close()
        for one in self._launchers:
            one.close()
