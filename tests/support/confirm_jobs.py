"""Running real confirmations in tests: through the real entry and its supervisor."""

import json

import jobs
from scaling_study.host import probe
from scaling_study.records import codec
from scaling_study.records.analysis import Machines, Recommendation, Recommended, ReferencePoint
from scaling_study.records.confirmation import DECODER
from scaling_study.runner.jobs import job_sections, job_text


def point(plan, launch, n):
    """A point of a recommendation."""
    return {"launch": launch, "label": plan.by_id[launch].label, "n": n, "steps_per_s": 100.0,
            "models_per_hour": 1000.0, "non_step_share": 0.0}  # fmt: skip


def recommendation(plan, n=1, default_n=1, machine=None):
    """What an analysis of this machine would hold if the baseline were the best launch."""
    return Recommendation(
        machine=machine or probe.read_machine().hash,
        status="ok",
        recommended=Recommended(**point(plan, plan.baseline, n)),
        default=ReferencePoint(**point(plan, plan.default, default_n)) if default_n else None,
    )


def planned(script, seconds, *, args=(), **sections):
    mapping = jobs.config(script, args=args, **sections)
    return jobs.planned(mapping | {"confirm": {"seconds": seconds}})


def command(plan, found, folder):
    """The job that confirms, below its supervisor."""
    (folder / "plan.json").write_text(json.dumps(plan.to_dict()))
    (folder / "analysis").mkdir(exist_ok=True)
    codec.write_file(folder / "analysis/recommendation.json", Machines((found,)))
    job = job_text(job_sections(plan, "confirm"), plan.by_id[plan.default])
    output = folder / "rounds.jsonl"
    return jobs.kept("confirm", folder, "--job", job, "--output", str(output))


def run(plan, found, folder):
    """Confirm, and return the records."""
    jobs.succeed(command(plan, found, folder), folder)
    return [record for _, record in codec.read(folder / "rounds.jsonl", DECODER)]


def of_kind(records, kind):
    return [record for record in records if record.__struct_config__.tag == kind]
