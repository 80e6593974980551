"""What runs inside an emulated machine: parts of the project as they are, and what the kernel says.

``python inside.py MACHINE PARTS...`` runs the parts and leaves a JSON file of each in the results.
Nothing is judged here: the tests of the host compare.
"""

import ctypes
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import jobs
import shapes
from emulator import RESULTS
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config.config import load_config
from scaling_study.config.plan import make_plan
from scaling_study.host import probe
from scaling_study.records import codec
from scaling_study.runner import resolve
from small_cohort import SmallCohort

SCRIPT = Path(__file__).with_name("tensors.py")
FOLDER = Path("/tmp/inside")  # noqa: S108 (of a machine that is gone with it)
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Two threads, so that a slot has two CPUs and a second thread whose mask can be looked at.
TWO_THREADS = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}

PLACEMENTS = ("none", "compact", "cores", "spread", "per_l3")
MEMBINDS = ("none", "local", "interleave")

CGROUP = Path("/sys/fs/cgroup")
LIMITS = {
    "cpuset.cpus": "4-7,12-13",
    "cpuset.mems": "1,3",
    "cpu.max": "250000 100000",
    "memory.max": str(1024**3),
    "pids.max": "400",
}

# Far beyond what anything here takes.
PATIENCE_NS = 600 * 10**9
PATIENT = {"start_timeout_s": 600.0, "shortest_s": 0.5, "longest_s": 60.0, "warmup_steps": 1}


@lru_cache
def machine():
    return probe.read_machine()


def launch(name, placement="none", membind="none"):
    """Plan one launch of the tensors' script and resolve it on this machine."""
    mapping = jobs.config(
        SCRIPT,
        args=["--where", str(where("{member}"))],
        step="mark",
        launch={"placement": placement, "membind": membind, "intra_op": 2},
    )
    plan = make_plan(load_config(mapping))
    axes = plan.by_id[plan.baseline].axes
    return resolve.resolve(plan, axes, machine(), FOLDER / "builds", [shapes.MEMBERS[name]])


def where(slot):
    return FOLDER / f"where-{slot}.json"


def kernel_says(pid, places):
    """What the kernel knows of a member: masks of its threads, policy and nodes of its tensors."""
    masks = {
        re.search(r"Cpus_allowed_list:\s*(\S+)", (task / "status").read_text())[1]
        for task in Path(f"/proc/{pid}/task").iterdir()
    }
    return {
        "masks": sorted(masks),
        "threads": len(list(Path(f"/proc/{pid}/task").iterdir())),
        "policies": {name: policy(pid, at) for name, (at, _) in places.items()},
        "pages": {name: pages(pid, at, size) for name, (at, size) in places.items()},
    }


def policy(pid, address):
    """The memory policy of the mapping that an address lies in (numa_maps in proc(5))."""
    found = [
        line.split()[1]
        for line in Path(f"/proc/{pid}/numa_maps").read_text().splitlines()
        if int(line.split()[0], 16) <= address
    ]
    return found[-1]


