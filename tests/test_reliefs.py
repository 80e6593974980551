"""Which reliefs are tried on which reference, and why others are not."""

import pytest

from machines import machine
from scaling_study.configuring.axes_table import DEFAULTS, read_value
from scaling_study.experimenting.reliefs import RELIEFS, Reference, choose
from scaling_study.member.changes import CHANGES
from scaling_study.probing.axes import AXES

MEMBER = {
    "minor_faults": 10,
    "active_s": 2.0,
    "trainer_system_s": 0.01,
    "load_s": 0.0,
    "collect_s": 0.0,
    "step_us": [10_000] * 100,
}

ATTESTATION = {"intra_op": 1, "changes": dict.fromkeys(CHANGES, False)}


def reference(*, axes=None, attestation=None, on="vm-no-l3", member=None):
    return Reference(
        axes={**DEFAULTS, **(axes or {})},
        machine=machine(on),
        attestation={
            "intra_op": 1,
            "changes": dict.fromkeys(CHANGES, False),
            **(attestation or {}),
        },
        n=2,
        windows=[{"members": [{**MEMBER, **(member or {})}]}],
    )


def chosen(effort="quick", **options):
    found, left = choose(reference(**options), effort)
    names = [relief.name for relief in found]
    assert not set(names) & {item["relief"] for item in left}
    assert len(names) + len(left) == len(RELIEFS)
    assert all(item["reason"] for item in left)
    return names


def test_every_relief_is_a_launch_that_a_config_could_name():
    for relief in RELIEFS:
        for name, value in relief.axes.items():
            assert read_value(name, value, files=False) == value
            assert name in {*AXES, "placement", "membind"}
        assert bool(relief.axes) != (relief.change is not None)
        assert relief.change is None or relief.change in CHANGES
    assert len({relief.name for relief in RELIEFS}) == len(RELIEFS)


def test_one_thread_a_small_machine_no_loader_no_faults():
    assert chosen() == ["pinned", "flush_denormals", "openblas"]


def test_threads_bring_their_reliefs():
    assert chosen(attestation={"intra_op": 2})[:2] == ["passive", "one_thread"]
    passive = {"wait_policy": "passive"}
    assert chosen(attestation={"intra_op": 2}, axes=passive)[0] == "one_thread"


@pytest.mark.parametrize(
    ("member", "relief"),
    [
        # 40,000 faults in two seconds: 1% of the time at half a microsecond each
        ({"minor_faults": 40_001}, "large_thresholds"),
        ({"trainer_system_s": 0.1}, "large_thresholds"),
        ({"load_s": 0.06}, "cached_batches"),
        ({"collect_s": 0.06}, "no_collector"),
    ],
)
def test_what_the_counters_show_decides(member, relief):
    assert relief in chosen(member=member)
    assert relief not in chosen()


def test_a_launch_that_is_the_relief_already_gets_its_opposite():
    axes = {"placement": "cores", "allocator": "jemalloc", "blas": "blis", "isa": "avx2"}
    names = chosen(axes={**axes, "launcher": "dask"})
    assert {"unpinned", "glibc", "bundled_blas", "isa_default", "exec"} <= set(names)
    assert "pinned" not in names


def test_caches_and_nodes_count_where_there_are_several():
    assert {"spread", "per_l3", "local_memory"} <= set(chosen(on="epyc-9654-2s-nps4"))
    _, left = choose(reference(), "quick")
    reasons = {item["relief"]: item["reason"] for item in left}
    assert reasons["per_l3"] == "only one last-level cache"
    assert "memory node" in reasons["local_memory"]


def test_a_quick_diagnosis_tries_with_one_process_what_slows_each_alike():
    by_name = {relief.name: relief for relief in RELIEFS}
    assert by_name["flush_denormals"].counts(8, "quick") == [1]
    assert by_name["flush_denormals"].counts(8, "full") == [1, 8]
    assert by_name["passive"].counts(8, "quick") == [1, 8]
    assert by_name["passive"].counts(1, "quick") == [1]


def test_full_tries_what_quick_leaves_out():
    quick, full = chosen(), chosen("full")
    assert set(quick) < set(full)
    assert {"huge_pages", "blis"} <= set(full) - set(quick)
