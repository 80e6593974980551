"""What a model costs beside its steps, by the way it starts: fresh, forked or reused.

    python benchmarks/starts.py [--rounds 3] [--slots 2] [--models 4] [SCRIPT ARGUMENTS ...]

The queue of `recommended.sh --queue` trains a list of models, so many for each slot, with a thread
each. All ways take turns, and a round shuffles them. The first forked queue learns what is imported
ahead, and does not count. Of each slot's models but the first one:

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
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from scaling_study.host.kernel_counters import descendants
from scaling_study.member import bind, iterations, model_queue, model_server

ROOT = Path(__file__).parents[1]
TSMIXERX = [str(ROOT / "scripts/workloads/tsmixerx.py"), "--steps", "500"]
WAYS = ("fresh", "forked", "reused")
LOOK_S = 0.2


class Run(NamedTuple):
    """A queue: seconds of its models, models/hour, and its memory (MiB) where that was read."""

    start_s: float
    steps_s: float
    end_s: float
    models_per_hour: float
    pss_mib: float


def queue(
    way: str, words: list[str], slots: int, models: int, imports: Path, *, memory: bool
) -> Run:
    """Train models in one way.

    Args:
        way: One of WAYS.
        words: The script and its arguments.
        slots: Models at once.
        models: Of each slot.
        imports: File of what is imported ahead; it is made where it is missing.
        memory: Whether its memory is read.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pages, logs, listed = folder / "pages", folder / "logs", folder / "models.txt"
        pages.mkdir()
        seeds = [f"--seed {number}" for number in range(1, slots * models + 1)]
        listed.write_text("\n".join(seeds) + "\n", encoding="utf-8")
        server = [] if way == "fresh" else [model_server.__file__, "--"]
        command = [
            *(sys.executable, "-P", model_queue.__file__, "--start", way),
            *("--models", str(listed), "--logs", str(logs), "--imports", str(imports)),
            *["--slot", "", "default"] * slots,
            *("--", sys.executable, "-P", bind.__file__, "--env", "OMP_NUM_THREADS=1"),
            *("--", sys.executable, *server, *words),
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
        journal = [json.loads(line) for line in (logs / "queue.jsonl").read_text().splitlines()]
        rows = [row for page in iterations.read_pages(pages) for row in page.starts()]
    # Means need no pairs: which page is whose does not matter.
    first = sorted(row.first_ns / 1e9 for row in rows)[slots:]
    latest = sorted(row.latest_ns / 1e9 for row in rows)[slots:]
    since_s = time.time() - time.monotonic()
    began = sorted(datetime.fromisoformat(one["began"]).timestamp() for one in journal)[slots:]
    ended = sorted(datetime.fromisoformat(one["ended"]).timestamp() for one in journal)[slots:]
    at = [statistics.fmean(times) for times in (began, first, latest, ended)]
    at[0], at[3] = at[0] - since_s, at[3] - since_s
    start_s, steps_s, end_s = (later - earlier for earlier, later in itertools.pairwise(at))
    rate = 3600 * slots * models / taken_s
    return Run(start_s, steps_s, end_s, rate, max(pss))


def pss_mib(pid: int) -> float:
    """Return the memory (MiB) of all processes below one."""
    total = 0
    for one in descendants(pid):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{one}/smaps_rollup").read_text(encoding="ascii")
            total += int(text.partition("\nPss:")[2].split()[0])
    return total / 1024


def main() -> None:
    """Print a table, and the same as JSON in the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--models", type=int, default=4)
    parser.add_argument("words", nargs="*", default=TSMIXERX, metavar="SCRIPT")
    options = parser.parse_args()
    found: dict[str, list[Run]] = {way: [] for way in WAYS}
    size = (options.slots, options.models)
    with tempfile.TemporaryDirectory() as name:
        imports = Path(name, "imports.json")
        queue("forked", options.words, *size, imports, memory=False)
        for number in range(options.rounds):
            for way in random.Random(number).sample(WAYS, len(WAYS)):  # noqa: S311 (an order)
                found[way].append(queue(way, options.words, *size, imports, memory=False))
        pss = {way: queue(way, options.words, *size, imports, memory=True).pss_mib for way in WAYS}
    print("| start | models/hour | over fresh | start | steps | end | PSS |\n" + "| --- " * 7 + "|")
    for way, runs in found.items():
        means = [statistics.fmean(values) for values in zip(*runs, strict=True)]
        ratios = [
            run.models_per_hour / other.models_per_hour
            for run, other in zip(runs, found["fresh"], strict=True)
        ]
        print(
            f"| {way} | {means[3]:,.0f} | {statistics.geometric_mean(ratios):.2f}"
            f" ({min(ratios):.2f} to {max(ratios):.2f}) | {means[0]:.2f} s | {means[1]:.2f} s"
            f" | {means[2]:.2f} s | {pss[way]:,.0f} MiB |"
        )
    print(json.dumps({way: [run._asdict() for run in runs] for way, runs in found.items()}))


if __name__ == "__main__":
    main()
