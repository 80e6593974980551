"""Machines of 192 and 384 CPUs: process counts, slots and the launch script, on captured ones.

What a slot must be is read from the machine's description, not from the code that placed it.
"""

import subprocess
from pathlib import Path

import pytest
from msgspec import convert, structs

import jobs
import machines
from made_records import made_plan
from scaling_study.common.topology import format_cpu_list, parse_cpu_list
from scaling_study.config.config import load_config
from scaling_study.config.plan import make_plan
from scaling_study.host import probe
from scaling_study.records.analysis import Recommendation
from scaling_study.records.codec import plain
from scaling_study.report import study
from scaling_study.report.launch_script import render_launch_script
from scaling_study.runner import headroom, resolve

LARGE = {"epyc-9654-2s-nps1": 384, "epyc-9654-2s-nps4": 384, "xeon-8260-8s-snc2": 192}
PLACEMENTS = ("none", "compact", "cores", "spread", "per_l3")
BOUND = PLACEMENTS[1:]


def machine(name):
    found = probe.read_machine(machines.root(name))
    libraries = {**found.libraries, "numa": "/usr/lib/libnuma.so.1"}
    return structs.replace(found, libraries=libraries)


def resolved(name, monkeypatch, placement="none", membind="none", **launch):
    """A launch of one member more than the machine has CPUs, and what was asked beforehand."""
    checked = []
    monkeypatch.setattr(headroom, "check", checked.extend)
    axes = {"placement": placement, "membind": membind, **launch}
    plan = make_plan(
        load_config(
            jobs.config(jobs.WORKLOADS / "plain_loop.py", launch=axes) | {"processes": "auto"}
        )
    )
    here = machine(name)
    counts = resolve.counts(plan, here)
    asked = plan.by_id[plan.baseline].axes
    return counts, resolve.resolve(plan, asked, here, Path("builds"), counts), checked


def groups(name, kind):
    """The L3 or node of every CPU, from the machine's description."""
    described = machines.describe(name)
    lists = {
        "l3": described["l3"],
        "node": [node["cpus"] for node in described["nodes"].values()],
        "socket": described["sockets"].values(),
        "core": [
            ",".join(map(str, core))
            for entry in described.get("siblings", [])
            for core in zip(*map(parse_cpu_list, entry), strict=True)
        ],
    }[kind]
    return {cpu: number for number, text in enumerate(lists) for cpu in parse_cpu_list(text)}


@pytest.mark.parametrize("name", LARGE)
def test_the_counts_end_with_one_process_more_than_there_are_cpus(name, monkeypatch):
    counts, found, _ = resolved(name, monkeypatch)
    assert counts[0] == 1
    assert counts[-3:] == [LARGE[name] - 1, LARGE[name], LARGE[name] + 1]
    assert len(counts) <= 28
    assert len(found.members) == LARGE[name] + 1


@pytest.mark.parametrize("placement", BOUND[:3])
@pytest.mark.parametrize("name", LARGE)
def test_every_cpu_has_one_member_and_only_the_last_member_shares_its_own(
    name, placement, monkeypatch
):
    _, found, _ = resolved(name, monkeypatch, placement)
    used = [slot.cpus for slot in found.slots]
    assert sorted(map(int, used[:-1])) == list(range(LARGE[name]))
    assert used[-1] == used[0]
    assert [slot.oversubscribed for slot in found.slots] == [False] * LARGE[name] + [True]
    assert used == [member.cpus for member in found.members]


@pytest.mark.parametrize("name", LARGE)
def test_l3_slots_are_the_l3s_of_the_description(name, monkeypatch):
    _, found, _ = resolved(name, monkeypatch, "per_l3")
    described = machines.describe(name)["l3"]
    asked = [format_cpu_list(parse_cpu_list(cpus)) for cpus in described]
    first = [slot.cpus for slot in found.slots[: len(asked)]]
    assert sorted(first) == sorted(asked)


@pytest.mark.parametrize("name", ["epyc-9654-2s-nps1", "epyc-9654-2s-nps4"])
@pytest.mark.parametrize("placement", ["cores", "spread"])
def test_no_core_has_two_members_before_all_cores_have_one(name, placement, monkeypatch):
    _, found, _ = resolved(name, monkeypatch, placement)
    core_of = groups(name, "core")
    cores = [core_of[int(slot.cpus)] for slot in found.slots[:192]]
    assert len(set(cores)) == 192


