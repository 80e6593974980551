"""Machines of 192 and 384 CPUs: what members need and where they run, on captured ones."""

import subprocess
from pathlib import Path

import pytest
from msgspec import convert, structs

import jobs
import machines
from made_records import made_plan
from scaling_study.common.topology import parse_cpu_list
from scaling_study.config.config import load_config
from scaling_study.config.plan import make_plan
from scaling_study.host import probe
from scaling_study.records.analysis import Recommendation
from scaling_study.records.codec import plain
from scaling_study.report import launch_script
from scaling_study.runner import headroom, resolve

LARGE = {"epyc-9654-2s-nps4": 384, "xeon-8260-8s-snc2": 192}


def machine(name):
    found = probe.read_machine(machines.root(name))
    libraries = {**found.libraries, "numa": "/usr/lib/libnuma.so.1"}
    return structs.replace(found, libraries=libraries)


def resolved(name, monkeypatch, **axes):
    """A launch of one member more than the machine has CPUs, and what was asked beforehand."""
    checked = []
    monkeypatch.setattr(headroom, "check", checked.extend)
    plan = make_plan(
        load_config(
            jobs.config(jobs.WORKLOADS / "plain_loop.py", launch=axes) | {"processes": "auto"}
        )
    )
    here = machine(name)
    counts = resolve.counts(plan, here)
    asked = plan.by_id[plan.baseline].axes
    return resolve.resolve(plan, asked, here, Path("builds"), counts), checked


@pytest.mark.parametrize(("intra_op", "threads"), [(1, 385), (4, 4 * 385), ("default", 192 * 385)])
def test_what_385_members_need_is_asked_beforehand(intra_op, threads, monkeypatch):
    """The default launch starts a thread for each core in every member."""
    _, checked = resolved("epyc-9654-2s-nps4", monkeypatch, intra_op=intra_op)
    assert checked == [headroom.Need(385, threads, "exec")]


@pytest.mark.parametrize("name", LARGE)
def test_the_launch_script_gives_each_member_its_cpu_and_its_node(name, tmp_path, monkeypatch):
    """The script itself runs, with a program in the place of the binder that says what it got."""
    found, _ = resolved(name, monkeypatch, placement="spread", membind="local")
    count = LARGE[name]
    recommendation = {
        "status": "ok",
        "tolerance": 0.02,
        "recommended": {
            "launch": "spread", "label": "spread", "n": count, "steps_per_s": 1.0, "low": None,
            "high": None, "models_per_hour": None, "probability_best": None,
            "axes": {"inter_op": "default", "launcher": "exec"},
            "slots": [plain(slot) for slot in found.slots], "requested_env": found.requested_env,
        },
    }  # fmt: skip
    plan = made_plan({}, study="large")
    script = tmp_path / "recommended.sh"
    monkeypatch.setattr(launch_script, "BINDER", ["/bin/echo"])
    advice = convert(recommendation, Recommendation)
    script.write_text(launch_script.render_launch_script(advice, plan, script, tmp_path))
    subprocess.run(["/bin/bash", script, "logs"], cwd=tmp_path, check=True, capture_output=True)
    node_of = {
        cpu: number
        for number, node in enumerate(machines.describe(name)["nodes"].values())
        for cpu in parse_cpu_list(node["cpus"])
    }
    used = []
    for slot in range(count):
        words = (tmp_path / f"logs/member-{slot}.log").read_text().split()
        cpu = int(words[words.index("--cpus") + 1])
        assert words[words.index("--mempolicy") + 1] == f"bind:{node_of[cpu]}"
        assert "OMP_NUM_THREADS=1" in words
        used.append(cpu)
    assert sorted(used) == list(range(count))
