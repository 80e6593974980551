import pytest
from hypothesis import given
from hypothesis import strategies as st

import machines
from scaling_study.common.topology import (
    NO_NODE,
    SHARED_NODE,
    Cpu,
    CpuText,
    Node,
    NodeText,
    Topology,
    build,
    format_cpu_list,
    parse_cpu_list,
)


@given(st.sets(st.integers(0, 1000)))
def test_cpu_lists_survive_the_round_trip(ids):
    assert parse_cpu_list(format_cpu_list(ids)) == tuple(sorted(ids))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", ()),
        ("\n", ()),
        ("0", (0,)),
        ("0-3,8\n", (0, 1, 2, 3, 8)),
        ("8,0-1", (0, 1, 8)),
        (" 2 , 4 ", (2, 4)),
    ],
)
def test_cpu_lists_are_read(text, ids):
    assert parse_cpu_list(text) == ids


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "0-3:2", "1;2", "0-99999999999", "1 2"])
def test_what_is_no_cpu_list_is_refused_and_quoted(text):
    with pytest.raises(ValueError, match=text.split(",")[0]):
        parse_cpu_list(text)


SHARED = "several list the same CPUs: they count as one"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("container-v2", "1 socket, 1 NUMA node, 2 L3s, 16 cores, 32 CPUs"),
        ("emulated-two", "2 sockets, 4 NUMA nodes, 4 L3s, 8 cores, 16 CPUs"),
        ("emulated-uneven", "2 sockets, 4 NUMA nodes (without CPUs: 3), 2 L3s, 8 cores, 8 CPUs"),
        ("epyc-7451-2s", "2 sockets, 8 NUMA nodes, 16 L3s, 48 cores, 96 CPUs"),
        ("epyc-9654-2s-nps1", "2 sockets, 2 NUMA nodes, 24 L3s, 192 cores, 384 CPUs"),
        ("epyc-9654-2s-nps4", "2 sockets, 8 NUMA nodes, 24 L3s, 192 cores, 384 CPUs"),
        ("core-i7-1370p", "1 socket, 1 NUMA node, 1 L3, 14 cores (6 fast, 8 slower), 20 CPUs"),
        ("gb10", "1 socket, 1 NUMA node, 2 L3s, 20 cores (10 fast, 10 slower), 20 CPUs"),
        ("graviton3", "1 socket, 1 NUMA node, 1 L3, 64 cores, 64 CPUs"),
        ("kunpeng-920-2s", "2 sockets, 4 NUMA nodes, 4 L3s, 128 cores, 128 CPUs"),
        ("gh200", "1 socket, 9 NUMA nodes (without CPUs: 1-8), 1 L3, 72 cores, 72 CPUs"),
        (
            "itanium-17-nodes",
            "64 sockets, 17 NUMA nodes (without CPUs: 16), 64 L3s, 128 cores, 128 CPUs",
        ),
        (
            "memory-apart-from-cpus",
            "2 sockets, 11 NUMA nodes (without CPUs: 4-10), 2 L3s, 8 cores, 8 CPUs",
        ),
        ("opteron-48-sparse-nodes", "4 sockets, 8 NUMA nodes, 8 L3s, 48 cores, 48 CPUs"),
        (
            "power9-gpu-nodes",
            "2 sockets, 8 NUMA nodes (without CPUs: 250-255), 4 L3s, 8 cores, 32 CPUs",
        ),
        ("vm-hybrid", "1 socket, 1 NUMA node, 1 L3, 2 cores, 2 CPUs"),
        ("vm-no-l3", "1 socket, 1 NUMA node, 1 L3, 4 cores, 4 CPUs"),
        ("xeon-4s-offline-cpus", "4 sockets, 1 NUMA node, 4 L3s, 7 cores, 12 CPUs"),
        ("xeon-8260-8s-snc2", "8 sockets, 16 NUMA nodes, 8 L3s, 192 cores, 192 CPUs"),
        ("xeon-e5472-shared-cpus", f"2 sockets, 8 NUMA nodes ({SHARED}), 2 L3s, 8 cores, 8 CPUs"),
        (
            "xeon-max-9480-2s-snc4",
            "2 sockets, 16 NUMA nodes (without CPUs: 8-15), 2 L3s, 112 cores, 224 CPUs",
        ),
        ("xeon-r630-node0-offline", "2 sockets, 1 NUMA node, 2 L3s, 17 cores, 17 CPUs"),
    ],
)
def test_captured_machines_are_understood(name, words):
    assert machines.topology(name).describe() == words


