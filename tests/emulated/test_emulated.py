"""Two sockets, four nodes, SMT and several L3s: what the project does there, as its kernel saw it.

Everything ran inside emulated machines (conftest.py boots them, inside.py is what ran). No time
that was measured there means anything, and none is looked at.
"""

import signal
from itertools import product

import pytest
from msgspec import convert

import machines
import shapes
from scaling_study.common.topology import Topology, format_cpu_list, parse_cpu_list

pytestmark = pytest.mark.emulated

REFUSED = {
    ("two", "none"): "placement none does not bind it",
    ("uneven", "none"): "placement none does not bind it",
    ("uneven", "lists"): "NUMA node 1 is not there, has no memory",
}
REFUSED = {(*where, near): why for where, why in REFUSED.items() for near in ("local", "preferred")}
"""Launches without local memory, and why."""
LAUNCHES = product(shapes.MACHINES, shapes.PLACEMENTS, shapes.MEMBINDS)
PAGES = {"data": 1024, "weights": 256, "gradients": 256, "momentum": 256}


def own_nodes(name, cpus):
    """The nodes that a slot's CPUs take memory from: any for a member that is not bound."""
    if cpus is None:
        return shapes.MEMORY_NODES[name]
    return {shapes.NODE_OF_CPU[name][cpu] for cpu in parse_cpu_list(cpus)}


@pytest.mark.parametrize("name", shapes.MACHINES)
def test_the_probe_finds_the_machine_that_was_emulated(found, name):
    """With nodes without memory or without CPUs; the ordinary tests have the same one captured."""
    machine, shape = found(name)["machine"], shapes.MACHINES[name]
    topology = convert(machine["topology"], Topology, str_keys=True)
    each = shape.cores * shape.threads
    for number, cpu in enumerate(topology.cpus):
        assert (cpu.cpu, cpu.core) == (number, number - number % shape.threads)
        assert (cpu.l3, cpu.socket) == (number - number % each, number // (each * shape.dies))
        assert number in parse_cpu_list(shape.nodes[cpu.node].cpus)
    assert len(topology.cpus) == shape.cpus
    assert machine["smt"] == (shape.threads > 1)
    assert machine["virtual"]
    assert set(topology.memory_nodes) == shapes.MEMORY_NODES[name]
    for node, described in zip(topology.nodes, shape.nodes, strict=True):
        # The kernel keeps some of a node for itself.
        assert 0.7 * described.memory_mib <= node.memory_bytes / 2**20 <= described.memory_mib
        assert tuple(node.distances.values()) == shape.distances[node.node]
    captured = machines.topology(f"emulated-{name}")
    assert captured.cpus == topology.cpus
    assert captured.memory_nodes == topology.memory_nodes
    assert [node.distances for node in captured.nodes] == [
        node.distances for node in topology.nodes
    ]


@pytest.mark.parametrize(
    ("name", "placement", "membind"), [one for one in LAUNCHES if one not in REFUSED]
)
def test_each_member_has_the_cpus_and_the_memory_of_its_slot(found, name, placement, membind):
    """By the masks of all its threads, and by the policy and each page of each of its tensors.

    Without a policy pages lie where the member's own CPUs touch them first.
    """
    launch = found(name)["launches"][f"{placement} {membind}"]
    assert "reason" not in launch, launch
    everywhere = f"0-{shapes.MACHINES[name].cpus - 1}"
    interleaved, listed = shapes.INTERLEAVED[name], shapes.NODES[name]
    assert [one["cpus"] for one in launch["members"]] == shapes.CPUS[name][placement]
    for one in launch["members"]:
        own = own_nodes(name, one["cpus"])
        policy, nodes = {
            "none": ("default", own),
            "local": (f"bind:{format_cpu_list(own)}", own),
            "preferred": (f"prefer:{format_cpu_list(own)}", own),
            "interleave": (f"interleave:{format_cpu_list(interleaved)}", interleaved),
            "listed": (f"bind:{listed}", set(parse_cpu_list(listed))),
        }[membind]
        kernel = one["kernel"]
        assert kernel["masks"] == [one["cpus"] or everywhere]
        assert kernel["threads"] >= 2
        assert one["policy"] == policy
        assert kernel["policies"] == dict.fromkeys(PAGES, policy)
        for tensor, pages in kernel["pages"].items():
            lies = {int(node) for node in pages}
            assert sum(pages.values()) >= PAGES[tensor] - 1, (one["slot"], tensor)
            assert lies <= nodes, (one["slot"], tensor)
            if membind == "interleave":
                assert lies == nodes, (one["slot"], tensor)


def test_preferred_memory_goes_on_elsewhere_where_local_memory_is_full(found):
    """A process fills a node, and asks for half as much again."""
    bound, preferred = (found("uneven")["full_node"][mode] for mode in ("bind", "prefer"))
    assert (bound["status"], preferred["status"]) == (-signal.SIGKILL, 0)
    here = preferred["pages"].pop("2")
    assert min(here, sum(preferred["pages"].values())) > 2**16  # 256 MiB


@pytest.mark.parametrize(("name", "placement", "membind"), REFUSED)
def test_local_memory_that_a_member_has_none_of_is_refused(found, name, placement, membind):
    refused = found(name)["launches"][f"{placement} {membind}"]
    assert REFUSED[name, placement, membind] in refused["reason"]
