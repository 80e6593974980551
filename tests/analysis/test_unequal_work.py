"""Steps of unequal work are found, and nothing else is taken for them."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import rendering
import synthetic
from made_records import edit_members, made_plan, reported, summary
from scaling_study.analysis.points import joint
from scaling_study.analysis.unequal_work import COLUMNS, Finding, explains, unequal_work
from scaling_study.records import analysis
from scaling_study.records.columns import POINTS, REPLICATES, WINDOWS
from scaling_study.records.tables import read_table
from scaling_study.stats.interval import Interval

PLAN = made_plan({}, baseline="base", repeat="again")
SINGLE = ("base", "again", "other")
STEP_S = 0.01


def even(**_):
    return 1.0


class World:
    """Tables of a machine on which each launch starts `replicates` times.

    Args:
        work: Of a step, by launch, replicate, n, slot and window.
        slow: By what factor a step takes longer than its CPU time; of the same.
        phase: CPU time of a window beside its steps, in such; of the same.
    """

    def __init__(
        self, work=even, *, slow=even, phase=even, counts=(1, 2), replicates=2, launches=SINGLE,
        threads=1,
    ):  # fmt: skip
        rows = []
        for launch, replicate in itertools.product(launches, range(replicates)):
            points = [(n, slot) for n in counts for slot in range(n)]
            for window, (n, slot) in itertools.product(range(4), points):
                at = {"launch": launch, "replicate": replicate, "n": n, "slot": slot}
                at["window"] = window
                cpu_s = STEP_S * work(**at)
                step_s = cpu_s * slow(**at)
                per_step = {"step_median_s": step_s, "user_s_per_step": cpu_s * phase(**at)}
                rows.append(at | per_step | {"steps": max(1, round(1 / step_s))})
        self.windows = pd.DataFrame(rows).assign(
            machine="m", cohort=0, attempt=0, valid=True, instructions_per_step=np.nan
        )
        threads_of = {launch: 1 if launch in SINGLE else threads for launch in launches}
        self.cohorts = [
            summary(launch=launch, readback=reported(intra_op=(count,)))
            for launch, count in threads_of.items()
        ] + [summary(launch="skipped")]
        self.waits = 0.0

    @property
    def rates(self):
        """Throughput of each count and replicate: that of all members' steps over their time."""
        rows = self.windows.assign(whole=self.windows["step_median_s"] * self.windows["steps"])
        keys = ["launch", "n", "replicate"]
        of_slot = rows.groupby([*keys, "slot"])[["steps", "whole"]].sum()
        found = (of_slot["steps"] / of_slot["whole"]).groupby(keys).sum()
        return found.rename("steps_per_s").reset_index().assign(machine="m")

    @property
    def points(self):
        drawn = joint(self.rates, [], None, 1).steps_per_s
        rows = []
        for launch, n in drawn.column:
            one = drawn.ratio((launch, n), (launch, 1))
            rows.append((launch, launch.upper(), n, one.value, one.low, one.high))
        names = ["launch", "label", "n", "speedup", "speedup_low", "speedup_high"]
        counted = {"user_s_per_step": STEP_S, "runqueue_s_per_step": STEP_S * self.waits}
        return pd.DataFrame(rows, columns=names).assign(machine="m", **counted)

    def judge(self):
        return unequal_work(self.points, self.rates, self.windows[COLUMNS], self.cohorts, PLAN)

    @property
    def tests(self):
        return [one.test for one in self.judge()]


def drawn(**at):
    """The work of a window: one of three, whatever came before."""
    seed = [ord(letter) for letter in f"{sorted(at.items())}"]
    return float(np.random.default_rng(seed).choice([1, 5, 25]))


def test_work_that_differs_between_starts_and_windows_is_found_and_told():
    found = World(drawn).judge()
    assert {"repeat", "drift"} <= {one.test for one in found}
    for one in found:
        assert one.factor > 1.5
        assert f"{one.factor:.3g}" in one.text


def test_each_test_finds_its_own():
    by_start = World(lambda launch, replicate, **_: 1 + 2 * ((launch == "again") ^ replicate))
    assert by_start.tests == ["repeat"]
    (found,) = by_start.judge()
    assert found.factor == pytest.approx(3 ** (2 / math.sqrt(3) / math.sqrt(2)), rel=0.01)
    assert found.free == 3
    slower = World(lambda window, **_: 1.0 + window, replicates=3)
    assert slower.tests == ["drift"]
    lighter = World(lambda n, **_: 1 / n, counts=(1, 2, 4))
    (found,) = lighter.judge()
    assert (found.test, found.factor) == ("growth", pytest.approx(16))
    assert found.text.startswith("4 processes give 16.0")
    label = found.text.partition("the throughput of one (")[2].removesuffix(")")
    assert label in set(lighter.points["label"])


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(World(slow=drawn), id="waiting changes a step's time, not its CPU time"),
        pytest.param(World(phase=drawn), id="validations change a window's CPU time, not its step"),
        pytest.param(World(lambda n, **_: 1.3 ** (1 - n)), id="shared caches"),
        pytest.param(World(slow=lambda n, **_: 4 / n), id="a count that waits"),
        pytest.param(
            World(lambda window, **_: 1.6 if window == 0 else 1.0), id="the first window warms up"
        ),
        pytest.param(
            World(lambda launch, window, **_: 1 + 5 * window * (launch == "other")),
            id="one launch of several compiles",
        ),
        pytest.param(
            World(lambda launch, window, **at: drawn(window=window, **at)
                  if launch == "default" else 1.0, launches=("default", "base", "again")),
            id="one launch of three",
        ),
    ],
)  # fmt: skip
def test_what_else_differs_is_no_unequal_work(world):
    assert world.judge() == []


