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


IDS = {"": (), "\n": (), "0": (0,), "0-2,8\n": (0, 1, 2, 8), "8,0-1": (0, 1, 8), " 2 , 4 ": (2, 4)}


@pytest.mark.parametrize(("text", "ids"), IDS.items())
def test_cpu_lists_are_read(text, ids):
    assert parse_cpu_list(text) == ids


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "0-3:2", "1;2", "0-99999999999", "1 2"])
def test_what_is_no_cpu_list_is_refused_and_quoted(text):
    with pytest.raises(ValueError, match=text.split(",")[0]):
        parse_cpu_list(text)


@pytest.mark.parametrize("name", machines.NAMES)
def test_captured_machines_are_understood(name):
    assert machines.topology(name).describe() == machines.describe(name)["words"]


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
    assert (topology.cpu_ids, topology.domains("core")) == ((192, 193), ((192,), (193,)))
    assert [cpu.core for cpu in topology.cpus] == [0, 1]
    assert [node.node for node in topology.nodes] == [1]
    assert not topology.smt


def test_a_cpu_about_which_sysfs_is_silent_stands_alone_on_socket_0():
    silent = CpuText(socket=None, siblings=None, l3=None)
    topology = build({3: silent, 1: silent}, {0: NodeText("1,3", "", "10")})
    assert topology == Topology(
        cpus=tuple(Cpu(cpu, core=cpu, socket=0, node=0, l3=1) for cpu in (1, 3)),
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
