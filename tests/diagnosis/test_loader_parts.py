"""What a loader costs, from made-up windows whose parts are known."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from scaling_study.analysis.loader_windows import LoaderRun
from scaling_study.config import efforts
from scaling_study.diagnosis.loader_verdict import data_loader
from scaling_study.experiments import loader_model
from scaling_study.member import synthetic_load
from scaling_study.report import figures, sections
from scaling_study.report.model import DataLoader
from synthetic import machine

MS = 1e-3
MACHINE = machine()
BLOCKS = 8
LOADER = {
    "kind": "torch.utils.data.dataloader.DataLoader",
    "kinds": ["DataLoader"],
    "workers": 2,
    "threads": False,
    "settable": True,
    "shares_out": True,
    "by_row": True,
    "ready": 4,
}


def windows(replicate, *, training=8.0, waiting=4.0, interference=2.0, rest=0.0,
            fetching=3.0, without=(), noise=0.01, resident=0.0, back=0.4):  # fmt: skip
    rng = np.random.default_rng(replicate)
    steps = {
        "as_is": (whole := training + waiting + interference + rest),
        "cached": training,
        "beside": 1.1 * training + interference,
        "still": 1.1 * training,  # another start
        "swapped": waiting + training + interference,
        "only": waiting + 5.0,
        "warm": whole,
        "cold": whole + fetching,
    }
    rows = []
    for block in range(BLOCKS):
        drift = 1 + 0.2 * rng.random()
        for variant, step in steps.items():
            if variant in without:
                continue
            factor = MS * drift * (1 + noise * rng.standard_normal())
            rows.append(
                {
                    "variant": variant, "replicate": replicate, "block": block,
                    "step_s": step * factor,
                    "load_s_per_step": waiting * factor * (variant in {"as_is", "swapped"}),
                    "disk_bytes_per_s": 2e9 if variant == "cold" else 0.0,
                    "loader_made_s_per_step": 0.0,
                    "trainer_user_s_per_step": (0.5 if variant == "only" else training) * factor,
                    "trainer_system_s_per_step": 0.0,
                    "user_s_per_step": 1.2 * training * factor,
                    "system_s_per_step": 0.1 * training * factor,
                    "resident_before": {"warm": 1.0, "cold": resident}.get(variant, np.nan),
                    "resident_after": {"warm": 1.0, "cold": back}.get(variant, np.nan),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def run(replicate=0, **known):
    head = {
        "launch": "a", "label": "intra_op 1", "n": 2, "effort": "quick", "replicate": replicate,
    }  # fmt: skip
    cached = {"cached_batches": 8, "cached_bytes": 1000, "copied": False}
    readbacks = {"as_is": {"loaders": [LOADER], "cached": cached}}
    end = {"status": "complete", "reason": None, "left_out": []}
    return LoaderRun(head, readbacks, windows(replicate, **known), None, 0, end)


def shares(found):
    return {one["part"]: one["share"] for one in found["parts"]}


@pytest.mark.parametrize("starts", [1, 3])
def test_the_parts_of_a_step_are_found(starts):
    found = data_loader([run(replicate) for replicate in range(starts)])
    assert found["status"] == "ok"
    assert found["replicates"] == starts
    for name, part in {
        "waiting": 4,
        "training": 8,
        "interference": 2,
        "rest": 0,
    }.items():
        share = shares(found)[name]
        assert share["value"] == pytest.approx(part / 14, abs=0.02)
        assert share["low"] - 0.005 <= part / 14 <= share["high"] + 0.005
    assert found["most"] == pytest.approx({"loader": 2 / 9e-3, "training": 2 / 8e-3}, rel=0.15)
    assert found["fetching"]["value"] == pytest.approx(3e-3, rel=0.25)
    assert found["preparing"]["value"] == pytest.approx(6e-3, rel=0.25)


def findings(found, disk_limit=None):
    return " ".join(sections.loader_findings(DataLoader.model_validate(found), None, disk_limit))


def thumbs(found):
    use = DataLoader.model_validate(found).use
    memory_bytes = MACHINE.get("memory_bytes")
    return {rule: (holds, text) for rule, holds, text in sections.rules_of_thumb(use, memory_bytes)}


def test_what_the_parts_do_not_account_for_is_shown():
    found = data_loader([run(rest=3.0)])
    assert shares(found)["rest"]["value"] == pytest.approx(3 / 17, abs=0.03)
    assert "is not accounted for" in findings(found)


def test_a_loader_without_workers_leaves_caches_cold():
    found = data_loader([run(interference=1.0, without=("beside", "still"))])
    assert set(shares(found)) == {"waiting", "training", "interference", "rest"}
    assert shares(found)["interference"]["value"] == pytest.approx(1 / 13, abs=0.01)


def test_files_that_stay_in_memory_tell_nothing_of_fetching():
    assert data_loader([run(resident=0.6)])["fetching"] is None


def test_files_that_are_back_before_a_window_ends_tell_nothing_of_fetching():
    found = data_loader([run(back=0.95)])
    assert found["fetching"] is None
    text = findings(found)
    assert "What fetching from storage takes is not known" in text


@pytest.mark.parametrize(
    ("fetching", "said"), [(3.0, "from storage takes 3"), (0.0, "takes nothing noticeable")]
)
def test_what_fetching_takes_is_said_as_far_as_it_is_sure(fetching, said):
    text = findings(data_loader([run(fetching=fetching)]))
    assert said in text


def test_a_study_that_measured_nothing_says_why():
    reason = "the script has taken no batch from a loader that is known here"
    one = run()
    end = {"status": "skipped", "reason": reason, "left_out": []}
    found = data_loader([LoaderRun(one.head, {}, pd.DataFrame(), None, 0, end)])
    assert (found["status"], found["reason"]) == ("skipped", reason)
    assert (
        sections.data_loader(DataLoader.model_validate(found)) == f"Nothing was measured: {reason}."
    )


def test_the_answer_comes_first():
    text = sections.data_loader(DataLoader.model_validate(data_loader([run()])))
    assert text.startswith("A step waits 29% of its time for the loader")
    assert "more than 1.7" in text
    found = DataLoader.model_validate(data_loader([run()]))
    more = sections.loader_findings(found, 2**20, None)
    assert any("of a step from training" in each for each in more)
    assert "Each alone, the loader is the slower one." in more
    assert any("fit into the last-level cache" in each for each in more)
    assert [one.part for one in found.parts][:2] == ["waiting", "training"]


def swept(loader, **steps):
    """A run in which other ways to load were looked at, two CPUs for a process."""
    one = run()
    rows = [one.windows]
    for name, step in steps.items():
        variant, _, way = name.partition("_at_")
        like = one.windows[one.windows["variant"] == "only"]
        rows.append(
            like.assign(
                variant=f"{variant}@{way.replace('_', '-')}", step_s=like["step_s"] * step / 9,
                user_s_per_step=5e-3, system_s_per_step=0.0, trainer_user_s_per_step=0.5e-3,
            )
        )  # fmt: skip
    ways = [loader_model.now(loader), *loader_model.ways(loader, 2.0)]
    known = {"cpus": 2.0, "ways": [dataclasses.asdict(way) for way in ways]}
    return data_loader([LoaderRun(one.head, one.readbacks, pd.concat(rows), known, 0, one.end)])


def test_other_ways_to_load_are_predicted_and_the_best_is_compared():
    loader = LOADER | {"workers": 1, "ready": 2}
    found = swept(
        loader, only_at_workers_0=9, only_at_workers_2=4.5, only_at_whole=9, as_is_at_workers_2=10.2
    )
    rows = {one["name"]: one for one in found["ways"]}
    assert list(rows) == ["", "workers-0", "workers-2", "whole", "ahead"]
    scale = found["variants"][1]["step_s"]["value"] / 8e-3  # the machine's drift
    # With batches enough ahead, training as it is and taking over a batch; as measured it is 14.
    assert rows["ahead"]["predicted_s"] == pytest.approx(scale * 10.5 * MS, rel=0.03)
    more = scale * 14 / 10.5 * MS
    assert rows["workers-0"]["predicted_s"] == pytest.approx(more * (8 + 9), rel=0.03)
    # Training as it is, apart from the loader, and taking over a batch: longer than making one; and
    # what both take longer while they want more than two CPUs.
    beside = 4.5 * (1.3 + 4.5 / (4.5 * scale) - 2) / 2
    assert rows["workers-2"]["predicted_s"] == pytest.approx(more * (8.5 + beside), rel=0.03)
    assert rows["ahead"]["predicted_s"] == rows[""]["predicted_s"]
    assert rows["workers-2"]["gain"]["value"] == pytest.approx(14 / 10.2, rel=0.03)
    assert rows["workers-0"]["measured_s"] is None
    assert "Load with 2 workers: 1.3" in findings(found)
    assert "as fast; in a launch, loader_workers: 2." in findings(found)


def test_ways_to_load_are_those_that_can_be():
    names = [way.name for way in loader_model.ways(LOADER | {"by_row": False}, 0.5)]
    assert names == ["workers-0", "workers-1", "ahead"]
    (ahead,) = [way for way in loader_model.ways(LOADER, 0.5) if way.as_fast]
    assert ahead.axes == {"prefetch": 8}
    assert (ahead.alone, ahead.trains) == ("only", "as_is@ahead")
    no_workers = loader_model.ways(LOADER | {"workers": 0, "ready": 0}, 8)
    assert [way.name for way in no_workers] == ["workers-1", "workers-2", "workers-4", "whole"]
    # Several workers would give each batch several times.
    iterable = LOADER | {"workers": 0, "shares_out": False, "by_row": False}
    assert [way.name for way in loader_model.ways(iterable, 8)] == ["workers-1"]


def beside(kind, slower):
    """Windows beside work that uses up to two CPUs, and makes a step up to so much longer."""
    return pd.DataFrame(
        [
            {
                "variant": kind, "replicate": 0, "block": 10 + block, "dose": dose,
                "step_s": (step := 8 * MS * (1 + slower * dose) * (1 + 0.01 * (block % 2))),
                "spread": 1.1 + dose, "load_s_per_step": 0.0,
                "user_s_per_step": (1 + 2 * dose) * step, "system_s_per_step": 0.0,
                "trainer_user_s_per_step": step, "trainer_system_s_per_step": 0.0,
                "resident_before": np.nan, "resident_after": np.nan,
            }
            for block in range(4)
            for dose in (0.0, 0.5, 1.0)
        ]
    )  # fmt: skip


def test_the_time_that_a_feed_takes_counts_what_there_is():
    assert len(loader_model.TITLES) == efforts.VARIANTS
    assert len(loader_model.NEIGHBOURS) == len(synthetic_load.KINDS) == efforts.NEIGHBOURS


def test_work_beside_training_hurts_from_some_use_of_cpus_on():
    one = run()
    kinds = [beside("neighbour_threads", 0.5), beside("neighbour_processes", 0.0)]
    rows = pd.concat([one.windows, *kinds])
    found = data_loader([LoaderRun(one.head, one.readbacks, rows, None, 0, one.end)])
    threads, processes = found["neighbours"]
    assert [each["dose"] for each in threads["doses"]] == [0.0, 0.5, 1.0]
    assert [each["cpus"] for each in threads["doses"]] == pytest.approx([0, 1, 2])
    assert threads["doses"][1]["ratio"]["value"] == pytest.approx(1.25)
    assert threads["doses"][2]["spread"] == pytest.approx(2.1)
    assert processes["doses"][2]["ratio"]["value"] == pytest.approx(1.0)
    text = findings(found)
    assert "threads in the process from 1 CPUs on (1.25\N{MULTIPLICATION SIGN} as long" in text
    assert "processes beside" not in text
    drawn = figures.doses(DataLoader.model_validate(found).neighbours, "x", "x", "x", 2.0)
    assert "CPU use of the others" in drawn.svg


def test_a_disk_that_is_used_up_is_said():
    one = run()
    rows = one.windows.assign(disk_bytes_per_s=8e8)
    found = data_loader([LoaderRun(one.head, one.readbacks, rows, None, 0, one.end)])
    assert "80% of what one process can read" in findings(found, disk_limit=1e9)


def looks(**rates):
    """Looks twice a second at a machine of two CPUs whose counters grow at some rates."""
    still = dict.fromkeys(("stalled_cpu_s", "stalled_io_s", "disk_bytes", "network_bytes"), 0)
    rates = {"trainers_s": 1.0, "threads_s": 0.0, "workers_s": 0.5, "busy_s": 1.6} | still | rates
    return {
        "cpus": 2, "shared_bytes": 2**31,
        "looks": [
            {
                "at_s": 5 + at / 2, **{name: rate * at / 2 for name, rate in rates.items()},
                "memory_left_bytes": 2**33, "shared_left_bytes": 2**30,
            }
            for at in range(5)
        ],
    }  # fmt: skip


def test_what_the_machine_was_used_for_answers_rules_of_thumb():
    one = run()
    found = data_loader([dataclasses.replace(one, use=looks(stalled_io_s=0.25, disk_bytes=2**20))])
    span = found["use"]["spans"][0]
    assert span["at_s"] == pytest.approx(0.25)
    assert [span[kind] for kind in ("trainers", "threads", "workers")] == [1.0, 0.0, 0.5]
    assert span["others"] == pytest.approx(0.1)
    rules = thumbs(found)
    assert rules["CPUs are not used up"] == (True, "1.6 of 2 CPUs in use")
    assert rules["Nobody waits for a CPU"][0]
    assert rules["Nobody waits for a disk"][0] is False
    assert rules["Shared memory (/dev/shm) is not used up"][0]
    full = looks(workers_s=0.9, busy_s=2.0) | {"shared_bytes": 2**34}
    full = data_loader([dataclasses.replace(one, use=full)])
    rules = thumbs(full)
    # It was filled before the first look.
    assert rules["Shared memory (/dev/shm) is not used up"][0] is False
    assert rules["CPUs are not used up"][0] is False


def seen(**variants):
    """What steps of variants take (ms): step, load, CPU, the training thread's, making a batch."""
    times = {
        name.replace("__", "@workers-").replace("only_", "only@"): loader_model.Seen(
            *(one * MS for one in values)
        )
        for name, values in variants.items()
    }
    return times.get


