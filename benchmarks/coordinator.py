"""What the coordinator itself costs: real members, a tiny workload, every one gated and counted.

For each number of members a cohort of its own is started, and windows of all its members are taken.
The coordinator's CPU time for a window, with both readings of the kernel's counters, the record and
its text, is compared with the shortest window that a config can have without saying so. The
exponent of a power law through the costs says how they grow: 1 is linear.

On a machine with fewer CPUs than members their steps are few. What the steps of a large machine
cost is added from pages that are filled by hand: a second of 10 ms steps of each member. Usage:

    PYTHONPATH=tests/launchers python benchmarks/coordinator.py [--members 12 96] [--windows 3]
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from figures import figure

from scaling_study.common import private
from scaling_study.host import probe
from scaling_study.launch.launchers.launcher import LaunchSpec, MemberSpec
from scaling_study.member import channel
from scaling_study.records import codec
from scaling_study.runner import cohort, environment, member_processes, resolve, windows

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "tests/workloads/plain_loop.py"
MEMBERS = (12, 24, 48, 96, 192)

# The shortest window of a config that says nothing; few steps, as all members share few CPUs.
TIMING = cohort.WindowSettings(steps=5, shortest_s=1.0, longest_s=60.0, settle_s=0.2)
START_TIMEOUT_S = 240.0

MADE_STEPS = 100
MADE_STEP_NS = 10_000_000


def start(count: int, folder: Path, host: member_processes.HostFacts) -> cohort.Cohort:
    """Start that many members of the tiny workload, forked from one process."""
    env = environment.member_environment(os.environ, {"OMP_NUM_THREADS": "1"}, {})
    launch = LaunchSpec(folder, sys.executable, env, step="optimizer", launcher="fork")
    command = (str(SCRIPT), "--steps", "1000000000")
    specs = [MemberSpec(slot, None, "default", command) for slot in range(count)]
    one = cohort.Cohort(launch, specs, host)
    one.start(range(count), START_TIMEOUT_S)
    return one


def window_cost(one: cohort.Cohort, number: int) -> float:
    """Take one window of all members; return the CPU time (s) that it cost."""
    began_cpu_s = time.process_time()
    record = one.take(windows.WindowPlan(number, 0, one.size), TIMING)
    codec.encode(record)
    return time.process_time() - began_cpu_s


def made_steps_cost(one: cohort.Cohort) -> float:
    """Fill all pages with steps, and return the CPU time (s) that counting them takes."""
    release_ns = time.perf_counter_ns()
    for slot in one.alive:
        words = one.members.words(slot)
        words[channel.STEPS] = MADE_STEPS
        words[channel.RELEASED_NS] = release_ns
        words[channel.PARKED_NS] = release_ns + (MADE_STEPS + 1) * MADE_STEP_NS
        for step in range(MADE_STEPS):
            at = channel.HEADER + step * channel.STEP_FIELDS
            words[at] = release_ns + (step + 1) * MADE_STEP_NS
            words[at + channel.FRESH] = 0
    span_ns = (release_ns, release_ns + MADE_STEPS * MADE_STEP_NS)
    began_s = time.process_time()
    for slot in one.alive:
        steps = one.members.steps(slot)
        made = windows.Activity(slot, release_ns, span_ns[1], MADE_STEPS, 0, steps)
        windows.member_record(made, *span_ns)
        windows.restart_share(made)
    return time.process_time() - began_s


def measure(count: int, taken: int, host: member_processes.HostFacts) -> float:
    """Return what a window of so many members costs: the median CPU time (s) of its windows."""
    with (
        private.folder() as folder,
        private.part(folder, "cohort") as own,
        start(count, own, host) as one,
    ):
        alive = len(one.alive)
        costs = [window_cost(one, number) for number in range(taken)]
        made_s = made_steps_cost(one)
    cost_s = statistics.median(costs) + made_s
    share = cost_s / (TIMING.shortest_s + TIMING.settle_s)
    text = f"{1e3 * cost_s:.0f} ms, {share:.1%} of the shortest window, {count - alive} not alive"
    met = share <= 0.1 and alive == count
    figure(f"coordinator's cost, {count} members", "at most 10%, all alive", text, met=met)
    return cost_s


def main() -> None:
    """Print the costs, and how they grow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, nargs="+", default=list(MEMBERS))
    parser.add_argument("--windows", type=int, default=3)
    options = parser.parse_args()
    host = resolve.host(probe.read_machine())
    with tempfile.TemporaryDirectory() as name:
        os.environ["TMPDIR"] = name
        tempfile.tempdir = name
        costs = [measure(count, options.windows, host) for count in options.members]
    if len(costs) > 1:
        exponent = float(np.polyfit(np.log(options.members), np.log(costs), 1)[0])
        what = "growth of that cost with the members"
        figure(what, "at most linear", f"n^{exponent:.2f}", met=exponent <= 1.1)


if __name__ == "__main__":
    main()
