"""A whole made-up study, and the workflow's later stages on what an attacker made of it."""

import contextlib
import io
import json
import runpy
import sys
from dataclasses import dataclass

import numpy as np

import synthetic
import synthetic_profiles
import synthetic_why
import test_confirmation
from configs import ROOT
from scaling_study.common.storage import write_json

MACHINE = synthetic.machine()["hash"]
# The files of a study, and the stage that reads each of them first.
READERS = {
    "plan.json": "collect",
    "measure/*/0.jsonl": "collect",
    "tables/cohorts.json": "analyse",
    "tables/points.parquet": "analyse",
    "tables/replicates.parquet": "analyse",
    "tables/windows.parquet": "confirmation",
    "confirm/rounds.jsonl": "confirmation",
    "profile/*/profile.json": "inflation",
    "profile/*/8/operators.json": "inflation",
    "profile/*/8/stacks-0.raw": "render",
    "why/*/0.jsonl": "causes",
    "fingerprint.json": "causes",
    **{
        f"analysis/{name}.json": "render"
        for name in (
            *("scaling", "noise", "recommendation", "failures", "attestation", "provenance"),
            *("inflation", "causes", "confirmation"),
        )
    },
}
STAGES = ("collect", "analyse", "confirmation", "inflation", "causes", "render")


@dataclass(frozen=True, slots=True)
class Done:
    """What a stage said and how it ended; ``raised`` is what would have been a traceback."""

    code: int
    said: str
    raised: BaseException | None


def make(folder):
    """Write a study with records, profiles, experiments and a fingerprint; run all its stages."""
    synthetic.write_study(folder, ns=(1, 2, 8), replicates=2, windows=1, steps=3)
    for place in synthetic_profiles.write_study(folder) or ():
        synthetic_profiles.add_stacks(place)
    world = synthetic_why.World()
    rng = np.random.default_rng(1)
    synthetic_why.write_run(folder / "why/target/0.jsonl", world, rng, blocks=3)
    write_json(folder / "fingerprint.json", synthetic_why.fingerprint(world, rng))
    records = [{**test_confirmation.head(), "machine_hash": MACHINE}, *test_confirmation.rounds(1)]
    (folder / "confirm").mkdir()
    (folder / "confirm/rounds.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in records))
    for stage in STAGES:
        done = run(stage, folder)
        assert (done.code, done.raised) == (0, None), (stage, done)
    return folder


def run(stage, folder):
    """Run a stage's script in this process, as its rule does."""
    options = {
        "confirmation": ["--plan", str(folder / "plan.json"),
                         "--rounds", str(folder / "confirm/rounds.jsonl")],
        "inflation": ["--profiles", *map(str, sorted(folder.glob("profile/*")))],
        "causes": ["--why", *map(str, sorted(folder.glob("why/*/*.jsonl"))),
                   "--fingerprint", str(folder / "fingerprint.json")],
        "render": ["--report", str(folder / "report.html")],
    }.get(stage, [])  # fmt: skip
    return execute(stage, "--study-folder", str(folder), *options)


def execute(name, *arguments):
    """Run a script of the workflow in this process, with these arguments."""
    script = str(ROOT / f"scripts/{name}.py")
    said, before = io.StringIO(), sys.argv
    sys.argv = [script, *arguments]
    code, raised = 0, None
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is what the test is about)
        raised = error
    finally:
        sys.argv = before
    return Done(code, said.getvalue(), raised)


def file_of(folder, pattern):
    """Return the file that a pattern of `READERS` stands for."""
    return min(folder.glob(pattern))