def test_instructions_tell_more_than_cpu_time_where_they_are_counted():
    throttled = World(drawn)
    throttled.windows["instructions_per_step"] = 1e9
    assert throttled.judge() == []
    throttled.windows["instructions_per_step"] = 1e9 * throttled.windows["user_s_per_step"]
    assert throttled.tests == World(drawn).tests


def test_threads_that_may_spin_for_each_other_tell_nothing():
    many = World(drawn, launches=("default", "third"), threads=2)
    assert many.tests
    many.waits = 0.5
    assert many.judge() == []
    many.cohorts = [summary(launch=one.launch, readback=reported()) for one in many.cohorts]
    assert many.tests


# ---- what follows


def choice(gain, replicates=1, others=1):
    point = {"launch": "a", "label": "a", "n": 1, "replicates": replicates}
    return analysis.Recommendation(
        status="ok",
        default=analysis.ReferencePoint(**point),
        recommended=analysis.Recommended(**point),
        ratio=None if gain is None else Interval(gain),
        ranking=(analysis.Ranked(**point),) * (1 + others),
    )


@pytest.mark.parametrize(
    ("gain", "replicates", "others", "explained"),
    [
        (1.0, 3, 1, True),
        (2.4, 3, 1, True),  # 1.9 ** (2.57 / sqrt(3)) = 2.59
        (2.8, 3, 1, False),
        (2.8, 3, 9, True),  # the best of ten is a luckier one
        (2.8, 1, 1, True),
        (20.0, 1, 1, False),
        (None, 3, 1, True),
    ],
)
def test_starts_that_differ_explain_a_gain_up_to_what_they_can(gain, replicates, others, explained):
    found = Finding("repeat", 1.9, "they differ", 5)
    assert explains(found, choice(gain, replicates, others)) is explained
    for test in ("growth", "drift"):
        other = Finding(test, 1.9, "they differ")
        assert explains(other, choice(gain, replicates, others))


TESTED = (
    "two starts of the same launch typically differ by a factor of",
    "steps of two windows of one start typically differ by a factor of",
)
"""What a study whose steps differ in work says of repeat and drift."""
LAUNCHES = (
    synthetic.Launch({}, "default", synthetic.hard_saturation(40.0, 60.0)),
    synthetic.Launch({"intra_op": 1}, "baseline", synthetic.linear(50.0)),
    synthetic.Launch({"intra_op": 1}, "repeat", synthetic.linear(50.0)),
    synthetic.Launch({"intra_op": 1, "allocator": "jemalloc"}, "one_change", synthetic.linear(60)),
)


def uneven(folder, *, marked):
    """A made-up study whose windows have steps of 1 to 25 times the work, and say their samples."""
    draw = np.random.default_rng(1)

    def harder(_launch, member):
        work = int(draw.choice([1, 5, 25]))
        member["samples_active"] = 10 * work * member["steps_active"]
        member["step_us"] = [work * us for us in member["step_us"]]
        times_s = [name for name in member if member[name] and name.endswith("_s")]
        member |= {name: work * member[name] for name in times_s}

    def change(plan):
        plan["workload"]["samples_per_step"] = "mark" if marked else None
        edit_members(folder, harder)

    return rendering.make_study(folder, change, launches=LAUNCHES, ns=(1, 2, 4))


def test_nothing_is_recommended_and_the_reason_says_what_to_do(tmp_path):
    folder = uneven(tmp_path, marked=False)
    found = rendering.entry(folder, "recommendation", analysis.Recommendation)
    assert (found.status, found.recommended, found.ranking) == ("none", None, ())
    assert found.reason.startswith("steps differ too much in work to compare launches: ")
    for text in (
        *TESTED, "from scaling_study import mark", "mark(samples=len(batch))",
        "workload.samples_per_step: mark",
    ):  # fmt: skip
        assert text in found.reason


def test_per_sample_launches_compare_as_if_all_steps_were_equal(tmp_path):
    folder = uneven(tmp_path / "uneven", marked=True)
    even = rendering.make_study(tmp_path / "even", launches=LAUNCHES, ns=(1, 2, 4))
    assert rendering.entry(folder, "noise", analysis.Noise).spread < 0.05
    chosen = rendering.entry(folder, "recommendation", analysis.Recommendation).recommended
    assert chosen.label == "intra_op 1, allocator jemalloc"
    # A step is the mean one of the default launch, so only the unit differs.
    for table, columns in (
        (REPLICATES, ["steps_per_s", "step_s"]),
        (POINTS, ["steps_per_s", "step_s", "step_median_s", "user_s_per_step"]),
        (WINDOWS, ["step_mean_s", "step_median_s", "user_s_per_step"]),
    ):
        ours, theirs = (read_table(each / "tables", table) for each in (folder, even))
        for name in columns:
            ratios = (ours[name] / theirs[name]).to_numpy()
            assert ratios == pytest.approx(ratios[0], rel=0.02), (table.name, name)