def test_two_that_compute_at_once_are_slower_by_what_two_workers_are():
    known = seen(
        as_is=(12, 8, 12, 12, 8), cached=(4, 0, 4, 4, 0), only=(8, 0, 8, 8, 8),
        only__1=(8, 0, 8.2, 0.2, 8), only__2=(5, 0, 10.2, 0.2, 10),
    )  # fmt: skip
    loader = LOADER | {"workers": 0, "by_row": False}
    now, (one, two) = loader_model.now(loader), loader_model.ways(loader, 1.0)
    # A quarter slower for as long as training computes too.
    assert loader_model.predicted_s(one, now, 2.0, known) == pytest.approx(9e-3)
    # Three that compute share two CPUs for as long as training lasts.
    assert loader_model.predicted_s(two, now, 2.0, known) == pytest.approx((5 + 4 * 0.75) * MS)
    # With CPUs enough it is the loader once more.
    assert loader_model.predicted_s(two, now, 8.0, known) == pytest.approx(6e-3)


def test_a_prediction_is_how_much_the_parts_differ():
    """The parts as it is hold 12 of 13 ms: the parts of another way hold as little of it."""
    known = seen(
        as_is=(13, 8, 13, 13, 8), cached=(4, 0, 4, 4, 0), only=(7, 0, 7, 7, 7),
        only__1=(8, 0, 8.2, 0.2, 8),
    )  # fmt: skip
    loader = LOADER | {"workers": 0, "by_row": False}
    now, (one, *_) = loader_model.now(loader), loader_model.ways(loader, 1.0)
    assert loader_model.predicted_s(one, now, 2.0, known) == pytest.approx(8 * MS * 13 / 12)
    assert loader_model.predicted_s(now, now, 2.0, known) == pytest.approx(12 * MS)


