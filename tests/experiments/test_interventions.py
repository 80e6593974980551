"""Which interventions are tried on which reference, and why others are not."""

import pytest

import machines
import made_records
from scaling_study.experiments.interventions import INTERVENTIONS, Reference, choose
from scaling_study.host import probe
from scaling_study.host.limits import Quota
from scaling_study.launch.axes.axis_table import AXES, DEFAULTS, read_value
from scaling_study.member.changes import CHANGES
from scaling_study.records.readback import Loader


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
        machine=probe.read_machine(machines.root(on)),
        readback=made_records.readback(slot=0, **report | (readback or {})),
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
        what = [intervention.axes, intervention.change, intervention.derived]
        assert sum(map(bool, what)) == 1
        assert {*intervention.change} <= {*CHANGES}
    assert len({intervention.name for intervention in INTERVENTIONS}) == len(INTERVENTIONS)


def loader(load_s=0.06, made_s=0.0, report=None, **facts):
    """Options of a reference whose script has a loader."""
    usual = {"kind": "DataLoader", "kinds": ["DataLoader"], "workers": 0, "settable": True}
    return {
        "readback": {"loaders": [Loader(**usual | facts)]} | (report or {}),
        "member": {"load_s": load_s, "loader_made_s": made_s},
    }


THREADS = {"workers": None, "threads": True, "settable": False}
USUAL = {"pinned", "flush_denormals", "openblas"}
OPPOSITES = {"placement": "cores", "allocator": "jemalloc", "blas": "blis", "isa": "avx2"}
NO_WAIT = {"more_workers", "cached_batches"}
BESIDE = {"loader_beside", "cached_batches"}


@pytest.mark.parametrize(
    ("options", "further"),
    [
        ({}, set()),  # one thread, a small machine, no loader, no faults
        ({"readback": {"intra_op": 2}}, {"passive", "one_thread"}),
        ({"readback": {"intra_op": 2}, "axes": {"wait_policy": "passive"}}, {"one_thread"}),
        # 40,000 faults in two seconds: 1% of the time at half a microsecond each
        ({"member": {"minor_faults": 40_001}}, {"large_thresholds"}),
        ({"member": {"minor_faults": 39_000}}, set()),
        ({"member": {"trainer_system_s": 0.1}}, {"large_thresholds"}),
        ({"member": {"collect_s": 0.06}}, {"no_gc"}),
        (loader(), NO_WAIT),
        (loader(by_row=True), NO_WAIT | {"whole_batches"}),
        (loader(workers=2), NO_WAIT | {"loader_beside", "no_copies", "loader_apart"}),
        (loader(**THREADS), BESIDE | {"quick_switches"}),
        (loader(**THREADS, kinds=["Pipeline"]), BESIDE | {"quick_switches", "pipeline_elsewhere"}),
        # It hardly waits, and may still be in the way.
        (loader(load_s=0.0, workers=2), BESIDE | {"no_copies", "loader_apart"}),
        (loader(load_s=0.0), set()),
        # A launch that is the intervention already gets its opposite.
        (
            {"axes": {**OPPOSITES, "launcher": "dask"}},
            {"unpinned", "glibc", "bundled_blas", "isa_default", "exec"},
        ),
        ({"on": "epyc-9654-2s-nps4"}, {"spread", "per_l3", "local_memory"}),
        ({"on": "core-i7-1370p"}, {"fast_cores"}),
        ({"on": "core-i7-1370p", "n": 7}, set()),
        ({"on": "gb10"}, {"fast_cores", "spread", "per_l3"}),
        ({"effort": "full"}, {"huge_pages", "blis", "mkl"}),
    ],
)
def test_what_is_known_of_the_reference_decides_what_is_tried(options, further):
    assert set(chosen(**options)) - USUAL == further


def axes_of(name, **options):
    """Axes of an intervention that is tried; otherwise the reason why it is not."""
    found, left = choose(reference(**options), "quick")
    tried = {one.name: one.axes for one in found}
    return tried.get(name) or next(one.reason for one in left if one.intervention == name)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        *(
            ("loader_apart", {"n": n, "axes": axes, **loader(workers=1)}, placed)
            for n, axes, placed in (
                (1, {}, {"intra_op": 1, "placement": "cores", "loader_cpus": "rest"}),
                (2, {"placement": "spread"},
                 {"intra_op": 1, "placement": "spread", "loader_cpus": "rest"}),
                (4, {}, "training on 1 of 1 CPUs leaves none for a loader"),
            )
        ),
        # Training takes 0.94 s of the window's 1 s: as many as keep up with it.
        *(
            ("more_workers", {"n": 1, **loader(workers=workers, made_s=made_s)}, more)
            for workers, made_s, more in (
                (0, 0.5, 1), (0, 1.8, 2), (0, 5.0, 4), (1, 0.5, 2), (1, 2.8, 3), (4, 9.0, 5),
            )
        ),
        # No more than a member has CPUs for, of four.
        *(
            ("more_workers", {"n": n, "axes": axes, **loader(made_s=5.0, report=report)}, more)
            for n, axes, report, more in (
                (2, {}, {}, 2),
                (1, {"placement": "cores"}, {"cpus": [0]}, 1),
                (1, {"placement": "cores"}, {"cpus": [0], "switches": {"loader_cpus": "1-3"}}, 3),
            )
        ),
        ("per_l3", {}, "only one last-level cache"),
        ("local_memory", {}, "only one memory node"),
    ],
)  # fmt: skip
def test_axes_are_those_that_the_machine_and_the_script_leave(name, options, expected):
    expected = {"loader_workers": expected} if isinstance(expected, int) else expected
    assert axes_of(name, **options) == expected


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
    chosen, left = choose(found, "quick")
    timings = [one.timing for one in chosen if one.timing]
    assert bool(timings) is bool(steps)
    if steps is None:
        assert "quota" in left[0].reason
        return
    (timing,) = timings
    crowd = max(1, n * wanted / 4)
    assert timing.shortest_s == pytest.approx((steps - 0.5) * crowd * step_ms / 1e3)
    assert timing.shortest_s == timing.longest_s
    assert timing.rest_s > quota[1]


@pytest.mark.parametrize("throttled_s", [0.0, None])
def test_a_quota_that_holds_nobody_back_has_nothing_to_relieve(throttled_s):
    _, left = choose(reference(quota=Quota(1.2, 0.1), throttled_s=throttled_s), "quick")
    assert "held nobody back" in left[0].reason
