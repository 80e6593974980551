"""What a loader costs, from made-up windows whose parts are known."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from msgspec import structs

from made_records import HARDWARE, readback
from scaling_study.analysis.experiment_runs import LoaderRun
from scaling_study.diagnosis.loader_verdict import data_loader
from scaling_study.experiments import loader_model
from scaling_study.member import loader_substitutes
from scaling_study.records import experiment
from scaling_study.records.readback import Loader
from scaling_study.report import page, sections

SENTENCES = page.environment().get_template("loader_words.html.j2").module
MS = 1e-3
BLOCKS = 8
LOADER = Loader(
    kind="torch.utils.data.dataloader.DataLoader", kinds=["DataLoader"], workers=2, settable=True,
    shares_out=True, by_row=True, ready=4,
)  # fmt: skip
NO_WORKERS = structs.replace(LOADER, workers=0, by_row=False)
HEAD = experiment.LoaderHead(
    schema_version=3, study="", launch="a", label="intra_op 1", role="", axes={}, replicate=0,
    effort="quick", n=2, seed=1, machine_hash="", machine=HARDWARE, measured_hash="",
    harness_hash="", started="", blocks=BLOCKS,
)  # fmt: skip
CACHED = {"cached_batches": 8, "cached_bytes": 1000, "copied": False}
END = experiment.ExperimentEnd(status="complete", reason=None, remedy=None, wall_s=1.0)


def windows(replicate, *, training=8.0, waiting=4.0, interference=2.0, rest=0.0,
            fetching=3.0, without=(), noise=0.01, resident=0.0, back=0.4):  # fmt: skip
    rng = np.random.default_rng(replicate)
    steps = {
        "as_is": (whole := training + waiting + interference + rest),
        "cached": training,
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
                    "name": variant, "n": 2, "replicate": replicate, "block": block,
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


def run(replicate=0, rows=None, ways=None, use=None, **known):
    """A run of one start; ``rows`` are windows besides those of ``windows``."""
    made = windows(replicate, **known)
    return LoaderRun(
        head=structs.replace(HEAD, replicate=replicate),
        readbacks={"as_is": readback(slot=0, intra_op=1, loaders=[LOADER], cached=CACHED)},
        windows=made if rows is None else pd.concat([made, *rows]),
        ways=ways,
        invalid=0,
        end=END,
        use=use,
    )


def changed(**columns):
    """A run whose windows have other values in some columns."""
    one = run()
    return dataclasses.replace(one, windows=one.windows.assign(**columns))


@pytest.mark.parametrize(
    ("runs", "parts"),
    [
        ([run()], {"waiting": 4, "training": 8, "interference": 2, "rest": 0}),
        ([run(at) for at in range(3)], {"waiting": 4, "training": 8, "interference": 2, "rest": 0}),
        ([run(rest=3.0)], {"waiting": 4, "training": 8, "interference": 2, "rest": 3}),
        ([run(without=("cached",))], {"waiting": 4}),
    ],
)
def test_the_parts_of_a_step_are_found(runs, parts):
    found = data_loader(runs)
    assert (found.status, found.replicates) == ("ok", len(runs))
    whole = 14 if len(parts) == 1 else sum(parts.values())
    assert [one.part for one in found.parts] == list(parts)
    for one in found.parts:
        share = parts[one.part] / whole
        assert one.share.value == pytest.approx(share, abs=0.03)
        assert one.share.low - 0.01 <= share <= one.share.high + 0.01


def test_rates_and_stalls_are_found():
    found = data_loader([run()])
    assert found.most == pytest.approx({"loader": 2 / 9e-3, "training": 2 / 8e-3}, rel=0.15)
    assert found.fetching.value == pytest.approx(3e-3, rel=0.25)
    assert found.preparing.value == pytest.approx(6e-3, rel=0.25)


# Files that stay in memory, or are back before a window ends, show nothing of fetching.
@pytest.mark.parametrize("known", [{"resident": 0.6}, {"back": 0.95}, {"resident": np.nan}])
def test_fetching_is_known_only_from_windows_without_files(known):
    found = data_loader([run(**known)])
    assert found.fetching is None
    assert found.preparing.value == pytest.approx(6e-3, rel=0.25)


def findings(found, disk_limit=None):
    return str(SENTENCES.findings(found, None, disk_limit))


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (run(), "from storage takes 3"),
        (run(fetching=0.0), "takes nothing noticeable"),
        (run(back=0.95), "What fetching from storage takes is not known"),
        (run(rest=3.0), "is not accounted for"),
        (run(), "Each alone, the loader is the slower one."),
        (changed(disk_bytes_per_s=8e8), "80% of what one process can read"),
    ],
)
def test_findings_say_what_is_sure(one, text):
    assert text in findings(data_loader([one]), disk_limit=1e9)


def test_a_study_that_measured_nothing_says_why():
    reason = "the script has taken no batch from a loader that is known here"
    end = structs.replace(END, status="skipped", reason=reason)
    one = dataclasses.replace(run(), readbacks={}, windows=pd.DataFrame(), end=end)
    found = data_loader([one])
    assert (found.status, found.reason) == ("skipped", reason)
    said = SENTENCES.answer(found).strip()
    assert said == f"Nothing was measured: {reason}."


def swept(loader, **steps):
    """A run in which other ways to load were looked at, two CPUs for a process."""
    like = windows(0).query("name == 'only'")
    rows = []
    for name, step in steps.items():
        variant, _, way = name.partition("_at_")
        rows.append(
            like.assign(
                name=f"{variant}@{way.replace('_', '-')}", step_s=like["step_s"] * step / 9,
                user_s_per_step=5e-3, system_s_per_step=0.0, trainer_user_s_per_step=0.5e-3,
            )
        )  # fmt: skip
    ways = [loader_model.now(loader), *loader_model.ways(loader, 2.0)]
    return data_loader([run(rows=rows, ways=experiment.Ways(cpus=2.0, ways=ways))])


def test_other_ways_to_load_are_predicted_and_the_best_is_compared():
    found = swept(
        structs.replace(LOADER, workers=1, ready=2),
        only_at_workers_0=9,
        only_at_workers_2=4.5,
        only_at_whole=9,
        as_is_at_workers_2=10.2,
    )
    rows = {one.name: one for one in found.ways}
    assert list(rows) == ["", "workers-0", "workers-2", "whole", "ahead"]
    scale = found.variants[1].step_s.value / 8e-3  # the machine's drift
    # With batches enough ahead, training as it is and taking over a batch; as measured it is 14.
    assert rows["ahead"].predicted_s == pytest.approx(scale * 10.5 * MS, rel=0.03)
    more = scale * 14 / 10.5 * MS
    assert rows["workers-0"].predicted_s == pytest.approx(more * (8 + 9), rel=0.03)
    # Training as it is, apart from the loader, and taking over a batch: longer than making one; and
    # what both take longer while they want more than two CPUs.
    beside = 4.5 * (1.3 + 4.5 / (4.5 * scale) - 2) / 2
    assert rows["workers-2"].predicted_s == pytest.approx(more * (8.5 + beside), rel=0.03)
    assert rows["ahead"].predicted_s == rows[""].predicted_s
    assert rows["workers-2"].gain.value == pytest.approx(14 / 10.2, rel=0.03)
    assert rows["workers-0"].measured_s is None


def test_ways_to_load_are_those_that_can_be():
    names = [way.name for way in loader_model.ways(structs.replace(LOADER, by_row=False), 0.5)]
    assert names == ["workers-0", "workers-1", "ahead"]
    (ahead,) = [way for way in loader_model.ways(LOADER, 0.5) if way.as_fast]
    assert ahead.axes == {"prefetch": 8}
    assert (ahead.alone, ahead.trains) == ("only", "as_is@ahead")
    no_workers = loader_model.ways(structs.replace(LOADER, workers=0, ready=0), 8)
    assert [way.name for way in no_workers] == ["workers-1", "workers-2", "workers-4", "whole"]
    # Several workers would give each batch several times.
    iterable = structs.replace(NO_WORKERS, shares_out=False)
    assert [way.name for way in loader_model.ways(iterable, 8)] == ["workers-1"]


def looks(shared_bytes=2**31, **rates):
    """Looks twice a second at a machine of two CPUs whose counters grow at some rates."""
    still = dict.fromkeys(("stalled_cpu_s", "stalled_io_s", "disk_bytes", "network_bytes"), 0)
    rates = {"trainers_s": 1.0, "threads_s": 0.0, "workers_s": 0.5, "busy_s": 1.6} | still | rates
    seen = [
        experiment.UseReading(
            at_s=5 + at / 2, memory_left_bytes=2**33, shared_left_bytes=2**30,
            **{name: rate * at / 2 for name, rate in rates.items()},
        )
        for at in range(5)
    ]  # fmt: skip
    return experiment.Use(cpus=2, shared_bytes=shared_bytes, looks=seen)


def test_what_the_machine_was_used_for_is_divided_among_its_users():
    span = data_loader([run(use=looks())]).use.spans[0]
    assert span.at_s == pytest.approx(0.25)
    assert [getattr(span, kind) for kind in ("trainers", "threads", "workers")] == [1.0, 0.0, 0.5]
    assert span.others == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("use", "cpus", "disk", "shared"),
    [
        (looks(stalled_io_s=0.25, disk_bytes=2**20), True, False, True),
        # Shared memory was filled before the first look.
        (looks(2**34, workers_s=0.9, busy_s=2.0), False, True, False),
    ],
)
def test_what_the_machine_was_used_for_answers_rules_of_thumb(use, cpus, disk, shared):
    found = data_loader([run(use=use)]).use
    rules = {rule: holds for rule, holds, _ in sections.rules_of_thumb(found, 2**34)}
    assert rules["CPUs are not used up"] is cpus
    assert rules["Nobody waits for a disk"] is disk
    assert rules["Shared memory (/dev/shm) is not used up"] is shared


def seen(**variants):
    """What steps of variants take (ms): step, load, CPU, the training thread's, making a batch."""
    times = {
        name.replace("__", "@workers-").replace("only_", "only@"): loader_model.StepParts(
            *(one * MS for one in values)
        )
        for name, values in variants.items()
    }
    return times.get


def test_threads_of_a_pipeline_can_be_elsewhere():
    threads = structs.replace(LOADER, workers=None, threads=True, settable=False)
    assert loader_model.ways(threads, 2.0) == []
    (way,) = loader_model.ways(structs.replace(threads, kinds=["Pipeline"]), 2.0)
    assert (way.name, way.workers, way.change) == ("elsewhere", None, "pipeline_elsewhere")
    variant = loader_model.variant(way, loader_substitutes.NOTHING)
    assert (variant.change, variant.of) == (("loader_switched", "pipeline_elsewhere"), "")
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
    now, (one, *_) = loader_model.now(NO_WORKERS), loader_model.ways(NO_WORKERS, 1.0)
    assert loader_model.predicted_s(one, now, 2.0, known) == pytest.approx(step_ms * MS)
