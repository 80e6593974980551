"""The order of windows, what counts in them, and what is said against them."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_records import machine, member
from scaling_study.member.channel import CAPACITY, TIMERS, Step
from scaling_study.records.window import WindowMachine
from scaling_study.runner import windows
from scaling_study.runner.windows import Activity, Stretch

MS = 1_000_000


def activity(ends_ms, *, released_ms=0, parked_ms=None, fresh=(), slot=0, steps_active=None):
    """A member whose steps end at these times, in ms; `fresh` are the indices of such steps."""
    steps = [Step(round(end * MS), 0, 0, 0, int(at in fresh)) for at, end in enumerate(ends_ms)]
    parked_ms = parked_ms if parked_ms is not None else [released_ms, *ends_ms][-1]
    return Activity(
        slot=slot,
        released_ns=round(released_ms * MS),
        parked_ns=round(parked_ms * MS),
        steps_active=len(steps) if steps_active is None else steps_active,
        restarts=len(fresh),
        steps=steps,
    )


# ---- counted steps


@given(st.lists(st.tuples(st.integers(1, 50), st.booleans())), st.integers(0, 600), st.integers())
def test_a_step_counts_if_and_only_if_it_begins_inside_and_is_not_fresh(gaps, opened_ms, longer_ms):
    ends_ms = [*accumulate(gap for gap, _ in gaps)]
    fresh = {at for at, (_, each) in enumerate(gaps) if each}
    span = opened_ms * MS, (opened_ms + longer_ms) * MS
    one = activity(ends_ms, fresh=fresh)
    durations, counted = windows.counted_steps(one, *span)
    wanted = [
        at
        for at, start in enumerate([0, *ends_ms][: len(gaps)])
        if at not in fresh and span[0] <= start * MS < span[1]
    ]
    assert counted == [one.steps[at] for at in wanted]
    assert durations == [gaps[at][0] * MS for at in wanted]
    assert sum(durations[:-1]) <= max(0, span[1] - span[0])


def test_a_members_record():
    def step(*times_ms, collect_ms):
        timed = [collect_ms * MS if name == "collect" else 0 for name in TIMERS]
        return Step(*(one * MS for one in times_ms), 0, timed)

    steps = [
        step(10, 1, 2, 3, collect_ms=4),  # began before the window opened
        step(20, 2, 3, 1, collect_ms=0),
        step(34, 4, 5, 2, collect_ms=1),
        step(50, 0, 0, 0, collect_ms=0),  # ended after it was closed
        step(60, 9, 1, 1, collect_ms=2),  # began after it was closed
    ]
    record = windows.member_record(Activity(3, 1 * MS, 61 * MS, 5, 2, steps), 10 * MS, 40 * MS)
    times_s = record.load_s, record.forward_s, record.backward_s, record.optimizer_s
    assert times_s == pytest.approx((0.006, 0.023, 0.008, 0.003))
    assert (record.collect_s, record.active_s) == pytest.approx((0.001, 0.06))
    assert record.step_us == [10_000, 14_000, 16_000]
    assert (record.slot, record.steps, record.steps_active, record.restarts) == (3, 3, 5, 2)


def test_ranks_wait_for_the_slowest_outside_of_backward():
    own = [Step(at * 10 * MS, 0, 6 * MS, 0, 0) for at in range(1, 6)]
    slow = [Step(at * 10 * MS, 0, 2 * MS, 0, 0) for at in range(1, 6)]
    slow[3] = Step(40 * MS, 0, 4 * MS, 0, 0)
    group = Activity(0, 0, 60 * MS, 5, 0, own, others=[slow])
    # Steps 3 to 5 count: of 4 and 8 ms, 4 and 6 ms, and 4 and 8 ms outside of backward.
    assert windows.ranks_wait_ns(group, 15 * MS, 45 * MS) == (2 + 1 + 2) * MS
    assert windows.ranks_wait_ns(Activity(0, 0, 60 * MS, 5, 0, own), 15 * MS, 45 * MS) == 0
    ahead = Activity(0, 0, 60 * MS, 5, 0, own, others=[slow[:3]])
    assert windows.ranks_wait_ns(ahead, 15 * MS, 45 * MS) == 2 * MS


# ---- overlap and skew


@pytest.mark.parametrize(
    ("released_ms", "parked_ms", "share"),
    [
        ([0, 0], [200, 200], 1.0),
        ([0, 125], [200, 200], 0.75),
        ([0, 0], [200, 150], 0.5),
        ([120, 0], [200, 180], 0.6),
        ([0, 190], [110, 200], 0.0),  # never at the same time
    ],
)
def test_overlap_is_the_share_in_which_all_members_were_active(released_ms, parked_ms, share):
    both = [
        activity([], released_ms=released, parked_ms=parked)
        for released, parked in zip(released_ms, parked_ms, strict=True)
    ]
    assert Stretch(100 * MS, 200 * MS, both, {}).overlap == pytest.approx(share)


# ---- flags


def flags(members=None, *, step_us=10_000, **changed):
    """Flags of a window without fault, or with what is changed: 2 s between edges, 10 CPUs."""
    members = members or [activity(range(10, 210, 10)), activity(range(10, 210, 10), slot=1)]
    values = {
        "overlap": 1.0, "edges_s": 2.0, "usable_cpus": 10, "asked_steps": 20, "bursts": 1,
        "saved": False,
    } | changed  # fmt: skip
    read = {name: values.pop(name) for name in [*values] if name in WindowMachine.__struct_fields__}
    records = [member([step_us] * len(one.steps)) for one in members]
    stretches = [Stretch(0, 0, members, {}, values.pop("saved"))] * values.pop("bursts")
    return windows.flags(stretches, records, machine(**read), **values)


BURSTS, TWENTY = {"bursts": 2}, activity(range(1, 21))


def restarted(ms):
    """A member whose first step, of 5% of its time or more, starts its script anew."""
    return [activity([ms, *range(10, 110, 5)], parked_ms=100, fresh={0})]


@pytest.mark.parametrize(
    ("flag", "what", "fine", "raised", "beside"),
    [
        # 2 s times 2% of 10 CPUs
        ("foreign_cpu", "foreign_cpu_s", 0.399, 0.401, {}),
        ("stolen_cpu", "steal_s", 0.399, 0.401, {}),
        # on two CPUs the floor holds: 5% of one
        ("foreign_cpu", "foreign_cpu_s", 0.099, 0.101, {"usable_cpus": 2}),
        # while a quota holds members back, /proc/stat counts up to 5% of each CPU too much
        ("foreign_cpu", "foreign_cpu_s", 1.399, 1.401, {"throttled_s": 0.1}),
        # 2 s times 0.5% of 10 CPUs; the floor is 2% of one
        ("sleeping_member_ran", "sleeping_cpu_s", 0.099, 0.101, {}),
        ("sleeping_member_ran", "sleeping_cpu_s", 0.039, 0.041, {"usable_cpus": 1}),
        ("short_overlap", "overlap", 0.99, 0.989, {}),
        ("short_overlap", "overlap", 0.75, 0.749, BURSTS),
        ("throttled_burst", "throttled_s", 0.0, 0.001, BURSTS),
        ("few_steps", "members", [TWENTY], [TWENTY, activity([])], {}),
        ("longest_time", "members", [TWENTY], [TWENTY, activity(range(1, 20))], {}),
        ("script_restarts", "members", restarted(5), restarted(6), {}),
        ("short_steps", "step_us", 1500, 1499, {}),
        ("saved_batches", "saved", False, True, {}),
        (
            *("steps_not_kept", "members", [activity([10], steps_active=CAPACITY)]),
            *([activity([10], steps_active=CAPACITY + 1)], {"asked_steps": 1}),
        ),
    ],
)
def test_a_flag_is_raised_by_its_own_condition_alone(flag, what, fine, raised, beside):
    assert flags(**beside, **{what: fine}) == []
    assert flags(**beside, **{what: raised}) == [flag]
