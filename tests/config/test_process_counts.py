import pytest
from hypothesis import given
from hypothesis import strategies as st

import machines
from scaling_study.config import process_counts


def boundaries(name, quota_cpus=None):
    return process_counts.boundaries(machines.usable(name), quota_cpus)


def auto(name, quota_cpus=None):
    return process_counts.resolve("auto", machines.usable(name), quota_cpus)


def test_384_cpus_with_four_nodes_per_socket():
    assert boundaries("epyc-9654-2s-nps4") == {
        8: ("L3 (one per core)",), 16: ("L3",), 24: ("NUMA node (one per core)",),
        48: ("NUMA node",), 96: ("socket (one per core)",), 192: ("socket", "physical cores"),
        384: ("CPUs",),
    }  # fmt: skip
    powers = {1, 2, 4, 8, 16, 32, 64, 128, 256}
    edges = {n + step for n in (8, 16, 24, 48, 96, 192, 384) for step in (-1, 0, 1)}
    assert auto("epyc-9654-2s-nps4") == tuple(sorted(powers | edges))
    assert len(powers | edges) == 28  # as the documentation says


@pytest.mark.parametrize(
    ("name", "quota_cpus", "counts", "edges"),
    [
        ("vm-hybrid", None, (1, 2, 3), {2: ("CPUs",)}),
        ("vm-hybrid", 0.5, (1, 2), {1: ("CPU quota",)}),
        ("vm-hybrid", 16.0, (1, 2, 3), {2: ("CPUs",)}),
        ("container-v1", None, (1, 2, 3, 4, 5), None),
        ("container-v2", 2.5, (1, 2, 3, 4), {3: ("CPU quota",)}),
    ],
)
def test_the_cpus_that_may_be_used_and_the_quota_decide(name, quota_cpus, counts, edges):
    assert auto(name, quota_cpus) == counts
    assert edges is None or boundaries(name, quota_cpus) == edges


def test_a_count_ends_where_the_fast_cores_do():
    edges = {6: ("fast cores",), 14: ("physical cores",), 20: ("CPUs",)}
    assert boundaries("core-i7-1370p") == edges
    assert boundaries("gb10") == {10: ("L3", "fast cores"), 20: ("CPUs",)}


def test_without_smt_a_domain_has_one_boundary():
    found = {12: ("NUMA node",), 24: ("L3", "socket"), 192: ("CPUs",)}
    assert boundaries("xeon-8260-8s-snc2") == found


@pytest.mark.parametrize("name", machines.NAMES)
def test_an_automatic_list_of_counts_is_short_and_holds_each_boundary(name):
    assert set(boundaries(name)) <= set(auto(name))
    assert len(auto(name)) <= 35


@given(
    name=st.sampled_from(machines.NAMES),
    kept=st.sets(st.integers(0, 383), min_size=1),
    quota_cpus=st.none() | st.floats(0.1, 500),
)
def test_any_part_of_any_machine_has_counts(name, kept, quota_cpus):
    topology = machines.topology(name)
    ids = topology.cpu_ids
    part = topology.restricted({ids[index % len(ids)] for index in kept})
    counts = process_counts.resolve("auto", part, quota_cpus)
    assert list(counts) == sorted(set(counts))
    assert counts[0] == 1
    top = max(process_counts.boundaries(part, quota_cpus))
    assert counts[-1] == top + 1
    assert top <= len(part.cpus)
    assert quota_cpus is None or top < quota_cpus + 1


def test_a_list_is_taken_as_it_is_but_in_order_and_once():
    assert process_counts.resolve([4, 1, 4, 100], machines.usable("vm-hybrid"), None) == (1, 4, 100)
