"""The benchmark of launches: its studies, the commands of each way, and how it judges rivals."""

import sys
from pathlib import Path

import pytest

from scaling_study.config.config import load_config
from scaling_study.config.plan import make_plan

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import launches  # noqa: E402
import launches_table  # noqa: E402
import launches_ways  # noqa: E402
from launches_list import ROOT, WORKLOADS  # noqa: E402
from launches_table import MISSED, REACHED, UNDECIDED, verdict  # noqa: E402
from launches_ways import ACCELERATE, DEFAULT, RECOMMENDED, RUN_CPU, Study  # noqa: E402

EVEN = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99]


def study(*args, **values):
    return Study(Path("recommended.sh"), Path("/train.py"), args, 40, 2, "a label", **values)


def entries(name, n, ways, **values):
    """Runs of a workload: of each way its seconds by round."""
    common = {"workload": name, "steps": 40, "n": n, "label": "a label", "machine": "here"}
    return [
        {
            **common, "round": number, "way": way, "status": "ok", "models": n, "wall_s": seconds,
            "models_s": seconds, "preloaded": [], "version": "1.2.3", **values,
        }
        for way, times in ways.items()
        for number, seconds in enumerate(times)
    ]  # fmt: skip


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("n", [1, 2])
def test_every_workload_is_a_study_of_that_count(name, n):
    plan = make_plan(load_config(WORKLOADS[name].config("a-study", n, None)))
    assert plan.processes == (n,)
    assert plan.workload.steps_per_model == WORKLOADS[name].steps
    assert (ROOT / plan.workload.script).exists()
    sampled = {launch.axes.get("sampling") for launch in plan.launches}
    assert sampled == ({"one", "batch"} if name == "NCF as recommended" else {None})
    assert not any("batch_size" in launch.axes for launch in plan.launches)


def test_accelerate_is_started_once_for_each_model_and_told_of_all(tmp_path):
    commands = launches_ways.commands(ACCELERATE, study("--seed", "{member}"), 2, tmp_path)
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2"]
    assert commands == [[*launcher, "/train.py", "--seed", seed] for seed in ("0", "1")]


def test_a_study_belongs_to_the_workload_with_its_script_and_parameters():
    ncf = Study(Path("run.sh"), Path("/ncf.py"), (), 40, 1, "a label")
    assert launches.workload_of(ncf, WORKLOADS) == "NCF as written"
    ncf = Study(Path("run.sh"), Path("/ncf.py"), (), 40, 1, "a label", {"sampling": "batch"})
    assert launches.workload_of(ncf, WORKLOADS) == "NCF as recommended"
    with pytest.raises(ValueError, match=r"train\.py: no script"):
        launches.workload_of(study(), WORKLOADS)


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        (EVEN, REACHED),
        ([ratio * 0.95 for ratio in EVEN], MISSED),
        ([0.9, 1.1, 1.0], UNDECIDED),
        ([1.2], UNDECIDED),
        ([], UNDECIDED),
        ([20.0], UNDECIDED),
        ([4.0, 90.0], REACHED),
    ],
)
def test_the_interval_decides_unless_a_rival_is_beaten(ratios, expected):
    assert verdict(ratios) == expected


def test_the_best_rival_has_the_worst_verdict():
    even = [10 * ratio for ratio in EVEN]
    ways = {
        RECOMMENDED: [10.0] * 6,
        DEFAULT: [100.0],
        "one thread": even,
        RUN_CPU: [9.5 * ratio for ratio in EVEN],
        ACCELERATE: [8.0, 14.0, 6.0, 15.0, 7.0, 9.0],
    }
    runs = entries("NCF as written", 1, ways)
    assert launches_table.best_rival(runs, "wall_s") == (RUN_CPU, MISSED)
    text, met = launches_table.section("NCF as written", runs)
    assert not met
    assert "- missed: whole processes, recommended / best rival (run_cpu): 0.950 (0.9" in text
    assert "- missed: models alone" in text
    assert "- accelerate 1.2.3." in text


def test_the_shipped_ledger_has_the_table_in_the_docs():
    runs = launches.read_ledger(ROOT / "docs/evidence/launches.jsonl")
    own = [entry for entry in runs if entry["workload"] == "TSMixerx"]
    text, _ = launches_table.section("TSMixerx", own)
    rows = [line for line in text.splitlines() if line.startswith(("| one thread", "| run_cpu"))]
    assert len(rows) == 2
    assert all(row in (ROOT / "docs/evidence/search.md").read_text() for row in rows)
