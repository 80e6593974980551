"""Which interventions are tried on which reference, and why others are not."""

import pytest

import made_records
from machines import machine
from scaling_study.experiments import interventions
from scaling_study.experiments.interventions import INTERVENTIONS, Reference, choose
from scaling_study.host.limits import Quota
from scaling_study.launch.axes.axis_table import AXES, DEFAULTS, read_value
from scaling_study.member.changes import CHANGES
from scaling_study.records.readback import Loader, Readback


def reference(
    *, axes=None, readback=None, on="vm-no-l3", member=None, n=2, quota=None, throttled_s=0.5
):
    usual = {"load_s": 0.0, "active_s": 2.0, "trainer_system_s": 0.01, "trainer_runqueue_s": 1.0,
             "runqueue_s": 1.0, "minor_faults": 10}  # fmt: skip
    window = made_records.taken(
        [made_records.member([10_000] * 100, **usual | (member or {}))],
        machine=made_records.machine(throttled_s=throttled_s if quota else None),
    )
    report = {"intra_op": 1, "cpus": [0], "changes": dict.fromkeys(CHANGES, False)}
    return Reference(
        axes={**DEFAULTS, **(axes or {})},
        machine=machine(on),
        readback=Readback(slot=0, **report | (readback or {})),
        n=n,
        windows=[window],
        quota=quota,
    )


def chosen(effort="quick", **options):
    found, left = choose(reference(**options), effort)
    names = [intervention.name for intervention in found]
    assert not set(names) & {item.intervention for item in left}
    assert len(names) + len(left) == len(INTERVENTIONS)
    assert all(item.reason for item in left)
    return names


def test_every_intervention_is_a_launch_that_a_config_could_name():
    for intervention in INTERVENTIONS:
        for name, value in intervention.axes.items():
            assert read_value(name, value, files=False) == value
            assert name in AXES
        what = [intervention.axes, intervention.change, intervention.bursts, intervention.derived]
        assert sum(map(bool, what)) == 1
        assert intervention.change is None or intervention.change in CHANGES
    assert len({intervention.name for intervention in INTERVENTIONS}) == len(INTERVENTIONS)


def test_one_thread_a_small_machine_no_loader_no_faults():
    assert chosen() == ["pinned", "flush_denormals", "openblas"]


def test_threads_bring_their_interventions():
    assert chosen(readback={"intra_op": 2})[:2] == ["passive", "one_thread"]
    passive = {"wait_policy": "passive"}
    assert chosen(readback={"intra_op": 2}, axes=passive)[0] == "one_thread"


@pytest.mark.parametrize(
    ("member", "intervention"),
    [
        # 40,000 faults in two seconds: 1% of the time at half a microsecond each
        ({"minor_faults": 40_001}, "large_thresholds"),
        ({"trainer_system_s": 0.1}, "large_thresholds"),
        ({"load_s": 0.06}, "cached_batches"),
        ({"collect_s": 0.06}, "no_gc"),
    ],
)
def test_what_the_counters_show_decides(member, intervention):
    assert intervention in chosen(member=member)
    assert intervention not in chosen()


def with_loader(**facts):
    usual = {"kind": "DataLoader", "kinds": ["DataLoader"], "workers": 0, "settable": True}
    return {"readback": {"loaders": [Loader(**usual | facts)]}, "member": {"load_s": 0.06}}


def test_what_a_loader_is_decides_which_of_its_interventions_are_tried():
    of_loaders = {
        *("loader_beside", "whole_batches", "no_copies", "quick_switches", "more_workers"),
        "pipeline_elsewhere",
    }

    def tried(**facts):
        return of_loaders.intersection(chosen(**with_loader(**facts)))

    assert tried() == {"more_workers"}
    assert tried(by_row=True) == {"more_workers", "whole_batches"}
    assert tried(workers=2) == {"loader_beside", "no_copies", "more_workers"}
    threads = {"workers": None, "threads": True, "settable": False}
    assert tried(**threads) == {"loader_beside", "quick_switches"}
    assert tried(**threads, kinds=["Pipeline"]) == {
        *("loader_beside", "quick_switches", "pipeline_elsewhere"),
    }


def test_a_loader_that_hardly_waits_may_still_be_in_the_way():
    little = with_loader(workers=2) | {"member": {"load_s": 0.0}}
    assert {"cached_batches", "loader_beside"} <= set(chosen(**little))
    assert "cached_batches" not in chosen(**(with_loader() | {"member": {"load_s": 0.0}}))


@pytest.mark.parametrize(
    ("n", "axes", "placement"),
    [(1, {}, "cores"), (2, {"placement": "spread"}, "spread"), (4, {}, None)],
)
def test_a_loader_gets_cpus_of_its_own_where_training_leaves_some(n, axes, placement):
    found, left = choose(reference(**with_loader(workers=1), n=n, axes=axes), "quick")
    axes = [one.axes for one in found if one.name == "loader_apart"]
    if placement is None:
        reasons = {one.intervention: one.reason for one in left}
        assert reasons["loader_apart"] == "training on 1 of 1 CPUs leaves none for a loader"
    else:
        assert axes == [{"intra_op": 1, "placement": placement, "loader_cpus": "rest"}]


