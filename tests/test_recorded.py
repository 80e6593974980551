"""A real study, recorded once: its tables and analyses are made anew from its records, and equal.

tests/data/recorded.tar.xz is the folder of a study of tests/workloads/loader_workers.py (race,
confirmation, profiles with calls, why and data loader) on two CPUs, without what is drawn. A change
that is meant to change a result records it anew, and says in its message what became different.
"""

import json
import re

import pandas as pd
import pytest

import rendering
from scaling_study.records.codec import read_file

TABLES = ("windows", "replicates", "between", "points", "operators", "experiments")
ANALYSES = (
    "readback", "causes", "confirmation", "failures", "data_loader", "inflation", "noise", "pareto",
    "provenance", "recommendation", "scaling", "single_changes",
)  # fmt: skip

DROPPED = (
    *("causes.machines.targets.sensitivities.kind", "data_loader.machines.neighbours"),
    *(f"causes.machines.targets.sensitivities.doses.{key}" for key in ("cpus", "spread")),
)
"""What analyses had then."""
NO_LONGER = ("beside", "still")
"""Variants of the data loader that were measured then."""
REWORDED = (
    *(
        f"causes.machines.targets.{scope}.{status}.{key}"
        for scope in ("scaling_loss", "single_process_loss")
        for status in ("named", "ruled_out", "inconclusive")
        for key in ("title", "for.text", "against.text", "remedy.text", "remedy.command")
    ),
    *(
        f"causes.machines.targets.{scope}.not_tested.{key}"
        for scope in ("scaling_loss", "single_process_loss")
        for key in ("title", "reason")
    ),
    "inflation.machines.comparisons.text",
)
"""Sentences and commands, which may be worded differently today."""

GONE = {"of_gpu", "ended_after"}
"""Fields that records have no longer."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The study as it was, and as it is now."""
    return rendering.remake_recorded(tmp_path_factory.mktemp("recorded"))


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_equal(folders, name):
    before, now = (pd.read_csv(folder / f"tables/{name}.csv") for folder in folders)
    pd.testing.assert_frame_equal(before, now, rtol=1e-9)


@pytest.mark.parametrize("name", ANALYSES)
def test_analyses_are_equal(folders, name):
    before, now = (read_file(folder / f"analysis/{name}.json", object) for folder in folders)
    for path in (*REWORDED, *DROPPED):
        file, *keys = path.split(".")
        if file == name:
            before, now = without(before, keys), without(now, keys)
    if name == "causes":
        now = of_causes(now, set(re.findall(r'"cause": "(\w+)"', json.dumps(before))))
    if name == "data_loader":
        for entry in before["machines"]:
            entry["variants"] = [
                one for one in entry["variants"] if one["variant"] not in NO_LONGER
            ]
    assert approximately(now) == approximately(before)


def without(value, keys):
    """A value less what is at the end of a path of keys; lists are looked into."""
    if isinstance(value, list):
        return [without(item, keys) for item in value]
    if not isinstance(value, dict):
        return value
    first, *rest = keys
    return {
        key: without(item, rest) if key == first else item
        for key, item in value.items()
        if rest or key != first
    }


def of_causes(value, known):
    """A value without the verdicts on causes that are newer than the study."""
    if isinstance(value, dict):
        return {key: of_causes(item, known) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    causes = [item.get("cause") if isinstance(item, dict) else None for item in value]
    return [
        of_causes(item, known)
        for item, cause in zip(value, causes, strict=True)
        if cause is None or cause in known
    ]


def approximately(value):
    """Numbers to nine digits: another processor's sums may differ in the last ones.

    Null, and what a record leaves out because it is empty, are the same.
    """
    if isinstance(value, dict):
        known = {key: approximately(item) for key, item in value.items() if key not in GONE}
        return {key: item for key, item in known.items() if item not in (None, [], {}, "")}
    if isinstance(value, list):
        return [approximately(item) for item in value]
    return pytest.approx(value, rel=1e-9, nan_ok=True) if isinstance(value, float) else value


def test_all_cohorts_are_there(folders):
    before, now = (folder / "tables/cohorts.json" for folder in folders)
    assert approximately(read_file(now, object)) == approximately(read_file(before, object))
