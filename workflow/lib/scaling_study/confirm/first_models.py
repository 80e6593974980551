"""Train the first models of a race as a whole, one after another: measure/models.json.

Windows show neither how long a process takes to start alone, nor its end, nor a forked start. A
fresh model shows the first two. Before a model is forked, another one shows what it imports.
"""

import logging
import time
from pathlib import Path

from scaling_study.common import private
from scaling_study.common.unavailable import UnavailableError
from scaling_study.confirm import one_round
from scaling_study.host import probe
from scaling_study.member import model_queue
from scaling_study.records.codec import write_file
from scaling_study.records.confirmation import FirstModels, Round, Start
from scaling_study.runner import measure, resolve
from scaling_study.search.rounds import Wanted

log = logging.getLogger("measure")


LONGEST = 2.0
"""Longest wait for a model, as a multiple of the expected time."""


def train(job: measure.Job, wanted: Wanted, path: Path, builds: Path) -> None:
    """Train first models, and write their records; an existing file is kept.

    Args:
        job: its launch is the one to train them with.
        wanted: how they start, and the time that this is expected to take.
        path: measure/models.json.
        builds: folder of built environments.
    """
    if path.exists():
        return
    began_s, machine = time.monotonic(), probe.read_machine()
    starts: tuple[Start, ...] = ("fresh", "forked") if wanted.start == "forked" else ("fresh",)
    rounds = []
    with private.folder() as folder:
        for start in starts:
            log.info("a whole model of %s: %s", job.launch.label, start)
            record = _round(job, start, LONGEST * wanted.expected_s, folder, builds)
            if record.reason:
                log.warning("the %s model: %s", start, record.reason)
            rounds.append(record)
    models = FirstModels(
        schema_version=1,
        launch=job.launch.id,
        machine_hash=machine.hash,
        wall_s=time.monotonic() - began_s,
        rounds=rounds,
    )
    write_file(path, models)


def _round(job: measure.Job, start: Start, limit_s: float, folder: Path, builds: Path) -> Round:
    """Run a round until a model that started in this way has ended."""
    machine, known = probe.read_machine(), folder / model_queue.IMPORTS
    with private.part(folder, start) as part:
        try:
            counts = [1, *resolve.counts(job.plan, machine)]
            resolved = resolve.resolve(job.plan, job.launch.axes, machine, builds, counts)
            running = one_round.prepare(
                job, resolved, 1, start, folder=part, known=known, machine=machine
            )
            return running.run(0, f"models/{start}", 0.0, limit_s)
        except UnavailableError as error:
            return Round.failed(f"models/{start}", error.reason)
