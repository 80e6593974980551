"""What a model costs beside its steps, by the way it starts: fresh or forked.

    python benchmarks/starts.py [--rounds 3] [--slots 2] [--models 4] [SCRIPT ARGUMENTS ...]

The queue of `recommended.sh --queue` trains a list of models, so many for each slot, with a thread
each. Both ways take turns, and a round shuffles them. The first forked queue learns what is
imported ahead, and does not count. Of each slot's models but the first one:

- start: from the model's beginning to the end of its first step;
- steps: from there to the end of its last one;
- end: from there to the end of its process.

models/hour are whole queues, from their start to their end. PSS is the memory of all processes of
the queue, pages that several of them share counted once (proc(5), smaps_rollup), at its highest; it
is of one further queue of each way, because reading it takes time. Nothing else should run.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
from doc_tables import write_table

from scaling_study.host.kernel_counters import descendants
from scaling_study.member import iterations
from scaling_study.queues import bind, model_queue, model_server

ROOT = Path(__file__).parents[1]
TSMIXERX = [str(ROOT / "scripts/workloads/tsmixerx.py"), "--steps", "500"]
WAYS = ("fresh", "forked")
LOOK_S = 0.2


def queue(
    way: str, options: argparse.Namespace, imports: Path, *, memory: bool = False
) -> dict[str, float]:
    """Train models in one way; return the seconds of their parts, models/hour, and memory (MiB).

    Args:
        way: One of WAYS.
        options: The command line.
        imports: File of what is imported ahead; it is made where it is missing.
        memory: Whether its memory is read.
    """
    slots, count = options.slots, options.slots * options.models
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pages, logs, listed = folder / "pages", folder / "logs", folder / "models.txt"
        pages.mkdir()
        listed.write_text("".join(f"--seed {number + 1}\n" for number in range(count)))
        server = [] if way == "fresh" else [model_server.__file__, "--"]
        command = [
            *(sys.executable, "-P", model_queue.__file__, "--start", way),
            *("--models", str(listed), "--logs", str(logs), "--imports", str(imports)),
            *["--slot", "", "default"] * slots,
            *("--", sys.executable, "-P", bind.__file__, "--env", "OMP_NUM_THREADS=1"),
            *("--", sys.executable, *server, *options.words),
        ]
        env = {**os.environ, **iterations.environment(pages, "optimizer", os.environ)}
        began_s = time.monotonic()
        with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as process:
            pss = [0.0]
            while memory and process.poll() is None:
                pss.append(pss_mib(process.pid))
                time.sleep(LOOK_S)
        taken_s = time.monotonic() - began_s
        if process.returncode:
            sys.exit(f"{shlex.join(command)} failed: {next(logs.glob('*.log')).read_text()}")
        if not imports.exists() and way == "forked":
            imports.write_bytes((logs / model_queue.IMPORTS).read_bytes())
        journal = pd.read_json(logs / "queue.jsonl", lines=True)
        rows = [page.span_ns for page in iterations.read_pages(pages)]
    # Means need no pairs: which page is whose does not matter.
    since_s = time.time() - time.monotonic()
    first, latest = ([ns / 1e9 for ns in times] for times in zip(*rows, strict=True))
    began, ended = (
        [at.timestamp() - since_s for at in pd.to_datetime(journal[name], utc=True)]
        for name in ("began", "ended")
    )
    at = [statistics.fmean(sorted(times)[slots:]) for times in (began, first, latest, ended)]
    parts = zip(("start", "steps", "end"), itertools.pairwise(at), strict=True)
    seconds = {part: later - earlier for part, (earlier, later) in parts}
    return {**seconds, "models/hour": 3600 * count / taken_s, "PSS": max(pss)}


def pss_mib(pid: int) -> float:
    """Return the memory (MiB) of all processes below one."""
    total = 0
    for one in descendants(pid):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{one}/smaps_rollup").read_text(encoding="ascii")
            total += int(text.partition("\nPss:")[2].split()[0])
    return total / 1024


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--models", type=int, default=4)
    parser.add_argument("words", nargs="*", default=TSMIXERX, metavar="SCRIPT")
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as name:
        imports = Path(name, "imports.json")
        queue("forked", options, imports)
        for number in range(options.rounds):
            for way in random.Random(number).sample(WAYS, len(WAYS)):  # noqa: S311 (an order)
                found[way].append(queue(way, options, imports))
        memory = {way: queue(way, options, imports, memory=True)["PSS"] for way in WAYS}
    rows = []
    fresh = pd.DataFrame(found["fresh"])
    for way, runs in found.items():
        own = pd.DataFrame(runs)
        means, ratios = own.mean(), own["models/hour"] / fresh["models/hour"]
        over = f"{statistics.geometric_mean(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f})"
        times = [f"{means[part]:.2f} s" for part in ("start", "steps", "end")]
        rows.append([way, f"{means['models/hour']:,.0f}", over, *times, f"{memory[way]:,.0f} MiB"])
    head = ["start", "models/hour", "over fresh", "start", "steps", "end", "PSS"]
    print(write_table(head, rows))


if __name__ == "__main__":
    main()
