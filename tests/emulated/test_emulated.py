"""Two sockets, four nodes, SMT and several L3s: what the project does there, as its kernel saw it.

Everything ran inside emulated machines (conftest.py boots them, inside.py is what ran). No time
that was measured there means anything, and none is looked at.
"""

import pytest
from msgspec import convert

import machines
import shapes
from scaling_study.common.topology import Topology, format_cpu_list, parse_cpu_list

pytestmark = pytest.mark.emulated

NAMES = tuple(shapes.MACHINES)
PLACEMENTS = ("none", "compact", "cores", "spread", "per_l3", "lists")
MEMBINDS = ("none", "local", "interleave", "listed")
REFUSED = {("two", "none", "local"), ("uneven", "none", "local"), ("uneven", "lists", "local")}
LAUNCHES = [
    (name, placement, membind) for name in NAMES for placement in PLACEMENTS for membind in MEMBINDS
]
PAGES = {"data": 1024, "weights": 256, "gradients": 256, "momentum": 256}

every_launch = pytest.mark.parametrize(
    ("name", "placement", "membind"), [one for one in LAUNCHES if one not in REFUSED]
)


def members(found, name, placement, membind):
    """The members of one launch, each with what it was to get and what the kernel says."""
    text = shapes.NODES[name] if membind == "listed" else membind
    (one,) = [
        one
        for one in found(name, "placements")
        if (one["placement"], one["membind"]) == (placement, text)
    ]
    assert "reason" not in one, one
    return one["members"]


def own_nodes(name, cpus):
    """The nodes that a slot's CPUs take memory from: any for a member that is not bound."""
    if cpus is None:
        return shapes.MEMORY_NODES[name]
    return {shapes.NODE_OF_CPU[name][cpu] for cpu in parse_cpu_list(cpus)}


# ---- the probe


@pytest.mark.parametrize("name", NAMES)
def test_the_probe_finds_the_machine_that_was_emulated(found, name):
    machine, shape = found(name, "probed"), shapes.MACHINES[name]
    topology = convert(machine["topology"], Topology, str_keys=True)
    each = shape.cores * shape.threads
    for number, cpu in enumerate(topology.cpus):
        assert cpu.cpu == number
        assert cpu.core == number - number % shape.threads
        assert cpu.l3 == number - number % each
        assert cpu.socket == number // (each * shape.dies)
        assert number in parse_cpu_list(shape.nodes[cpu.node].cpus)
    assert len(topology.cpus) == shape.cpus
    assert machine["smt"] == (shape.threads > 1)
    assert machine["virtual"]


@pytest.mark.parametrize("name", NAMES)
def test_the_probe_finds_nodes_without_memory_and_without_cpus(found, name):
    topology = convert(found(name, "probed")["topology"], Topology, str_keys=True)
    shape = shapes.MACHINES[name]
    assert set(topology.memory_nodes) == shapes.MEMORY_NODES[name]
    for node, described in zip(topology.nodes, shape.nodes, strict=True):
        # The kernel keeps some of a node for itself.
        assert 0.7 * described.memory_mib <= node.memory_bytes / 2**20 <= described.memory_mib
        assert tuple(node.distances.values()) == shape.distances[node.node]


@pytest.mark.parametrize("name", NAMES)
def test_the_captured_machine_of_the_ordinary_tests_is_this_one(found, name):
    captured = machines.topology(f"emulated-{name}")
    probed = convert(found(name, "probed")["topology"], Topology, str_keys=True)
    assert captured.cpus == probed.cpus
    assert captured.memory_nodes == probed.memory_nodes
    assert [node.distances for node in captured.nodes] == [node.distances for node in probed.nodes]


# ---- every placement with every memory policy


@every_launch
def test_each_member_and_all_its_threads_have_the_mask_of_its_slot(found, name, placement, membind):
    everywhere = f"0-{shapes.MACHINES[name].cpus - 1}"
    got = members(found, name, placement, membind)
    assert [one["cpus"] for one in got] == shapes.CPUS[name][placement]
    for one in got:
        assert one["kernel"]["masks"] == [one["cpus"] or everywhere]
        assert one["kernel"]["threads"] >= 2


@every_launch
def test_each_tensor_has_the_policy_that_was_asked_for(found, name, placement, membind):
    for one in members(found, name, placement, membind):
        policy = {
            "none": "default",
            "local": f"bind:{format_cpu_list(own_nodes(name, one['cpus']))}",
            "interleave": f"interleave:{format_cpu_list(shapes.INTERLEAVED[name])}",
            "listed": f"bind:{shapes.NODES[name]}",
        }[membind]
        assert one["policy"] == policy
        assert set(one["kernel"]["policies"].values()) == {policy}
        assert set(one["kernel"]["policies"]) == set(PAGES)


@every_launch
def test_each_page_of_each_tensor_lies_on_the_nodes_asked_for(found, name, placement, membind):
    """Without a policy too: there it is the first touch, by the member's own CPUs."""
    for one in members(found, name, placement, membind):
        listed = set(parse_cpu_list(shapes.NODES[name]))
        nodes = {
            "none": own_nodes(name, one["cpus"]),
            "local": own_nodes(name, one["cpus"]),
            "interleave": shapes.INTERLEAVED[name],
            "listed": listed,
        }[membind]
        for tensor, pages in one["kernel"]["pages"].items():
            lies = {int(node): count for node, count in pages.items()}
            assert sum(lies.values()) >= PAGES[tensor] - 1, (one["slot"], tensor)
            assert set(lies) <= nodes, (one["slot"], tensor)
            if membind == "interleave":
                assert set(lies) == nodes, (one["slot"], tensor)


