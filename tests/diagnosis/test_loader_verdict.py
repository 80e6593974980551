"""The variants of a real script with a real loader: all of them, and what is made of them."""

import json

import pytest

from jobs import WORKLOADS, config, planned
from scaling_study.analysis.experiment_runs import read_loader_run
from scaling_study.config import efforts
from scaling_study.diagnosis import loader_verdict as parts
from scaling_study.experiments import loader_experiment, loader_model
from scaling_study.host import page_cache
from scaling_study.runner import jobs, windows

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def short(monkeypatch):
    effort = efforts.LoaderEffort(1, 2, steps=4, shortest_s=0.2, longest_s=1.0, settle_s=0.05)
    monkeypatch.setitem(efforts.LOADER_EFFORTS, "quick", effort)
    monkeypatch.setattr(efforts, "SETTLE_S", 0.1)
    monkeypatch.setattr(efforts, "ALONE_BLOCKS", 1)
    # Other tests run beside these.
    monkeypatch.setattr(windows, "INVALID", frozenset({"few_steps"}))


def run(folder, *arguments):
    mapping = config(WORKLOADS / "feeds.py", args=arguments, processes=[1])
    mapping["data_loader"] = "quick"
    plan = planned(mapping)
    job = jobs.Job(plan, plan.by_id[plan.baseline], 0)
    path = folder / "0.jsonl"
    loader_experiment.LoaderExperiment(job, path, folder / "builds").run(1)
    return read_loader_run(path), path


def test_every_variant_of_a_loader_with_workers_is_measured(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "file").write_bytes(bytes(100_000))
    found, path = run(tmp_path, "torch", "--workers", "1", "--file", str(data / "file"))
    assert found.end.status == "complete", found.end
    assert found.end.left_out == []
    usual = {variant.name for variant in loader_model.VARIANTS}
    assert usual | {"only@workers-0", "only@workers-2"} <= set(found.windows["name"])
    assert [way.name for way in found.ways.ways][:3] == ["", "workers-0", "workers-2"]
    assert found.ways.ways[-1].axes == {"prefetch": 8}
    assert found.windows.loc[found.windows["name"] == "warm", "resident_before"].eq(1).all()
    # The files that a cold window dropped are loaded again.
    assert page_cache.resident_share([data / "file"]) == 1
    entry = parts.data_loader([found])
    assert entry.status == "ok"
    assert [one.part for one in entry.parts] == ["waiting", "training", "interference", "rest"]
    assert entry.use.cpus >= 1
    assert sum(span.workers for span in entry.use.spans) > 0.01
    (loader,) = found.readbacks["as_is"].loaders
    assert (loader.kind, loader.workers) == ("torch.utils.data.dataloader.DataLoader", 1)
    # A second run finds that all was done.
    before = path.read_text()
    run(tmp_path, "torch", "--workers", "1", "--file", str(data / "file"))
    assert path.read_text() == before
    assert json.loads(before.splitlines()[0])["kind"] == "data_loader"


def test_a_loader_that_makes_its_batches_itself_is_waiting(tmp_path, monkeypatch):
    monkeypatch.setattr(loader_model, "WORKERS", ())
    found, _ = run(tmp_path, "torch", "--seconds", "0.02")
    assert {one.variant for one in found.end.left_out} == {"warm", "cold"}
    entry = parts.data_loader([found])
    shares = {one.part: one.share.value for one in entry.parts}
    assert set(shares) == {"waiting", "training", "interference", "rest"}
    assert shares["waiting"] > 0.6


def test_a_script_whose_loader_is_not_known_is_told_how_to_name_it(tmp_path):
    found, _ = run(tmp_path, "own")
    assert found.end.status == "skipped"
    assert "workload.loader: module:Class" in found.end.reason
    entry = parts.data_loader([found])
    assert (entry.status, entry.reason) == ("skipped", found.end.reason)