@pytest.mark.parametrize(
    ("workers", "made_s", "more"),
    # Training takes 0.94 s of the window's 1 s.
    [(0, 0.5, 1), (0, 1.8, 2), (0, 5.0, 4), (1, 0.5, 2), (1, 2.8, 3), (4, 9.0, 5)],
)
def test_more_workers_are_as_many_as_keep_up_with_training(workers, made_s, more):
    assert more_workers(with_loader(workers=workers), made_s) == more


def more_workers(options, made_s, **more):
    options["member"]["loader_made_s"] = made_s
    found, _ = choose(reference(**options, on="vm-no-l3", **{"n": 1, **more}), "quick")
    (intervention,) = [one for one in found if one.name == "more_workers"]
    return intervention.axes["loader_workers"]


@pytest.mark.parametrize(
    ("n", "axes", "facts", "more"),
    [
        (2, {}, {}, 2),  # of four CPUs
        (1, {"placement": "cores"}, {"cpus": [0]}, 1),
        (1, {"placement": "cores"}, {"cpus": [0], "switches": {"loader_cpus": "1-3"}}, 3),
    ],
)
def test_more_workers_are_no_more_than_a_member_has_cpus_for(n, axes, facts, more):
    options = with_loader(workers=0)
    options["readback"] |= facts
    assert more_workers(options, 5.0, n=n, axes=axes) == more


@pytest.mark.parametrize(
    ("quota", "n", "wanted", "step_ms", "steps"),
    [
        # 120 ms of CPU time in 100 ms: two CPUs have used it up after 60 ms
        ((1.2, 0.1), 2, 1, 10, 4),
        ((1.2, 0.1), 2, 1, 24, 2),
        ((1.2, 0.1), 2, 1, 49, 1),
        ((1.2, 0.1), 2, 1, 50, None),
        ((1.2, 0.05), 2, 1, 24, None),  # a shorter period
        ((2.4, 0.1), 4, 1, 10, 4),
        ((2.4, 0.1), 8, 1, 10, 2),  # they take turns on four CPUs
        ((2.4, 0.1), 2, 4, 10, 2),
        ((2.4, 0.1), 2, 1.5, 10, 6),  # a loader worker beside each training thread
        ((0.1, 0.1), 2, 1, 1, None),  # each CPU may hold a slice that is not used
        (None, 2, 1, 10, None),
    ],
)
def test_bursts_have_as_many_steps_as_the_quota_lasts_for(quota, n, wanted, step_ms, steps):
    active_s = 1.0 + step_ms / 10  # a second of it in the run queue
    found = reference(
        n=n,
        readback={"intra_op": int(wanted)},
        member={"active_s": active_s, "cpu_user_s": wanted * active_s - 1.0},
        quota=quota and Quota(*quota),
    )
    timing = interventions.quota_bursts(found)
    assert ("quota_bursts" in [one.name for one in choose(found, "quick")[0]]) is bool(steps)
    if steps is None:
        assert "quota" in timing
        return
    crowd = max(1, n * wanted / 4)
    assert timing.shortest_s == pytest.approx((steps - 0.5) * crowd * step_ms / 1e3)
    assert timing.shortest_s == timing.longest_s
    assert timing.rest_s > quota[1]


@pytest.mark.parametrize("throttled_s", [0.0, None])
def test_a_quota_that_holds_nobody_back_has_nothing_to_relieve(throttled_s):
    found = reference(quota=Quota(1.2, 0.1), throttled_s=throttled_s)
    assert "held nobody back" in interventions.quota_bursts(found)


def test_a_launch_that_is_the_intervention_already_gets_its_opposite():
    axes = {"placement": "cores", "allocator": "jemalloc", "blas": "blis", "isa": "avx2"}
    names = chosen(axes={**axes, "launcher": "dask"})
    assert {"unpinned", "glibc", "bundled_blas", "isa_default", "exec"} <= set(names)
    assert "pinned" not in names


def test_caches_and_nodes_count_where_there_are_several():
    assert {"spread", "per_l3", "local_memory"} <= set(chosen(on="epyc-9654-2s-nps4"))
    _, left = choose(reference(), "quick")
    reasons = {one.intervention: one.reason for one in left}
    assert reasons["per_l3"] == "only one last-level cache"
    assert "memory node" in reasons["local_memory"]


def test_a_quick_diagnosis_tries_with_one_process_what_slows_each_alike():
    by_name = {intervention.name: intervention for intervention in INTERVENTIONS}
    assert by_name["flush_denormals"].counts(8, "quick") == [1]
    assert by_name["flush_denormals"].counts(8, "full") == [1, 8]
    assert by_name["passive"].counts(8, "quick") == [1, 8]
    assert by_name["passive"].counts(1, "quick") == [1]


def test_full_tries_what_quick_leaves_out():
    quick, full = chosen(), chosen("full")
    assert set(quick) < set(full)
    assert {"huge_pages", "blis"} <= set(full) - set(quick)
