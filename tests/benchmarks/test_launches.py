"""The benchmark of launches: its studies, the commands of each way, and how it judges rivals."""

import sys
from pathlib import Path

import numpy as np
import pytest

from scaling_study.config.config import load_config
from scaling_study.config.plan import make_plan

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import launches_table  # noqa: E402
import launches_ways  # noqa: E402
import ledger  # noqa: E402
from launches_table import MISSED, REACHED, UNDECIDED, verdict  # noqa: E402
from launches_ways import ACCELERATE, ROOT, WORKLOADS, Study  # noqa: E402

EVEN = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99]


def study(*args, **values):
    return Study(Path("recommended.sh"), Path("/train.py"), args, 40, 2, "a label", **values)


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
    assert verdict(np.array(ratios)) == expected


def test_the_shipped_ledger_has_the_table_in_the_docs():
    runs = ledger.read(ROOT / "docs/evidence/launches.jsonl")
    own = [entry for entry in runs if entry["workload"] == "TSMixerx"]
    text, _ = launches_table.section("TSMixerx", own)
    rows = [line for line in text.splitlines() if line.startswith(("| one thread", "| run_cpu"))]
    assert len(rows) == 2
    assert all(row in (ROOT / "docs/evidence/search.md").read_text() for row in rows)
