"""What runs inside an emulated machine: parts of the project as they are, and what the kernel says.

``python inside.py MACHINE`` leaves all that it found as found.json in the results.
Nothing is judged here: the tests of the host compare.
"""

import ctypes
import json
import os
import re
import sys
import time
from collections import Counter
from itertools import product
from pathlib import Path

import jobs
import shapes
from emulator import RESULTS
from processes import captured
from scaling_study.common.unavailable import UnavailableError
from scaling_study.host import probe
from scaling_study.queues import bind
from scaling_study.records import codec
from scaling_study.runner import resolve
from small_cohort import SmallCohort

SCRIPT = Path(__file__).with_name("tensors.py")
FOLDER = Path("/tmp/inside")  # noqa: S108 (of a machine that is gone with it)
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Two threads, so that a slot has two CPUs and a second thread whose mask can be looked at.
TWO_THREADS = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}

# Far beyond what anything here takes.
PATIENCE_NS = 600 * 10**9


def members_of(name, machine, placement, membind):
    """Plan one launch of the tensors' script and resolve it on this machine."""
    mapping = jobs.config(
        SCRIPT,
        args=["--where", str(where("{member}"))],
        step="mark",
        launch={"placement": placement, "membind": membind, "intra_op": 2},
    )
    plan = jobs.planned(mapping)
    axes = plan.by_id[plan.baseline].axes
    counts = [shapes.MEMBERS[name]]
    return resolve.resolve(plan, axes, machine, FOLDER / "builds", counts).members


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
    text = Path(f"/proc/{pid}/numa_maps").read_text().replace("prefer (many)", "prefer")
    found = [line.split()[1] for line in text.splitlines() if int(line.split()[0], 16) <= address]
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


def launches(name, machine):
    """Every placement with every memory policy: what was asked for, and what the kernel says."""
    cohort = SmallCohort(FOLDER / "launches", shapes.MEMBERS[name])
    how = cohort.launcher("fork", env=TWO_THREADS, step="mark", members=shapes.MEMBERS[name])
    found = {}
    for placement, membind in product(shapes.PLACEMENTS, shapes.MEMBINDS):
        cpus = shapes.LISTS[name] if placement == "lists" else placement
        nodes = shapes.NODES[name] if membind == "listed" else membind
        try:
            members = members_of(name, machine, cpus, nodes)
        except UnavailableError as error:
            one = {"reason": error.reason}
        else:
            one = {"members": checked(cohort, how, members)}
        found[f"{placement} {membind}"] = one
    cohort.close()
    return found


def full_node():
    """The end and the pages of a process that wants 1.5 times the memory of node 2."""
    script = FOLDER / "fill.py"
    size_bytes = shapes.MACHINES["uneven"].nodes[2].memory_mib * 3 // 2 * 2**20
    script.write_text(
        f"held = bytearray(b'x') * {size_bytes}\nprint(open('/proc/self/numa_maps').read())\n"
    )
    ends = {}
    for mode in ("bind", "prefer"):
        command = [sys.executable, bind.__file__, "--mempolicy", f"{mode}:2", "--"]
        done = captured([*command, sys.executable, str(script)])
        pages = Counter()
        for at, count in re.findall(r" N(\d+)=(\d+)", done.stdout):
            pages[at] += int(count)
        ends[mode] = {"status": done.returncode, "pages": pages, "error": done.stderr}
    return ends


def main(name):
    """Look at everything, and leave a file of it."""
    # Pages that the kernel has marked to see who uses them are hidden from move_pages(2).
    Path("/proc/sys/kernel/numa_balancing").write_text("0")
    FOLDER.mkdir()
    machine = probe.read_machine()
    found = {
        "machine": codec.plain(machine),
        "launches": launches(name, machine),
        "full_node": full_node() if name == "uneven" else None,
    }
    (RESULTS / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
