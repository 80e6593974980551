"""Running real measuring jobs in tests: small, but through the real entry and its supervisor."""

import json
import os
import sys
from pathlib import Path

from made_records import read_lines
from processes import captured
from scaling_study.common import private
from scaling_study.config.config import load_config
from scaling_study.config.plan import make_plan
from scaling_study.records import codec
from scaling_study.records.profile import Profiled
from scaling_study.runner.jobs import job_sections, job_text
from scaling_study.runner.supervisor import supervised

ROOT = Path(__file__).parents[2]
WORKLOADS = ROOT / "tests/workloads"

QUICK = {
    "replicates": 1, "windows": 2, "steps": 5, "window_s": [0.2, 3.0], "warmup_steps": 3,
    "retries": 0, "timeout_s": 120.0,
}  # fmt: skip


def config(script, *, args=(), processes=(1, 2), launch=None, step="optimizer", **measure):
    return {
        "study": "test",
        "workload": {"script": str(script), "args": list(args), "step": step},
        "processes": list(processes),
        "launches": {"baseline": {"intra_op": 1, **(launch or {})}},
        "measure": {**QUICK, **measure},
    }


def planned(mapping):
    return make_plan(load_config(mapping))


def baseline_job(mapping, *sections):
    """The baseline as a job gets it."""
    plan = planned(mapping)
    return job_text(job_sections(plan, *sections), plan.by_id[plan.baseline])


STAGE = [sys.executable, "-m", "scaling_study"]
"""The command of a study's stages."""


def kept(stage, folder, *options):
    """A measuring job of any kind below its supervisor."""
    return [
        *supervised(),
        *(*STAGE, stage, *options),
        *("--builds", str(folder / "builds"), "--study-folder", str(folder)),
        *("--log", str(folder / "log")),
    ]


def profile_command(mapping, folder):
    """The job that profiles the baseline."""
    job = baseline_job(mapping, "profile")
    options = ("--job", job, "--target", "it", "--output", str(folder / "out"))
    return kept("profile", folder, *options)


def why_command(mapping, folder):
    """The job that experiments on the baseline."""
    target = planned(mapping).baseline
    options = ("--job", baseline_job(mapping, "why"), "--target", target)
    return kept("why", folder, *options, "--replicate", "0", "--output", str(folder / "0.jsonl"))


def profile(mapping, folder):
    """Profile the baseline as the workflow does; return its profile.json."""
    succeed(profile_command(mapping, folder), folder)
    return codec.read_file(folder / "out/profile.json", Profiled)


def execute(command, folder):
    """Run a job to its end; return what it did."""
    return captured(command, env=environment(folder), timeout=600)


def succeed(command, folder):
    """Run a job that succeeds."""
    done = execute(command, folder)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)


def command(job, folder, watched=None):
    return [
        *supervised(watched),
        *(*STAGE, "measure", "--job", job, "--replicate", "0"),
        *("--builds", str(folder / "builds"), "--log", str(folder / "log")),
        *("--output", str(folder / "0.jsonl")),
    ]


def environment(folder):
    """Mark everything that a job starts as this test's: members inherit TMPDIR too."""
    return {**os.environ, "TMPDIR": str(folder)}


def processes(folder, text=""):
    """The processes of a job that run in this folder and have a text in their command line."""
    mark = f"TMPDIR={folder}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environ = (process / "environ").read_bytes().split(b"\0")
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark in environ and text in b" ".join(words[:5]).decode(errors="replace"):
            found.append(int(process.name))
    return found


def left_behind(folder, names=()):
    """What a job in this folder left: processes, private folders, shared memory."""
    files = [*folder.glob(f"{private.PREFIX}*"), *(private.SHARED_MEMORY / name for name in names)]
    return [*processes(folder), *(path for path in files if path.exists())]


def run(mapping, folder, **axes):
    """Run the baseline's first replicate, with other values of axes; return its records by kind."""
    job = json.loads(baseline_job(mapping))
    job["launch"]["axes"] |= axes
    succeed(command(json.dumps(job), folder), folder)
    return read(folder / "0.jsonl")


def ends(mapping, folder, status="complete", *words, **axes):
    """Run the same to an end of this status, with these words in its reason; return its records."""
    records = run(mapping, folder, **axes)
    (end,) = records["end"]
    assert (end["status"], end["reason"] is None) == (status, status == "complete"), end
    assert all(word in end["reason"] for word in words), end
    return records


def read(path):
    records = read_lines(path)
    kinds = ("cohort", "readback", "window", "event", "settled", "end")
    return {kind: [record for record in records if record["kind"] == kind] for kind in kinds}