def test_threads_of_a_pipeline_can_be_elsewhere():
    threads = LOADER | {"workers": None, "threads": True, "settable": False}
    assert loader_model.ways(threads, 2.0) == []
    (way,) = loader_model.ways(threads | {"kinds": ["Pipeline"]}, 2.0)
    assert (way.name, way.workers, way.change) == ("elsewhere", None, "pipeline_elsewhere")
    assert way.elsewhere
    known = seen(
        as_is=(10, 1, 15, 8, 0), cached=(5, 0, 5, 5, 0), swapped=(9, 1, 14, 7, 0),
        only=(4, 0, 6, 1, 0), only_elsewhere=(3, 0, 3.5, 0.5, 0),
    )  # fmt: skip
    # Without what its threads take from training (3 ms), and with what a batch takes to come over.
    now = loader_model.now(threads)
    assert loader_model.predicted_s(way, now, 2.0, known) == pytest.approx(6.5e-3)
    # As it is a batch is ready when it is wanted.
    assert loader_model.predicted_s(now, now, 2.0, known) == pytest.approx(10e-3)


@pytest.mark.parametrize(
    ("alone", "step_ms"),
    # Its CPU time, and the worker's, which is more than a CPU's; and where its own is less, waiting
    # for what hands it over.
    [((1.1, 0, 1.3, 1.0, 0.2), 3.45), ((1.1, 0, 0.6, 0.4, 0.2), 3.3)],
)
def test_a_batch_that_takes_long_to_take_over_is_seen(alone, step_ms):
    known = seen(
        as_is=(2.6, 0.2, 2.6, 2.6, 0.2), cached=(2.4, 0, 2.4, 2.4, 0), only__1=alone,
        only=(0.2, 0, 0.2, 0.2, 0.2),
    )  # fmt: skip
    loader = LOADER | {"workers": 0, "by_row": False}
    now, (one, *_) = loader_model.now(loader), loader_model.ways(loader, 1.0)
    assert loader_model.predicted_s(one, now, 2.0, known) == pytest.approx(step_ms * MS)
