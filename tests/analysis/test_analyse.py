import subprocess

import numpy as np
import pytest

import synthetic
from jobs import STAGE
from scaling_study.analysis.analyse import FILES, analyse, domain_laws
from scaling_study.analysis.collect import collect
from scaling_study.analysis.noise import spread_at
from scaling_study.common.storage import read_json, write_json
from scaling_study.common.topology import Topology
from synthetic import typed

TOPOLOGY = Topology.from_dict(synthetic.machine(cpus=8, cpus_per_l3=4, cpus_per_node=4)["topology"])


def analysed(folder, **options):
    plan = synthetic.write_study(folder, **options)
    found = collect(folder, typed(plan))
    content = analyse(found.points, found.replicates, found.windows, found.cohorts, typed(plan))
    write_json(folder / "found.json", content)
    return plan, read_json(folder / "found.json")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return analysed(tmp_path_factory.mktemp("study"))


def test_every_file_has_an_entry_per_machine(study):
    _, content = study
    assert tuple(content) == FILES
    for entry in content.values():
        (machine,) = entry["machines"]
        assert machine["cpu_model"] == "Example CPU of host-a"


def test_scaling_has_the_law_of_every_measured_launch(study):
    _, content = study
    launches = {each["launch"]: each for each in content["scaling"]["machines"][0]["launches"]}
    assert set(launches) == {launch.id for launch in synthetic.LAUNCHES[:-2]}
    baseline = launches[synthetic.LAUNCHES[1].id]
    assert baseline["laws"]["best"] == "hard_saturation"
    knee = baseline["laws"]["knee"]
    assert knee["value"] == pytest.approx(3.0, rel=0.05)
    assert knee["low"] < 3.0 < knee["high"]


def test_the_repeat_shows_what_no_difference_looks_like(study):
    _, content = study
    (noise,) = content["noise"]["machines"]
    assert [point["n"] for point in noise["points"]] == [1, 2, 3, 4, 6, 8]
    assert 0 < noise["spread"] < 0.05
    assert noise["spread"] == max(abs(point["ratio"] - 1) for point in noise["points"])
    assert sum(point["low"] <= 1 <= point["high"] for point in noise["points"]) >= 5


def test_the_threshold_of_a_count_is_its_own_and_else_the_largest():
    noise = {"spread": 0.1, "points": [{"n": 1, "ratio": 0.99}, {"n": 4, "ratio": 1.1}]}
    assert spread_at(noise, 1) == pytest.approx(0.01)
    assert spread_at(noise, 1, 4) == pytest.approx(0.1)
    assert spread_at(noise, 3) == 0.1
    assert spread_at(None, 1) is None
    assert spread_at({"spread": None, "points": []}, 1) is None


def test_a_study_without_a_repeat_has_no_spread(tmp_path):
    _, content = analysed(tmp_path, launches=synthetic.LAUNCHES[:2])
    (noise,) = content["noise"]["machines"]
    assert noise["points"] == []
    assert noise["spread"] is None


def test_readback_shows_what_took_effect_and_what_did_not(study):
    _, content = study
    (entry,) = content["readback"]["machines"]
    launches = {each["label"]: each for each in entry["launches"]}
    failed = [
        check["axis"] for check in launches["intra_op 1, blas blis"]["checks"] if not check["ok"]
    ]
    assert failed == ["blas"]
    assert launches["default"]["member"]["slot"] == 0
    assert "intra_op 1, blas mkl" not in launches  # skipped: no member ever ran


def test_provenance_counts_what_was_done(study):
    plan, content = study
    (entry,) = content["provenance"]["machines"]
    assert entry["cohorts"] == 21
    assert entry["windows_valid"] == 5 * 3 * 3 * 6
    assert entry["windows_invalid"] > 0
    assert entry["steps"] == 5 * 3 * 3 * sum([1, 2, 3, 4, 6, 8]) * 20
    assert entry["measured_hashes"] == ["measured0001"]
    assert entry["in_windows_s"] == 15 * 22.0
    assert entry["description"]["hash"] == entry["machine"]
    assert content["provenance"]["plan"] == typed(plan).to_dict()


def test_machines_are_compared_never_pooled(tmp_path):
    machines = [synthetic.machine(), synthetic.machine(name="host-b", cpus=2)]
    _, content = analysed(tmp_path, machines=machines)
    alone = tmp_path / "alone"
    _, single = analysed(alone, machines=machines[:1])
    for name in FILES:
        hashes = [entry["machine"] for entry in content[name]["machines"]]
        assert hashes == [machine["hash"] for machine in machines]
    both = content["provenance"]["machines"]
    assert [entry["windows_valid"] for entry in both] == [270, 270]
    ours, theirs = (
        [one["replicates"] for one in each["recommendation"]["machines"][0]["ranking"]]
        for each in (content, single)
    )
    assert ours == theirs


def test_an_all_failed_study_still_has_every_file(tmp_path):
    launches = [synthetic.Launch({}, "default", ending="skipped")]
    _, content = analysed(tmp_path, launches=launches)
    assert content["scaling"]["machines"][0]["launches"] == []
    assert content["recommendation"]["machines"][0]["status"] == "none"
    assert len(content["failures"]["machines"][0]["launches"]) == 3
    assert content["readback"]["machines"][0]["launches"] == []
    assert content["provenance"]["machines"][0]["windows_valid"] == 0


def slots(*cpus):
    return [{"slot": slot, "cpus": text} for slot, text in enumerate(cpus)]


def test_domains_are_a_law_where_bound_members_fill_them_unevenly():
    compact = slots(*map(str, range(8)))
    (law,) = domain_laws(compact, TOPOLOGY)  # a node is an L3 here, and one socket tells nothing
    assert law.domain == "l3"
    n = np.arange(1, 9)
    filled = law.throughput(n, np.array([10.0, 25.0]))
    assert filled.tolist() == [10.0, 20.0, 25.0, 25.0, 35.0, 45.0, 50.0, 50.0]


def test_domains_are_no_law_where_members_are_free_or_spread_over_all():
    assert domain_laws(slots(None, None), TOPOLOGY) == []
    assert domain_laws(slots("0-7", "0-7"), TOPOLOGY) == []


def test_the_script_writes_every_file(tmp_path):
    synthetic.write_study(tmp_path, launches=synthetic.LAUNCHES[:3], ns=[1, 2])
    command = [*STAGE, "analyse", "--study-folder", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    assert {path.stem for path in (tmp_path / "analysis").iterdir()} == set(FILES)