def test_cpus_of_an_offline_node_have_none_and_distances_are_of_all_that_are_possible():
    topology = machines.topology("xeon-r630-node0-offline")
    assert {(cpu.node, cpu.cpu % 2) for cpu in topology.cpus} == {(NO_NODE, 0), (1, 1)}
    assert topology.nodes[0].distances == {1: 10}


def test_nodes_without_cpus_are_kept_with_their_memory_and_distances():
    last = machines.topology("itanium-17-nodes").nodes[-1]
    assert (last.node, last.memory_bytes) == (16, 2**30)
    assert last.distances[0] == 14
    assert last.distances[16] == 10
    power9 = machines.topology("power9-gpu-nodes")
    assert power9.nodes[1].distances == {0: 40, 8: 10, **dict.fromkeys(range(250, 256), 80)}


def test_compact_order_keeps_siblings_side_by_side():
    topology = machines.topology("epyc-9654-2s-nps1")
    assert [cpu.cpu for cpu in topology.compact[:4]] == [0, 192, 1, 193]
    assert topology.smt
    assert not machines.topology("xeon-8260-8s-snc2").smt


def test_a_restricted_topology_keeps_ids_and_forgets_the_rest():
    topology = machines.topology("epyc-9654-2s-nps4").restricted([192, 193, 999], [1])
    assert topology.cpu_ids == (192, 193)
    assert topology.domains("core") == ((192,), (193,))
    assert [cpu.core for cpu in topology.cpus] == [0, 1]
    assert [node.node for node in topology.nodes] == [1]
    assert not topology.smt


def test_a_cpu_about_which_sysfs_is_silent_stands_alone_on_socket_0():
    silent = CpuText(socket=None, siblings=None, l3=None)
    topology = build({3: silent, 1: silent}, {0: NodeText("1,3", "", "10")})
    assert topology == Topology(
        cpus=(
            Cpu(cpu=1, core=1, socket=0, node=0, l3=1),
            Cpu(cpu=3, core=3, socket=0, node=0, l3=1),
        ),
        nodes=(Node(0, 0, {0: 10}),),
    )
    assert topology.memory_nodes == ()


@pytest.mark.parametrize(
    ("row", "distances"),
    [
        ("21 10 16", {1: 10, 3: 16}),
        ("10 16", {1: 10, 3: 16}),
        ("10", {}),
        ("10 16 21 21", {}),
        ("", {}),
    ],
    ids=["possible", "online", "fewer", "more", "empty"],
)
def test_distances_are_those_to_the_nodes_that_a_row_fits(row, distances):
    nodes = {1: NodeText("", "", row), 3: NodeText("", "", row)}
    assert [node.distances for node in build({}, nodes, (0, 1, 3)).nodes] == 2 * [distances]


def test_one_cpu_of_two_nodes_is_enough_to_trust_none():
    text = CpuText(None, None, None)
    nodes = {0: NodeText("0-1", "", "10 20"), 1: NodeText("1-2", "", "20 10")}
    topology = build(dict.fromkeys(range(3), text), nodes)
    assert {cpu.node for cpu in topology.cpus} == {SHARED_NODE}
    offline = build(dict.fromkeys((0, 2), text), nodes)
    assert [cpu.node for cpu in offline.cpus] == [0, 1]


def test_a_node_without_memory_stays_though_no_process_is_allowed_any_on_it():
    uneven = machines.topology("emulated-uneven")
    usable = uneven.restricted([3], [0, 2, 3])
    assert [node.node for node in usable.nodes] == [0, 1, 2, 3]
    assert usable.memory_nodes == (0, 2, 3)
    assert [node.node for node in uneven.restricted([3], [2]).nodes] == [1, 2]