def pages(pid, address, size_bytes):
    """How many whole pages of a tensor lie on each node, by move_pages(2), which moves none."""
    first = -(-address // PAGE_BYTES)
    count = (address + size_bytes) // PAGE_BYTES - first
    addresses = (ctypes.c_void_p * count)(
        *(page * PAGE_BYTES for page in range(first, first + count))
    )
    status = (ctypes.c_int * count)()
    libnuma = ctypes.CDLL("libnuma.so.1", use_errno=True)
    failed = libnuma.move_pages(pid, ctypes.c_ulong(count), addresses, None, status, 0)
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return dict(Counter(status))


def checked(cohort, how, members):
    """Start members, wait until they have trained, and ask the kernel about each."""
    pids = {}
    for member in members:
        where(member.slot).unlink(missing_ok=True)
        cohort.members.clear(member.slot)
        pids[member.slot] = how.start(member)
        cohort.members.add(member.slot, pids[member.slot])
    ended = cohort.members.wait_resting(pids, time.perf_counter_ns() + PATIENCE_NS)
    if ended or not cohort.members.resting.issuperset(pids):
        raise RuntimeError({slot: cohort.log(slot) for slot in pids})
    found = [
        {
            "slot": member.slot,
            "cpus": member.cpus,
            "policy": member.mempolicy,
            "kernel": kernel_says(pids[member.slot], json.loads(where(member.slot).read_text())),
        }
        for member in members
    ]
    for slot in pids:
        cohort.members.kill(slot)
    return found


def probed(_name):
    """What the project's probe says of this machine."""
    return codec.plain(machine())


def placements(name):
    """Every placement with every memory policy: what was asked for, and what the kernel says."""
    cohort = SmallCohort(FOLDER / "placements", shapes.MEMBERS[name])
    how = cohort.launcher("fork", env=TWO_THREADS, step="mark", members=shapes.MEMBERS[name])
    found = []
    for placement in (*PLACEMENTS, "lists"):
        asked = shapes.LISTS[name] if placement == "lists" else placement
        for membind in (*MEMBINDS, shapes.NODES[name]):
            one = {"placement": placement, "membind": membind}
            began = time.monotonic()
            try:
                members = launch(name, asked, membind).members
            except UnavailableError as error:
                one |= {"reason": error.reason, "remedy": error.remedy}
            else:
                one["members"] = checked(cohort, how, members)
            print(placement, membind, f"{time.monotonic() - began:.1f} s", flush=True)
            found.append(one)
    cohort.close()
    return found


def fresh(name):
    """A member of the exec launcher, bound before its interpreter starts."""
    cohort = SmallCohort(FOLDER / "fresh", 2)
    how = cohort.launcher("exec", env=TWO_THREADS, step="mark")
    found = checked(cohort, how, launch(name, "spread", "local").members[1:2])
    cohort.close()
    return found


def measured(part, processes, axes, script=SCRIPT, **workload):
    """Run a whole measuring job as a study does; return its records."""
    folder = FOLDER / part
    folder.mkdir(parents=True)
    of_tensors = {"args": ["--where", str(folder / "where-{member}.json")], "step": "mark"}
    mapping = jobs.config(
        script, **of_tensors | workload, launch=axes, windows=1, steps=3, **PATIENT
    )
    return jobs.run(mapping | {"processes": processes}, folder)


def counts(_name):
    """One member a CPU, and half as many again."""
    how = {"launcher": "fork", "placement": "spread", "membind": "local"}
    return measured("counts", [1, 16, 24], how)


def loaders(_name):
    """Members whose loaders have worker processes, on CPUs of their own."""
    how = {"launcher": "fork", "placement": "spread", "intra_op": 1, "loader_cpus": "rest"}
    script = jobs.WORKLOADS / "feeds.py"
    return measured("loaders", [4], how, script, args=["torch", "--workers", "2"], step="optimizer")


def threads(_name):
    """One thread more than there are cores; fewer than the 16 CPUs, since each takes seconds."""
    return measured("threads", [1], {"launcher": "fork", "intra_op": 9, "wait_policy": "passive"})


def limited(name):
    """The same inside a cgroup that may use a part of the machine only."""
    (CGROUP / "cgroup.subtree_control").write_text("+cpuset +cpu +memory +pids")
    group = CGROUP / "limited"
    group.mkdir()
    for file, text in LIMITS.items():
        (group / file).write_text(text)
    script = 'echo $$ > "$1"; shift; exec "$@"'
    part = [sys.executable, __file__, name, "in_cgroup"]
    subprocess.run(["/bin/sh", "-c", script, "-", str(group / "cgroup.procs"), *part], check=True)


def in_cgroup(name):
    """Probe, refusals and a whole job, as a container sees them."""
    found = {"machine": codec.plain(machine()), "refused": []}
    for wanted in ({"placement": ["0-1"]}, {"placement": "compact", "membind": "0"}):
        try:
            launch(name, **wanted)
        except UnavailableError as error:
            found["refused"].append({"reason": error.reason, "remedy": error.remedy})
    how = {"launcher": "fork", "placement": "compact", "membind": "local"}
    found["records"] = measured("limited", "auto", how)
    return found


PARTS = (probed, placements, counts, loaders, threads, limited, fresh, in_cgroup)


def run_alone(name, part):
    """Run a part in this process and leave what it found."""
    FOLDER.mkdir(exist_ok=True)
    began = time.monotonic()
    found = {one.__name__: one for one in PARTS}[part](name)
    if found is not None:
        text = json.dumps({"found": found, "s": time.monotonic() - began})
        (RESULTS / f"{part}.json").write_text(text)


def run_group(name, parts):
    """Run parts beside each other, each in a process of its own; return the worst status."""

    def run(part):
        with (RESULTS / f"{part}.log").open("w") as log:
            line = [sys.executable, __file__, name, part]
            return subprocess.run(line, stdout=log, stderr=log, check=False).returncode

    with ThreadPoolExecutor(2) as pool:  # as many as the host has processors
        return max(pool.map(run, parts))


def main(name, *groups):
    """Run one part, or groups of parts such as ``placements+counts`` one after the other."""
    if len(groups) == 1 and "+" not in groups[0]:
        return run_alone(name, groups[0])
    # Pages that the kernel has marked to see who uses them are hidden from move_pages(2).
    Path("/proc/sys/kernel/numa_balancing").write_text("0")
    return max(run_group(name, group.split("+")) for group in groups)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
