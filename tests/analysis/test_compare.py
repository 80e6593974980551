"""Machines side by side: figures of a known truth, and what is missing or mixed."""

import dataclasses

import pytest
from msgspec.structs import replace

import synthetic_machines
from scaling_study.analysis import compare
from scaling_study.config.config import NodeKind
from scaling_study.records.codec import read_file, write_file
from scaling_study.report.sections import compared_notes
from scaling_study.report.study import conclusion
from synthetic import typed


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    plan = synthetic_machines.measure(folder, "fast", 2.0, "node1")
    synthetic_machines.measure(folder, "slow", 1.0, "old7")
    content = synthetic_machines.compared(folder, plan, fast={}, slow={}, absent={})
    return folder, content


def entry(content, name):
    return next(one for one in content.machines if one.name == name)


def test_each_machine_has_what_it_gives(study):
    _, content = study
    fast, slow = entry(content, "fast"), entry(content, "slow")
    for one, speed in ((fast, 2.0), (slow, 1.0)):
        # 500 steps train a model: hard saturation at 200 steps/s times the speed, and at 40.
        for role, ceiling in (("recommended", 200), ("default", 40)):
            rate = getattr(one, role).rate
            assert rate.value == pytest.approx(ceiling * speed * 3600 / 500, rel=0.05)
            assert rate.low < rate.value < rate.high
    assert (fast.hosts, slow.hosts) == (("node1",), ("old7",))


def test_ratios_are_to_the_first_machine(study):
    _, content = study
    assert content.reference == "fast"
    ratio = entry(content, "slow").to_reference
    assert ratio.low < 0.5 < ratio.high
    assert entry(content, "fast").to_reference is None
    assert (content.best.first, content.best.next) == ("fast", "slow")


def test_machines_are_compared_by_steps_where_one_has_seen_no_model_end(study):
    folder, _ = study
    plan = typed(read_file(folder / "plan.json", object))
    found = {
        name: compare.read_results(folder / "machines" / name, plan) for name in ("fast", "slow")
    }
    unknown = replace(found["slow"].recommendation, objective="steps_per_s")
    found["slow"] = dataclasses.replace(found["slow"], recommendation=unknown)
    by_steps = compare.compare(found, dict.fromkeys(found, NodeKind()))
    assert by_steps.objective == "steps_per_s"
    for name, speed in (("fast", 2.0), ("slow", 1.0)):
        rate = entry(by_steps, name).recommended.rate.value
        assert rate == pytest.approx(200 * speed, rel=0.05)
    ratio = entry(by_steps, "slow").to_reference
    assert ratio.low < 0.5 < ratio.high


@pytest.mark.long
def test_nodes_that_differ_under_one_name_are_said_and_not_pooled(tmp_path):
    plan = synthetic_machines.measure(tmp_path, "a", 1.0, "node1", "node2")
    own = tmp_path / "machines/a"
    study = read_file(own / "tables/cohorts.json", object)
    first, second = study["machines"]
    study["machines"][second]["kernel"] = "5.4.0"
    # One cohort more, so that there is no doubt which of them the name stands for.
    one = next(each for each in study["cohorts"] if each["machine"] == first)
    study["cohorts"].append({**one, "host": "node3"})
    write_file(own / "tables/cohorts.json", study)
    content = synthetic_machines.compared(tmp_path, plan, a={})
    a = entry(content, "a")
    assert (a.machine, a.hosts) == (first, ("node1", "node3"))
    (other,) = a.others
    assert (other.machine, other.hosts, other.cohorts) == (second, ("node2",), 9)
    note = next(note for note in compared_notes(content) if "Not all nodes" in note)
    assert "node2 (9 cohorts) has" in note
    assert "compared here is node1 and node3" in note
    assert "kernel 5.4.0, not 6.1.0" in note
    report = synthetic_machines.render(tmp_path)
    assert "a, other nodes" in report.read_text()
    assert (tmp_path / f"launch/recommended-a-{second}.sh").exists()
    said = conclusion(tmp_path, tmp_path / "plan.json", report, compared=True)
    assert "measured on nodes that are another machine" in said


def test_what_is_not_through_says_how_far_it_is(tmp_path):
    plan = synthetic_machines.measure(tmp_path, "a", 1.0, "node1")
    own = tmp_path / "machines/a"
    changed = {**plan, "replicates": 4}
    assert compare.read_results(own, typed(changed)) == "9 of 12 cohorts are measured"
    other = {**plan, "seed": 2}
    assert "is not what is measured now" in compare.read_results(own, typed(other))
    record = next((own / "measure").glob("*/0.jsonl"))
    before = record.read_text()
    record.write_text(before.replace("2025-01-01", "2025-01-02"))
    assert "is not what is measured now" in compare.read_results(own, typed(plan))
    record.write_text(before)
    (own / "tables/cohorts.json").rename(own / "elsewhere")
    assert "cohorts.json is not there" in compare.read_results(own, typed(plan))
    (own / "analysis/provenance.json").unlink()
    assert "measured, and not analysed yet" in compare.read_results(own, typed(plan))
    next((own / "measure").glob("*/*.jsonl")).unlink()
    assert compare.read_results(own, typed(plan)) == "8 of 9 cohorts are measured"
