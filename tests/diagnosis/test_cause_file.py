"""analysis/causes.json, tables/experiments and the lists of docs/why.md."""

from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from injected_worlds import Bandwidth
from made_records import made_plan
from scaling_study.diagnosis import cause_file
from scaling_study.diagnosis.verdict import CAUSES, ORDER, OWN
from scaling_study.experiments.interventions import INTERVENTIONS
from scaling_study.records import codec
from scaling_study.records.analysis import Machines
from scaling_study.records.codec import RecordError, read_file, write_file
from scaling_study.records.columns import EXPERIMENTS
from scaling_study.records.tables import read_table
from scaling_study.study import stages
from synthetic_why import make_records, microbenchmarks, named, write_run

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "why.md"


def test_every_cause_has_its_texts_and_its_line_of_the_documentation():
    text = DOCUMENTATION.read_text(encoding="utf-8")
    assert sorted(ORDER) == sorted(OWN)
    lines = text.partition("\n## The causes\n")[2].partition("\n## ")[0].strip().splitlines()
    for cause in CAUSES:
        assert cause.ways("scaling_loss") or cause.ways("single_process_loss")
        line = next((one for one in lines if f"(`{cause.id}`; " in one), "")
        assert line, f"docs/why.md has no line for {cause.id}"
        for part in (cause.title, cause.source.rstrip("."), cause.remedy, cause.code or ""):
            assert part in line


def test_every_intervention_has_its_row_of_the_documentation():
    text = DOCUMENTATION.read_text(encoding="utf-8")
    rows = {row.split("`")[1]: row for row in text.splitlines() if row.startswith("| `")}
    for one in INTERVENTIONS:
        row = rows[one.name]
        changes = [f"`{axis}: {value}`" for axis, value in one.axes.items()]
        assert row.startswith(f"| `{one.name}` | {one.title} | {', '.join(changes)}")
        assert row.endswith("| yes |" if one.quick else "| no, `full` only |")


@pytest.fixture
def study(tmp_path):
    """A study of one target, with microbenchmarks; its file of experiments."""
    rng = np.random.default_rng(3)
    path = write_run(tmp_path / "why/default-44136f/0.jsonl", Bandwidth(), rng)
    write_file(tmp_path / "microbenchmarks.json", codec.plain(microbenchmarks(Bandwidth(), rng)))
    return path


def test_the_stage_writes_table_and_verdicts(study, tmp_path, capsys):
    plan = made_plan({}, explained={"default-44136f": "default"})
    stages.judge_experiments(tmp_path, plan)
    assert "Memory bandwidth" in capsys.readouterr().out
    content = read_file(tmp_path / "analysis/causes.json", object)
    assert named(content["machines"][0]["targets"][0])
    assert len(read_table(tmp_path / "tables", EXPERIMENTS)) > 100


def test_microbenchmarks_of_another_machine_are_not_used(study, tmp_path):
    path = tmp_path / "microbenchmarks.json"
    write_file(path, read_file(path, object) | {"machine": "another"})
    _, content = cause_file.gather([study], tmp_path, path)
    assert not named(codec.plain(content.machines[0].targets[0]))


def test_without_experiments_there_are_no_targets(tmp_path):
    table, content = cause_file.gather([], tmp_path, None)
    assert table.empty
    assert content == Machines(())


def test_replicates_of_different_workloads_are_not_pooled(study, tmp_path):
    head, *records = make_records(Bandwidth(), np.random.default_rng(4))
    second = study.with_name("1.jsonl")
    other = [structs.replace(head, measured_hash="other"), *records]
    second.write_bytes(b"".join(map(codec.encode, other)))
    with pytest.raises(RecordError, match="changed"):
        cause_file.gather([study, second], tmp_path, None)
