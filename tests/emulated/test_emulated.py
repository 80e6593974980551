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
