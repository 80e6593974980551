"""Result files that are damaged or of another machine; two runs at once."""

import json
import random
import shutil
import subprocess
import time

import pytest

from faulty import FaultyStudy, counted, records, running

pytestmark = pytest.mark.faults

WINDOWS = 3
POINTS = "results/faults/tables/points.parquet"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A whole study, which every test damages and completes again."""
    folder = tmp_path_factory.mktemp("files")
    study = FaultyStudy(folder, measure={"windows": WINDOWS})
    study.succeeds()
    return study


def planned(study):
    """How many valid windows of each count all launches of the study have together."""
    launches = len(list((study.results / "measure").iterdir()))
    return dict.fromkeys((1, 2), WINDOWS * launches)


def first(study):
    return study.folder / study.files[0]


def test_a_truncated_record_file(study, record_property):
    path = first(study)
    fault = study.fault("a truncated record file", record_property)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    kept = path.read_bytes()
    kept = kept[: kept.rfind(b"\n") + 1]
    text = study.fails(POINTS)
    assert f"{path.relative_to(study.folder)}:" in text
    assert "it was cut off; add .part to the file's name to keep what is before it" in text
    path.rename(path.with_name(f"{path.name}.part"))
    study.succeeds(POINTS)
    assert path.read_bytes().startswith(kept)
    # What was cut off is gone; what is planned is there again.
    fault.leaves(planned=planned(study))


def test_results_of_another_machine(study, record_property):
    """They stand beside this machine's, and are never pooled with them."""
    path = first(study)
    whole = path.read_bytes()
    fault = study.fault("results of another machine", record_property)
    here = json.loads(whole.partition(b"\n")[0])["machine_hash"]
    path.write_bytes(whole.replace(here.encode(), b"another"))
    study.succeeds(POINTS)
    cohorts = json.loads((study.results / "tables/cohorts.json").read_text())
    machines = {(cohort["launch"], cohort["machine"]) for cohort in cohorts["cohorts"]}
    assert {machine for _, machine in machines} == {here, "another"}
    assert {launch for launch, machine in machines if machine == "another"} == {path.parent.name}
    assert len(machines) == 3
    fault.leaves(planned=planned(study))
    path.write_bytes(whole)


def test_two_runs_in_one_folder(study, record_property):
    for file in study.files:
        (study.folder / file).unlink()
    fault = study.fault("two runs in one folder", record_property)
    both = [
        subprocess.Popen(
            study.command(*study.files), cwd=study.folder, env=study.environment(),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    texts = [process.communicate()[0] for process in both]
    codes = [process.returncode for process in both]
    assert sorted(map(bool, codes)) == [False, True], texts
    winner = codes.index(0)
    refused = texts[1 - winner]
    assert f"is being written by process {both[winner].pid}: wait for it, or stop it" in refused
    assert "Traceback" not in refused
    fault.leaves(planned=planned(study))


def test_snakemake_is_killed_while_it_makes_tables(study, record_property):
    for seed in range(3):
        for name in ("tables", "analysis", "figures"):
            shutil.rmtree(study.results / name, ignore_errors=True)
        moment = random.Random(seed)  # noqa: S311 (a moment, no secret)
        with running(study) as process:
            time.sleep(moment.uniform(2, 8))
            fault = study.fault("kill -9 of Snakemake while it makes tables", record_property)
            process.kill()
            process.wait()
            fault.leaves()


def test_in_the_end_the_study_is_whole(study):
    study.succeeds()
    assert (study.folder / "reports/faults.html").exists()
    assert set(counted(study.results).values()) == {1}
    assert {end["status"] for end in study.ends().values()} == {"complete"}
    assert not list(study.results.glob("**/*.part"))
    assert len(records(study.results)) == 3
