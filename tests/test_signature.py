"""Signatures of planted T(n): kinds, knees, and boundaries that must not be named falsely."""

import numpy as np
import pandas as pd
import pytest

from scaling_study.analysis.signature import signature
from scaling_study.common.topology import Cpu, Node, Topology, format_cpu_list
from scaling_study.config import process_counts

DRAWS = 60
COHORT_NOISE = 0.03
"""Between cohorts: level only."""


def machine(cpus, per_l3=None, per_node=None, smt=False, quota=None):
    per_l3, per_node = per_l3 or cpus, per_node or cpus
    cores = cpus // 2 if smt else cpus
    units = [
        Cpu(cpu=cpu, core=cpu % cores, socket=0, node=cpu % cores // per_node,
            l3=cpu % cores // per_l3 * per_l3)
        for cpu in range(cpus)
    ]  # fmt: skip
    nodes = sorted({unit.node for unit in units})
    topology = Topology(
        tuple(units), tuple(Node(node, 2**36, dict.fromkeys(nodes, 10)) for node in nodes)
    )
    return {
        "topology": topology.to_dict(),
        "allowed_cpus": format_cpu_list(range(cpus)),
        "allowed_nodes": format_cpu_list(nodes),
        "quota_cpus": quota,
    }


MACHINES = {
    2: machine(2),
    16: machine(16, per_l3=8),
    192: machine(192, per_l3=8, per_node=48, smt=True),
}
LADDERS = {
    size: process_counts.resolve("auto", Topology.from_dict(one["topology"]), None)
    for size, one in MACHINES.items()
}
LADDERS[2] = (1, 2, 3, 4, 5, 6)  # the automatic one has three counts


def test_the_machines_are_what_the_tests_take_them_for():
    found = {
        size: process_counts.boundaries(Topology.from_dict(one["topology"]), None)
        for size, one in MACHINES.items()
    }
    assert found[2] == {2: ("CPUs",)}
    assert found[16] == {8: ("L3",), 16: ("CPUs",)}
    assert [*found[192]] == [8, 16, 48, 96, 192]


def tables(shape, counts, *, noise=0.01, replicates=3, seed=0, cpu_use=1.0):
    """Tables of a launch whose step takes shape(n), in units of 20 ms."""
    rng = np.random.default_rng(seed)
    n = np.array(counts, dtype=float)
    rows = []
    for replicate in range(replicates):
        level = rng.normal(0, COHORT_NOISE)
        step_s = 0.02 * shape(n) * np.exp(level + rng.normal(0, noise, len(n)))
        rows += [
            {"n": int(count), "replicate": replicate, "steps_per_s": count / time}
            for count, time in zip(counts, step_s, strict=True)
        ]
    rates = pd.DataFrame(rows)
    points = pd.DataFrame({"n": counts, "cpu_use": [cpu_use * count for count in counts]})
    return points, rates


def found(shape, size, counts=None, **noise):
    return signature(*tables(shape, counts or LADDERS[size], **noise), MACHINES[size])


def flat(n):
    return np.ones_like(n)


def hinge(knee, exponent=1.0):
    return lambda n: np.maximum(1.0, n / knee) ** exponent


def usl(contention, coherence):
    return lambda n: 1 + contention * (n - 1) + coherence * n * (n - 1)


def smooth(knee, sharpness):
    return lambda n: (1 + (n / knee) ** sharpness) ** (1 / sharpness)


# ---- kinds


@pytest.mark.parametrize("size", MACHINES)
@pytest.mark.parametrize("noise", [0.005, 0.03])
def test_what_does_not_grow_is_flat(size, noise):
    kinds = [found(flat, size, noise=noise, seed=seed)["kind"] for seed in range(DRAWS)]
    assert kinds.count("flat") >= 0.95 * DRAWS
    assert set(kinds) <= {"flat", "not clear"}


@pytest.mark.parametrize(
    ("size", "knee"), [(2, 2), (16, 8), (16, 5), (192, 8), (192, 30), (192, 48)]
)
@pytest.mark.parametrize(
    ("exponent", "kind"),
    [(0.6, "less than proportional"), (1.0, "proportional past a knee"),
     (1.5, "worse than proportional")],
)  # fmt: skip
def test_growth_past_a_knee(size, knee, exponent, kind):
    results = [found(hinge(knee, exponent), size, seed=seed) for seed in range(DRAWS)]
    kinds = [one["kind"] for one in results]
    assert kinds.count(kind) >= 0.9 * DRAWS


@pytest.mark.parametrize("size", MACHINES)
def test_growth_from_the_first_process_on(size):
    result = found(lambda n: n, size)
    assert result["kind"] == "proportional past a knee"
    assert "from the first process on it grows in proportion" in result["text"]
    assert result["boundary"] is None


def test_a_result_says_what_it_found():
    result = found(hinge(8), 16, noise=0.003)
    assert result["knee"]["low"] <= 8 <= result["knee"]["high"]
    assert result["exponent"]["low"] <= 1 <= result["exponent"]["high"]
    assert result["boundary"] == {"name": "L3", "n": 8}
    assert "A step takes 2.13 times as long from 1 process to 17" in result["text"]
    assert "past a knee at 8" in result["text"]
    assert "coincides with a boundary of the machine: L3 (8 processes)" in result["text"]


@pytest.mark.parametrize(
    ("shape", "kind"), [(flat, "flat"), (hinge(2), "not enough points")], ids=["flat", "grows"]
)
def test_three_counts_tell_no_knee(shape, kind):
    result = found(shape, 2, counts=(1, 2, 3))
    assert result["kind"] == kind
    assert result["knee"] is result["boundary"] is result["exponent"] is None


def test_one_count_tells_nothing():
    assert found(flat, 2, counts=(1,))["kind"] == "not enough points"
    points, rates = tables(flat, (1, 2))
    assert signature(points, rates.iloc[:0], MACHINES[2])["kind"] == "not enough points"


def test_noise_as_large_as_the_growth_is_not_clear():
    kinds = {found(hinge(14), 16, noise=0.2, seed=seed)["kind"] for seed in range(50)}
    assert "not clear" in kinds
    assert kinds <= {"not clear", "flat"}


# ---- intervals


@pytest.mark.long
@pytest.mark.parametrize("replicates", [1, 3, 5])
@pytest.mark.parametrize(("size", "knee"), [(2, 2.0), (16, 6.0), (192, 37.0), (192, 48.0)])
def test_the_intervals_cover_the_truth(size, knee, replicates):
    results = [
        found(hinge(knee), size, noise=0.02, replicates=replicates, seed=seed)
        for seed in range(3 * DRAWS)
    ]
    bent = [one for one in results if one["knee"]]
    assert len(bent) >= 0.95 * len(results)
    for name, truth in (("knee", knee), ("exponent", 1.0)):
        inside = [one[name]["low"] <= truth <= one[name]["high"] for one in bent]
        assert np.mean(inside) >= 0.9, name


def test_more_replicates_give_a_shorter_interval():
    def width(replicates):
        knees = [
            found(hinge(37), 192, noise=0.03, replicates=replicates, seed=seed)["knee"]
            for seed in range(30)
        ]
        return np.median([knee["high"] / knee["low"] for knee in knees])

    assert width(10) < 0.8 * (width(2) - 1) + 1


def test_counts_that_a_replicate_lacks_do_no_harm():
    points, rates = tables(hinge(8), LADDERS[16], replicates=3)
    gappy = rates.drop(rates.index[[2, 9, 14, 20]])
    result = signature(points, gappy, MACHINES[16])
    assert result["boundary"] == {"name": "L3", "n": 8}


# ---- boundaries: what is named, and what must not be


@pytest.mark.parametrize(
    ("size", "knee", "name"),
    [(2, 2, "CPUs"), (16, 8, "L3"), (192, 16, "L3"), (192, 48, "NUMA node (one per core)")],
)
def test_a_knee_at_a_boundary_names_it(size, knee, name):
    names = [
        (found(hinge(knee), size, noise=0.01, seed=seed)["boundary"] or {}).get("name")
        for seed in range(DRAWS)
    ]
    assert names.count(name) >= 0.8 * DRAWS
    assert set(names) <= {name, None}


ELSEWHERE = {
    2: [flat, lambda n: n, hinge(1.4), hinge(2.9), hinge(3.5), usl(0.3, 0.02)],
    16: [flat, lambda n: n, hinge(3), hinge(5), hinge(11.5), usl(0.05, 0.004), smooth(6, 2)],
    192: [
        flat, lambda n: n, hinge(3), hinge(11), hinge(28), hinge(70), hinge(70, 0.5),
        hinge(130), usl(0.02, 1e-4), usl(0.001, 2e-4), smooth(30, 2), smooth(70, 4),
        smooth(48, 1.5),
    ],
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("noise", [0.01, 0.04])
@pytest.mark.parametrize("size", MACHINES)
def test_a_boundary_is_seldom_named_where_none_is(size, noise):
    named = {}
    for at, shape in enumerate(ELSEWHERE[size]):
        results = [found(shape, size, noise=noise, seed=seed) for seed in range(DRAWS // 2)]
        named[at] = np.mean([one["boundary"] is not None for one in results])
    assert np.mean([*named.values()]) <= 0.02
    assert max(named.values()) <= 0.08


def test_members_of_several_cpus_are_compared_only_if_it_is_known_how_many():
    counts = (1, 2, 3, 4, 5, 6, 8)
    points, rates = tables(hinge(4), counts, cpu_use=3.6)
    assert signature(points, rates, MACHINES[16])["boundary"] is None
    result = signature(points, rates, MACHINES[16], cpus_per_process=4)
    assert result["boundary"] == {"name": "CPUs", "n": 4}


def test_a_quota_is_a_boundary_where_it_stands():
    limited = {**MACHINES[16], "quota_cpus": 5.5}
    points, rates = tables(hinge(5.5), (1, 2, 3, 4, 5, 6, 7, 8), noise=0.004)
    assert signature(points, rates, limited)["boundary"] == {"name": "CPU quota", "n": 5.5}
    points, rates = tables(hinge(8), (1, 2, 4, 6, 7, 8, 9, 10, 12), noise=0.004)
    assert signature(points, rates, limited)["boundary"] is None
