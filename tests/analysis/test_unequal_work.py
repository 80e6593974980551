"""Steps of unequal work are found, and nothing else is taken for them."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import configs
import rendering
import synthetic
from made_records import made_plan, reported, summary
from projects import Project
from scaling_study.analysis.collect import collect
from scaling_study.analysis.recommend import candidates, recommend
from scaling_study.analysis.unequal_work import COLUMNS, Finding, explains, unequal_work
from scaling_study.common.storage import read_table
from scaling_study.records.analysis import Noise, Ranked, Recommendation, Recommended, Reference
from scaling_study.records.columns import POINTS, REPLICATES, WINDOWS
from scaling_study.report.study import conclusion
from scaling_study.stats import intervals
from scaling_study.stats.interval import Interval
from synthetic import typed

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
        spread: Standard deviation of the logarithm between starts, and between windows.
    """

    def __init__(
        self, work=even, *, slow=even, phase=even, counts=(1, 2), replicates=2, windows=4,
        launches=SINGLE, threads=1, spread=0.0, seed=1,
    ):  # fmt: skip
        draw = np.random.default_rng(seed)
        rows = []
        for launch in launches:
            for replicate in range(replicates):
                luck = draw.lognormal(0, spread)
                for window in range(windows):
                    for n in counts:
                        for slot in range(n):
                            at = {"launch": launch, "replicate": replicate, "n": n}
                            at |= {"slot": slot, "window": window}
                            cpu_s = STEP_S * work(**at) * luck * draw.lognormal(0, spread)
                            step_s = cpu_s * slow(**at) * draw.lognormal(0, spread)
                            rows.append(
                                at
                                | {
                                    "step_median_s": step_s,
                                    "user_s_per_step": cpu_s * phase(**at),
                                    "steps": max(1, round(1 / step_s)),
                                }
                            )
        self.windows = pd.DataFrame(rows).assign(
            machine="m", cohort=0, attempt=0, valid=True, instructions_per_step=np.nan
        )
        self.cohorts = [
            summary(
                launch=launch, readback=reported(intra_op=(1 if launch in SINGLE else threads,))
            )
            for launch in launches
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
        one = self.rates[self.rates["n"] == 1].set_index(["launch", "replicate"])["steps_per_s"]
        paired = self.rates.join(one.rename("one"), on=["launch", "replicate"])
        paired["ratio"] = paired["steps_per_s"] / paired["one"]
        key = ["machine", "launch", "n"]
        found = intervals.pooled_means(paired, key, "ratio").reset_index()
        return found.rename(columns={"value": "speedup", "low": "speedup_low"}).assign(
            label=found.launch.str.upper(), user_s_per_step=STEP_S,
            runqueue_s_per_step=STEP_S * self.waits,
        )  # fmt: skip

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
    assert found.test == "growth"
    assert found.factor == pytest.approx(16)
    assert found.text.startswith("4 processes give 16.0")
    assert f"throughput of one ({found.launch.upper()})" in found.text


def test_one_start_of_each_launch_tells_too():
    found = World(lambda launch, **_: 3.0 if launch == "again" else 1.0, replicates=1)
    assert found.tests == ["repeat"]
    assert found.judge()[0].factor == pytest.approx(3)
    assert World(lambda n, **_: 1 / n, replicates=1).tests == ["growth"]


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


def test_invalid_windows_do_not_count():
    world = World(lambda window, **_: 10.0 if window == 3 else 1.0)
    assert "drift" in world.tests
    world.windows["valid"] = world.windows["window"] != 3
    assert world.judge() == []


def test_threads_that_may_spin_for_each_other_tell_nothing():
    many = World(drawn, launches=("default", "third"), threads=2)
    assert many.tests
    many.waits = 0.5
    assert many.judge() == []
    many.cohorts = [summary(launch=one.launch, readback=reported()) for one in many.cohorts]
    assert many.tests


def test_nothing_measured_tells_nothing():
    world = World()
    world.windows["valid"] = False
    assert world.judge() == []
    assert unequal_work(
        world.points.iloc[:0], world.rates.iloc[:0], world.windows[COLUMNS].iloc[:0], [], PLAN
    ) == []  # fmt: skip


@given(
    seed=st.integers(0, 2**32 - 1),
    replicates=st.integers(1, 6),
    windows=st.integers(1, 5),
    counts=st.sampled_from([(1,), (1, 2), (1, 2, 4)]),
    spread=st.floats(0, 0.05),
    slower=st.floats(1, 20),
    caches=st.floats(1, 1.3),
    apart=st.booleans(),
)
def test_equal_work_is_never_taken_for_unequal(
    *, seed, replicates, windows, counts, spread, slower, caches, apart
):
    """Starts differ by 5%; the default launch takes up to 20 times as long, as it happens."""
    luck = np.random.default_rng(seed)
    of_default = luck.uniform(1, slower, (replicates, max(counts) + 1, windows))

    def spins(launch, replicate, n, window, **_):
        spun = of_default[replicate, n, window] if launch == "default" and n > 1 else 1.0
        return spun * caches ** (-1 if n > 1 else 0)

    def waits(launch, n, **_):
        return luck.uniform(1, 1.5) if launch == "default" and n > 1 else luck.uniform(1, 1.2)

    def phase(**_):
        return luck.choice([1, 1, 1, 4])

    launches = ("default", "base", "again", "other") if apart else ("default", "other")
    plan_of = {} if apart else {"baseline": "default"}
    world = World(
        spins, slow=waits, phase=phase, counts=counts, replicates=replicates, windows=windows,
        launches=launches, threads=2, spread=spread, seed=seed,
    )  # fmt: skip
    points = world.points
    many = (points["launch"] == "default") & (points["n"] > 1)
    points.loc[many, "runqueue_s_per_step"] = STEP_S
    found = unequal_work(
        points, world.rates, world.windows[COLUMNS], world.cohorts, PLAN.model_copy(update=plan_of)
    )
    assert found == []


# ---- what follows


def choice(gain, replicates=1, others=1):
    point = {"launch": "a", "label": "a", "n": 1, "replicates": replicates}
    return Recommendation(
        status="ok",
        default=Reference(**point),
        recommended=Recommended(**point),
        ratio=None if gain is None else Interval(gain),
        ranking=(Ranked(**point),) * (1 + others),
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
    found = Finding("repeat", "base", 1.9, "they differ", 5)
    assert explains(found, choice(gain, replicates, others)) is explained
    for test in ("growth", "drift"):
        other = Finding(test, "base", 1.9, "they differ")
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

    def change(plan):
        draw = np.random.default_rng(1)
        plan["workload"]["samples_per_step"] = "mark" if marked else None
        for path in sorted((folder / "measure").glob("*/*.jsonl")):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            for one in (one for line in lines for one in line.get("members", ())):
                if "steps" in one:
                    work = int(draw.choice([1, 5, 25]))
                    one["samples_active"] = 10 * work * one["steps_active"]
                    one["step_us"] = [work * us for us in one["step_us"]]
                    one |= {name: work * one[name] for name in one if name.endswith("_s")}
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    return rendering.make_study(folder, change, launches=LAUNCHES, ns=(1, 2, 4))


def test_nothing_is_recommended_and_the_reason_says_what_to_do(tmp_path):
    folder = uneven(tmp_path, marked=False)
    found = rendering.entry(folder, "recommendation", Recommendation)
    assert (found.status, found.recommended, found.ranking) == ("none", None, ())
    assert found.reason.startswith("steps differ too much in work to compare launches: ")
    for text in (
        *TESTED, "from scaling_study import mark", "mark(samples=len(batch))",
        "workload.samples_per_step: mark",
    ):  # fmt: skip
        assert text in found.reason


def test_the_report_and_the_terminal_say_so(tmp_path):
    folder = uneven(tmp_path / "study", marked=False)
    html = rendering.render(folder).read_text(encoding="utf-8")
    assert "Nothing to recommend" in html
    assert "Steps differ too much in work to compare launches" in html
    said = conclusion(folder, folder / "plan.json", folder / "report.html")
    assert said.startswith("Nothing to recommend (Steps differ too much in work")
    assert said.count("too much in work") == 1
    assert "launch it" not in said
    assert "has nothing to recommend" in (folder / "launch/recommended.sh").read_text()


def test_per_sample_launches_compare_as_if_all_steps_were_equal(tmp_path):
    folder = uneven(tmp_path / "uneven", marked=True)
    even = rendering.make_study(tmp_path / "even", launches=LAUNCHES, ns=(1, 2, 4))
    assert rendering.entry(folder, "noise", Noise).spread < 0.05
    chosen = rendering.entry(folder, "recommendation", Recommendation).recommended
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


def test_samples_that_do_not_measure_the_work_are_told_apart(tmp_path):
    found = synthetic.write_study(tmp_path, launches=LAUNCHES, ns=(1, 2))
    tables = collect(tmp_path, typed(found))
    found["workload"]["samples_per_step"] = "mark"
    unequal = [Finding("drift", "x", 9.0, "they differ")]
    cohorts = tables.cohorts.cohorts
    points = candidates(tables.points, cohorts)
    said = recommend(points, tables.replicates, cohorts, typed(found), unequal).reason
    assert "too much in work per sample to compare" in said
    assert "set workload.samples_per_step" not in said


def test_a_gain_that_starts_cannot_explain_is_recommended(tmp_path):
    plan = synthetic.write_study(tmp_path, launches=LAUNCHES, ns=(1, 2, 4))
    tables = collect(tmp_path, typed(plan))
    cohorts = tables.cohorts.cohorts
    small, large = (Finding("repeat", "x", factor, "they differ", 5) for factor in (1.5, 3.0))
    args = candidates(tables.points, cohorts), tables.replicates, cohorts, typed(plan)
    assert recommend(*args).ratio.value == pytest.approx(4, rel=0.1)
    assert recommend(*args, [small]).status == "ok"
    assert recommend(*args, [large]).status == "none"


# ---- a whole study


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("uneven"))
    project.take_every_window()
    return project


def studied(project, *args, **workload):
    """Run a study of the game of levels; return what it says, and its recommendation."""
    content = configs.short(
        study="uneven",
        workload={"script": "tests/workloads/uneven.py", "args": [*args], **workload},
        measure={
            "replicates": 2, "windows": 8, "steps": 5, "shortest_s": 0.1, "longest_s": 1.0,
            "settle_s": 0.05, "warmup_steps": 2,
        },
    )  # fmt: skip
    project.configure(content)
    done = project.snakemake()
    assert done.returncode == 0, done.stdout + done.stderr
    folder = project.folder / "results/uneven"
    return done.stdout, rendering.entry(folder, "recommendation", Recommendation)


@pytest.mark.long
def test_a_script_of_unequal_steps_gets_no_recommendation_and_is_told_why(project):
    said, found = studied(project)
    assert (found.status, found.recommended) == ("none", None)
    assert "Nothing to recommend\n  Warning: Steps differ too much in work" in said
    assert any(text in said for text in TESTED)
    assert "workload.samples_per_step: mark" in said
    assert "launch it" not in said


@pytest.mark.long
def test_the_same_script_that_marks_its_work_gets_one(project):
    said, found = studied(project, "--mark", samples_per_step="mark")
    assert found.status == "ok", found.reason
    assert "launch it: bash" in said
    assert "too much in work" not in said