@pytest.mark.parametrize("name", NAMES)
def test_local_memory_of_a_member_without_cpus_of_its_own_is_refused(found, name):
    (one,) = [
        one
        for one in found(name, "placements")
        if (one["placement"], one["membind"]) == ("none", "local")
    ]
    assert "placement none does not bind it" in one["reason"]


def test_local_memory_where_there_is_none_names_the_nearest_node_that_has_some(found):
    (one,) = [
        one
        for one in found("uneven", "placements")
        if (one["placement"], one["membind"]) == ("lists", "local")
    ]
    assert "NUMA node 1 is not there, has no memory" in one["reason"]
    assert 'set membind to "0"' in one["remedy"]


def test_a_fresh_interpreter_is_bound_before_it_begins(found):
    """The exec launcher; in all other tests here members are forked."""
    (one,) = found("two", "fresh")
    assert one["kernel"]["masks"] == ["8,10"]
    assert set(one["kernel"]["policies"].values()) == {"bind:2"}
    assert {node for pages in one["kernel"]["pages"].values() for node in pages} == {"2"}


# ---- a counts of 1, 16 and 24 members on 16 CPUs


@pytest.fixture
def counts(found):
    return found("two", "counts")


def test_all_24_members_of_the_highest_count_got_what_they_were_to_get(counts):
    read_back, _ = counts["readback"]
    assert [check for check in read_back["checks"] if not check["ok"]] == []
    (head,) = counts["cohort"]
    order = [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15]
    for member, slot, cpu in zip(read_back["members"], head["slots"], order * 2, strict=False):
        assert member["slot"] == slot["slot"]
        assert member["cpus"] == [cpu]
        assert member["policy"] == slot["policy"] == f"bind:{shapes.NODE_OF_CPU['two'][cpu]}"
    assert len(read_back["members"]) == len(head["slots"]) == 24


def test_members_beyond_the_cpus_are_labelled_oversubscribed(counts):
    (head,) = counts["cohort"]
    assert [slot["oversubscribed"] for slot in head["slots"]] == [False] * 16 + [True] * 8


def test_each_window_has_its_members_and_nobody_else_trained(counts):
    windows = {window["n"]: window for window in counts["window"]}
    assert sorted(windows) == [1, 16, 24]
    for n, window in windows.items():
        assert [member["slot"] for member in window["members"]] == list(range(n))
        assert min(member["steps"] for member in window["members"]) >= 3
        assert window["machine"]["trainers_cpus"] == min(n, 16)
        assert "sleeping_member_ran" not in window["flags"]
    assert counts["event"] == []
    assert [end["status"] for end in counts["end"]] == ["complete"]


def test_siblings_have_threads_too_where_that_is_asked(found):
    """Of itself MKL, and torch with it, takes a thread for each of the 8 cores at most."""
    read_back, _ = found("two", "threads")["readback"]
    checks = {check["axis"]: check for check in read_back["checks"]}
    assert checks["intra_op"]["effective"] == "9"
    assert checks["intra_op"]["ok"]


def test_loader_workers_have_the_rest_of_their_member_s_node(found):
    records = found("two", "loaders")
    read_back, _ = records["readback"]
    assert [check for check in read_back["checks"] if not check["ok"]] == []
    assert [member["cpus"] for member in read_back["members"]] == [[0], [8], [4], [12]]
    workers = [member["switches"]["loader_cpus"] for member in read_back["members"]]
    assert workers == ["1-3", "9-11", "5-7", "13-15"]
    assert [end["status"] for end in records["end"]] == ["complete"]


# ---- inside a cgroup: CPUs 4-7 and 12-13, nodes 1 and 3, 2.5 CPUs' time, 1 GiB


@pytest.fixture
def limited(found):
    return found("two", "in_cgroup")


def test_the_probe_sees_the_limits_of_the_cgroup(limited):
    machine = limited["machine"]
    assert machine["allowed_cpus"] == "4-7,12-13"
    assert machine["allowed_nodes"] == "1,3"
    assert machine["quota_cpus"] == 2.5
    assert machine["memory_limit_bytes"] == 2**30
    assert machine["cgroup_version"] == 2
    assert len(machine["topology"]["cpus"]) == 16


def test_what_the_cgroup_does_not_allow_is_refused_with_what_it_does(limited):
    cpus, nodes = limited["refused"]
    assert "usable are 4-7,12-13" in cpus["reason"]
    assert "NUMA node 0 is not there" in nodes["reason"]
    assert "nodes with memory are 1,3" in nodes["reason"]


def test_a_study_in_the_cgroup_ends_at_its_quota_and_keeps_to_its_cpus(limited):
    records = limited["records"]
    (head,) = records["cohort"]
    read_back, _ = records["readback"]
    assert head["process_counts"] == [1, 2, 3, 4]
    assert [member["cpus"] for member in read_back["members"]] == [[4], [5], [6], [7]]
    assert {member["policy"] for member in read_back["members"]} == {"bind:1"}
    assert [check for check in read_back["checks"] if not check["ok"]] == []
    assert [end["status"] for end in records["end"]] == ["complete"]
    assert sorted(window["n"] for window in records["window"]) == [1, 2, 3, 4]


def test_the_time_that_the_quota_took_is_counted_in_the_cgroup(limited):
    windows = limited["records"]["window"]
    assert all(window["machine"]["throttled_s"] is not None for window in windows)