@pytest.mark.parametrize("name", LARGE)
def test_spread_uses_every_socket_then_every_node_then_every_l3(name, monkeypatch):
    _, found, _ = resolved(name, monkeypatch, "spread")
    for kind in ("socket", "node", "l3"):
        group_of = groups(name, kind)
        count = len(set(group_of.values()))
        first = {group_of[int(slot.cpus)] for slot in found.slots[:count]}
        assert len(first) == count, kind


@pytest.mark.parametrize("placement", BOUND)
@pytest.mark.parametrize("name", LARGE)
def test_local_memory_is_that_of_the_cpus_own_node(name, placement, monkeypatch):
    _, found, _ = resolved(name, monkeypatch, placement, "local")
    nodes = {
        cpu: int(node)
        for node, described in machines.describe(name)["nodes"].items()
        for cpu in parse_cpu_list(described["cpus"])
    }
    for slot, member in zip(found.slots, found.members, strict=True):
        its = format_cpu_list({nodes[cpu] for cpu in parse_cpu_list(slot.cpus)})
        assert slot.policy == member.mempolicy == f"bind:{its}"


@pytest.mark.parametrize("name", LARGE)
def test_interleaved_memory_is_of_all_nodes(name, monkeypatch):
    _, found, _ = resolved(name, monkeypatch, "none", "interleave")
    nodes = format_cpu_list(map(int, machines.describe(name)["nodes"]))
    assert {member.mempolicy for member in found.members} == {f"interleave:{nodes}"}


def test_a_run_says_what_is_unusual_about_the_nodes(monkeypatch):
    plan = make_plan(load_config(jobs.config(jobs.WORKLOADS / "plain_loop.py")))
    said = "NUMA nodes of this machine: several list the same CPUs: they count as one"
    odd, usual = map(
        probe.read_machine, map(machines.root, ("xeon-e5472-shared-cpus", "epyc-9654-2s-nps1"))
    )
    monkeypatch.setattr(study.probe, "read_machine", lambda: odd)
    assert said in study.outline(plan, 3, 0)
    monkeypatch.setattr(study.probe, "read_machine", lambda: usual)
    assert "NUMA" not in study.outline(plan, 3, 0)


@pytest.mark.parametrize(("intra_op", "threads"), [(1, 385), (4, 4 * 385), ("default", 192 * 385)])
def test_what_385_members_need_is_asked_beforehand(intra_op, threads, monkeypatch):
    """The default launch starts a thread for each core in every member."""
    _, _, checked = resolved("epyc-9654-2s-nps4", monkeypatch, intra_op=intra_op)
    assert checked == [headroom.Need(385, threads, "exec")]


@pytest.mark.parametrize("name", ["xeon-8260-8s-snc2", "epyc-9654-2s-nps4"])
def test_the_launch_script_gives_each_member_its_cpu_and_its_node(name, tmp_path, monkeypatch):
    """The script itself runs, with a program in the place of the binder that says what it got."""
    _, found, _ = resolved(name, monkeypatch, "spread", "local")
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
    script.write_text(
        render_launch_script(
            convert(recommendation, Recommendation), plan, python="python",
            binder=["/bin/echo"], queue=["/bin/false"], folder=str(tmp_path), kept=("PATH",),
            switches_file=Path("none"),
            imports_file=Path("none"),
        )
    )  # fmt: skip
    subprocess.run(["/bin/bash", script, "logs"], cwd=tmp_path, check=True, capture_output=True)
    node_of = groups(name, "node")
    used = []
    for slot in range(count):
        words = (tmp_path / f"logs/member-{slot}.log").read_text().split()
        cpu = int(words[words.index("--cpus") + 1])
        assert words[words.index("--mempolicy") + 1] == f"bind:{node_of[cpu]}"
        assert "OMP_NUM_THREADS=1" in words
        used.append(cpu)
    assert sorted(used) == list(range(count))


@pytest.mark.parametrize(("intra_op", "more"), [(1, False), (192, False), (193, True), (384, True)])
def test_more_threads_than_cores_are_had_without_mkls_limit(intra_op, more, monkeypatch):
    _, found, _ = resolved("epyc-9654-2s-nps1", monkeypatch, intra_op=intra_op)
    assert ("MKL_DYNAMIC" in found.launch.env) is more
    assert ("MKL_DYNAMIC" in found.requested_env) is more
