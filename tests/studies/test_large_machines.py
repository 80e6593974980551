"""Machines of 192 and 384 CPUs: what members need and where they run, on captured ones."""

import subprocess
from pathlib import Path

import pytest
from msgspec import structs

import jobs
import machines
from launch_scripts import plan, recommendation, write
from scaling_study.common.topology import parse_cpu_list
from scaling_study.host import probe
from scaling_study.records.codec import plain
from scaling_study.report import launch_script
from scaling_study.runner import headroom, resolve

LARGE = {"epyc-9654-2s-nps4": 384, "xeon-8260-8s-snc2": 192}


def resolved(name, monkeypatch, **axes):
    """A launch of one member more than the machine has CPUs, and what was asked beforehand."""
    checked = []
    monkeypatch.setattr(headroom, "check", checked.extend)
    mapping = jobs.config(jobs.WORKLOADS / "plain_loop.py", launch=axes) | {"processes": "auto"}
    planned = jobs.planned(mapping)
    here = probe.read_machine(machines.root(name))
    libraries = {**here.libraries, "numa": "/usr/lib/libnuma.so.1"}
    here = structs.replace(here, libraries=libraries)
    asked = planned.by_id[planned.baseline].axes
    counts = resolve.counts(planned, here)
    return resolve.resolve(planned, asked, here, Path("builds"), counts), checked


@pytest.mark.parametrize(("intra_op", "threads"), [(1, 385), (4, 4 * 385), ("default", 192 * 385)])
def test_what_385_members_need_is_asked_beforehand(intra_op, threads, monkeypatch):
    """The default launch starts a thread for each core in every member."""
    _, checked = resolved("epyc-9654-2s-nps4", monkeypatch, intra_op=intra_op)
    assert checked == [headroom.Need(385, threads, "exec")]


@pytest.mark.parametrize("name", LARGE)
def test_the_launch_script_gives_each_member_its_cpu_and_its_node(name, tmp_path, monkeypatch):
    """The script itself runs, with a program in the place of the binder that says what it got."""
    found, _ = resolved(name, monkeypatch, placement="spread", membind="local")
    slots = [plain(slot) for slot in found.slots][: LARGE[name]]
    monkeypatch.setattr(launch_script, "BINDER", ["/bin/echo"])
    best = recommendation(slots, env=found.requested_env)
    script = write(tmp_path, best, plan("path/to/train.py"))
    subprocess.run(["/bin/bash", script, "logs"], cwd=tmp_path, check=True, capture_output=True)
    node_of = {
        cpu: number
        for number, node in enumerate(machines.describe(name)["nodes"].values())
        for cpu in parse_cpu_list(node["cpus"])
    }
    used = []
    for slot in range(LARGE[name]):
        words = (tmp_path / f"logs/member-{slot}.log").read_text().split()
        cpu = int(words[words.index("--cpus") + 1])
        assert words[words.index("--mempolicy") + 1] == f"bind:{node_of[cpu]}"
        assert "OMP_NUM_THREADS=1" in words
        used.append(cpu)
    assert sorted(used) == list(range(LARGE[name]))
