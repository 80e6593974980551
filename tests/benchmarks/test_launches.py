"""The benchmark of launches: its studies, and how it judges rivals."""

import launches_table
import ledger
import numpy as np
import pytest
from launches_table import MISSED, REACHED, UNDECIDED, verdict
from launches_ways import ROOT, WORKLOADS

from jobs import planned

EVEN = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99]


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("n", [1, 2])
def test_every_workload_is_a_study_of_that_count(name, n):
    plan = planned(WORKLOADS[name].config("a-study", n, None))
    assert plan.processes == (n,)
    assert plan.workload.steps_per_model == WORKLOADS[name].steps
    assert (ROOT / plan.workload.script).exists()
    sampled = {launch.axes.get("sampling") for launch in plan.launches}
    assert sampled == ({"one", "batch"} if name == "NCF as recommended" else {None})
    assert not any("batch_size" in launch.axes for launch in plan.launches)


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
