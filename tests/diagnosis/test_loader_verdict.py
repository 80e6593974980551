"""The variants of a real script with a real loader: all of them, and what is made of them."""

import json

import pytest

from jobs import WORKLOADS, config
from scaling_study.analysis.experiment_runs import read_loader_run
from scaling_study.config.config import load_config
from scaling_study.config.efforts import LoaderEffort
from scaling_study.config.plan import make_plan
from scaling_study.diagnosis import loader_verdict as parts
from scaling_study.experiments import loader_experiment, loader_model
from scaling_study.experiments.blocks import Blocks
from scaling_study.host import page_cache
from scaling_study.records.readback import Loader
from scaling_study.runner import measure, windows
from scaling_study.runner.cohort import WindowSettings

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def short(monkeypatch):
    effort = LoaderEffort(1, 2, steps=4, shortest_s=0.2, longest_s=1.0, settle_s=0.05)
    monkeypatch.setitem(loader_experiment.LOADER_EFFORTS, "quick", effort)
    monkeypatch.setattr(loader_experiment, "SETTLE_S", 0.1)
    monkeypatch.setattr(loader_experiment, "ALONE_BLOCKS", 1)
    # Other tests run beside these.
    monkeypatch.setattr(windows, "INVALID", frozenset({"few_steps"}))


def run(folder, *arguments, **workload):
    mapping = config(WORKLOADS / "feeds.py", args=arguments, processes=[1]) | {
        "data_loader": "quick"
    }
    mapping["workload"] |= workload
    plan = make_plan(load_config(mapping))
    job = measure.Job(plan, plan.by_id[plan.baseline], 0)
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
    names = {"as_is", "cached", "beside", "still", "swapped", "only", "warm", "cold"}
    names |= {"only@workers-0", "only@workers-2"}
    assert names <= set(found.windows["variant"])
    assert found.readbacks["beside"].changes["loader_beside"]
    assert [way.name for way in found.ways.ways][:3] == ["", "workers-0", "workers-2"]
    assert found.ways.ways[-1].axes == {"prefetch": 8}
    assert not [name for name in found.readbacks if name.startswith("neighbour")]
    assert found.windows.loc[found.windows["variant"] == "warm", "resident_before"].eq(1).all()
    # The files that a cold window dropped are loaded again.
    assert page_cache.resident_share([data / "file"]) == 1
    entry = parts.data_loader([found])
    assert entry.status == "ok"
    assert [one.part for one in entry.parts] == [
        "waiting", "training", "interference", "rest",
    ]  # fmt: skip
    assert entry.use.cpus >= 1
    assert sum(span.workers for span in entry.use.spans) > 0.01
    (loader,) = found.readbacks["as_is"].loaders
    assert (loader.kind, loader.workers) == ("torch.utils.data.dataloader.DataLoader", 1)
    # A second run finds that all was done.
    before = path.read_text()
    run(tmp_path, "torch", "--workers", "1", "--file", str(data / "file"))
    assert path.read_text() == before
    assert json.loads(before.splitlines()[0])["kind"] == "data_loader"


@pytest.mark.parametrize(
    ("batches", "ready", "n", "window"),
    [
        (100, 4, 1, (0.5, 0.5, 0.1)),  # half a pass of steps of 10 ms
        (100, 20, 1, (0.5, 0.5, 0.2)),  # batches that were made with the files there
        (100, 4, 2, (0.25, 0.25, 0.1)),  # what one reads is there for the other
        (1000, 4, 1, (0.6, 2.0, 0.1)),
        (None, 8, 1, (0.6, 2.0, 0.1)),
        (20, 4, 1, None),
    ],
)
def test_a_window_without_files_ends_before_they_are_back(batches, ready, n, window):
    one = object.__new__(loader_experiment.LoaderExperiment)
    one._n, one._blocks = n, Blocks(print, WindowSettings(20, 0.6, 2.0, 0.1))
    found = one._cold([Loader(kind="", workers=0, batches=batches, ready=ready)], 0.01)
    got = found and (found.shortest_s, found.longest_s, found.settle_s)
    assert got == (window and pytest.approx(window))


def test_files_are_not_dropped_for_a_pass_that_is_over_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(loader_model, "WORKERS", ())
    (tmp_path / "file").write_bytes(bytes(100_000))
    found, _ = run(tmp_path, "torch", "--samples", "120", inputs=[str(tmp_path / "file")])
    (reason,) = [one.reason for one in found.end.left_out if one.variant == "cold"]
    assert "a pass over the data is too short" in reason
    assert "warm" in set(found.windows["variant"])


def test_a_loader_that_makes_its_batches_itself_is_waiting(tmp_path, monkeypatch):
    monkeypatch.setattr(loader_model, "WORKERS", ())
    found, _ = run(tmp_path, "torch", "--seconds", "0.02")
    left = {one.variant for one in found.end.left_out}
    assert left == {"beside", "warm", "cold"}
    entry = parts.data_loader([found])
    shares = {one.part: one.share.value for one in entry.parts}
    assert set(shares) == {"waiting", "training", "interference", "rest"}
    assert shares["waiting"] > 0.6


def test_a_script_whose_loader_is_not_known_is_told_how_to_name_it(tmp_path):
    found, _ = run(tmp_path, "own")
    assert found.end.status == "skipped"
    assert "workload.loader: module:Class" in found.end.reason
    entry = parts.data_loader([found])
    assert entry.status == "skipped"
    assert entry.reason == found.end.reason


def test_a_loader_that_the_config_names_is_known(tmp_path):
    found, _ = run(tmp_path, "own", loader="__main__:Own")
    assert found.end.status == "complete"
    assert {"as_is", "cached", "swapped", "only"} == set(found.windows["variant"])
    assert found.ways is None


@pytest.mark.long
def test_a_way_to_load_that_a_script_cannot_take_is_left_out(tmp_path):
    found, _ = run(tmp_path, "torch", "--file", "here")
    assert found.end.status == "complete", found.end
    left = {one.variant: one.reason for one in found.end.left_out}
    for way in ("only@workers-1", "only@workers-2"):
        assert left[way] == "a member ended when it was asked to load so"
    assert {"as_is", "cached", "swapped", "only"} <= set(found.windows["variant"])


@pytest.mark.long
def test_work_beside_training_is_measured_at_every_dose(tmp_path, monkeypatch):
    monkeypatch.setattr(loader_model, "WORKERS", ())
    monkeypatch.setattr(loader_experiment, "VARIANTS", (loader_experiment.AS_IS,))
    effort = LoaderEffort(1, 1, steps=4, shortest_s=0.2, longest_s=1.0, settle_s=0.05, neighbours=1)
    monkeypatch.setitem(loader_experiment.LOADER_EFFORTS, "quick", effort)
    monkeypatch.setattr(loader_experiment, "SETTLE_S", 0.1)
    found, _ = run(tmp_path, "torch")
    assert found.end.status == "complete", found.end
    beside = found.windows[found.windows["variant"].isin(loader_model.NEIGHBOURS)]
    assert sorted(beside["dose"]) == sorted(4 * [0.0, 0.25, 0.5, 0.75, 1.0])
    for kind in parts.data_loader([found]).neighbours:
        used = [dose.cpus for dose in kind.doses]
        assert used[0] < 0.1
        assert used[-1] > 0.2, used
