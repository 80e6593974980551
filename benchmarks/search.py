"""Does the race find the best launch within its time? On 1,000 simulated machines, beside rivals.

    python benchmarks/search.py                    # 1,000 worlds, some five minutes on two CPUs
    python benchmarks/search.py --worlds 100       # a sample

Worlds are drawn by their number (benchmarks/search_worlds.py), so a table can be made again. The
race is the real planner with 50 minutes for measuring; its rivals (benchmarks/search_rivals.py) get
the time that it took in the same world; the grid takes what it takes. Regret is what the chosen
point's true throughput lacks of the best one's. Rivals choose among the launches that the config
has, and so does the race's regret: one below 0 is a combination that no rival can choose. Beside it
stands the regret against the best of all combinations. The table goes to
docs/evidence/search.md. The status is 0 if all figures are reached.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from search_rivals import LONGEST_S, RIVALS, WINDOWS, grid
from search_worlds import World

from scaling_study.search import rounds
from scaling_study.search.race import Race, Settings

if TYPE_CHECKING:
    from scaling_study.stats.throughputs import Start

ROOT = Path(__file__).parent.parent
BUDGET_S = 3000.0
"""Of an hour, ten minutes are the confirmation's."""
QUIET = 0.02
"""Up to this spread between starts the regret has bounds of its own."""
MEDIAN, MOST = 0.005, 0.02
"""Regret that is allowed where starts differ little: median, and 95th percentile."""
SHARE = 0.2
"""Of the grid's time that the race may take."""
SURE = (0.85, 0.95)
"""Where the race says about 90%,"""
RIGHT = (0.88, 0.95)
"""it is right this often."""
OURS, GRID = "race", "three replicates of the grid"

Row = dict[str, Any]


def race(world: World, budget_s: float) -> Row:
    """Race to the end in a world; return what was chosen, and how."""
    field, round_s = world.field, budget_s / rounds.MOST_ROUNDS
    settings = Settings(budget_s, windows=WINDOWS, round_s=round_s, seed=world.seed)
    starts: list[Start] = []
    done = batches = 0
    first_s = math.nan
    while True:
        state = Race(field, settings, starts, done)
        found = state.next()
        if found.stage == "done":
            break
        world.add(found.combined)
        field = replace(field, others=(*field.others, *found.combined))
        for batch in found.batches:
            starts += world.measure(batch, batches, WINDOWS, LONGEST_S)
            batches += 1
        done += 1
        if done == 1:
            first_s = sum(one.wall_s for one in starts)
    choice = state.choice
    if choice is None:
        raise RuntimeError(f"world {world.seed}: nothing was measured")
    return {
        "point": (choice.launch, choice.n),
        "spent_s": state.spent_s,
        "probability": choice.probability,
        "first_s": first_s,
        "rounds": done,
        "reason": found.reason,
    }


def one_world(seed: int) -> list[Row]:
    """Run all ways to choose in one world, each with a world of the same number of its own."""
    world = World(seed)
    best, together = world.best(), world.best_together()
    rows = [{"method": OURS, **race(world, BUDGET_S)}]
    truths = [world.true(*rows[0]["point"])]
    # What the race may know of: the launches that the config has, and what it has tried.
    rows[0]["lacks"] = 1 - truths[0] / world.best()
    for name, method in {GRID: grid, **RIVALS}.items():
        own = World(seed)
        found = method(own, rows[0]["spent_s"])
        rows.append({"method": name, "point": found.point, "spent_s": found.spent_s})
        truths.append(own.true(*found.point))
    return [
        {
            **row,
            "world": seed,
            "machine": world.machine,
            "noise": world.noise,
            "regret": 1 - true / best,
            "regret_of_all": 1 - true / together,
        }
        for row, true in zip(rows, truths, strict=True)
    ]


def table(rows: pd.DataFrame) -> tuple[str, bool]:
    """Return the table of all ways to choose, and whether all figures are reached."""
    spent = rows.pivot_table(index="world", columns="method", values="spent_s")
    lines = [
        "| how | spread between starts | median regret | 95th percentile | time, of the grid's |",
        "| --- | --- | --- | --- | --- |",
    ]
    figures: dict[tuple[str, bool], tuple[float, float]] = {}
    for method in [OURS, GRID, *RIVALS]:
        for quiet in (True, False):
            own = rows[(rows["method"] == method) & ((rows["noise"] <= QUIET) == quiet)]
            # A combination that is better than all that rivals may choose makes up for nothing.
            regret = own["regret"].clip(lower=0)
            median, most = float(regret.median()), float(regret.quantile(0.95))
            figures[method, quiet] = median, most
            share = (spent[method] / spent[GRID])[own["world"]].mean()
            noise = f"up to {QUIET:.0%}" if quiet else "5%"
            lines.append(f"| {method} | {noise} | {median:.2%} | {most:.2%} | {share:.1%} |")
    ours = rows[rows["method"] == OURS]
    sure = ours[ours["probability"].between(*SURE)]
    right = float((sure["lacks"] <= MOST).mean())
    late = ours.groupby("machine")["first_s"].quantile(0.95).max() / 60
    share = float((spent[OURS] / spent[GRID]).max())
    together = ours["regret_of_all"]
    quiet_ours, noisy_ours = figures[OURS, True], figures[OURS, False]
    checks = {
        f"regret with quiet starts: median {quiet_ours[0]:.2%}, at most {MEDIAN:.1%}": (
            quiet_ours[0] <= MEDIAN
        ),
        f"and 95th percentile {quiet_ours[1]:.2%}, at most {MOST:.0%}": quiet_ours[1] <= MOST,
        f"with noisy starts no more than the grid: {noisy_ours[1]:.2%} against "
        f"{figures[GRID, False][1]:.2%}": noisy_ours[1] <= figures[GRID, False][1],
        f"the most time, of the grid's: {share:.1%}, at most {SHARE:.0%}": share <= SHARE,
        f"where it says {SURE[0]:.0%} to {SURE[1]:.0%} ({len(sure)} worlds) it is right in "
        f"{right:.1%}; {RIGHT[0]:.0%} to {RIGHT[1]:.0%}": RIGHT[0] <= right <= RIGHT[1],
        f"first answer after {late:.1f} minutes (95th percentile, slowest machine), at most 10": (
            late <= 10
        ),
        "ahead of every rival at the same cost": all(
            quiet_ours[1] <= figures[name, True][1] and noisy_ours[1] <= figures[name, False][1]
            for name in RIVALS
        ),
    }
    marks = [f"- {'reached' if met else 'NOT REACHED'}: {what}" for what, met in checks.items()]
    further = (
        f"Against the best of all combinations, which no rival may choose, the race's regret is "
        f"{together.median():.1%} (median; 95th percentile {together.quantile(0.95):.1%})."
    )
    return "\n".join([*lines, "", *marks, "", further]) + "\n", all(checks.values())


def main() -> int:
    """Run all worlds, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first world")
    parser.add_argument("--table", type=Path, default=ROOT / "docs/evidence/search.md")
    parser.add_argument("--rows", type=Path, help="where all worlds' rows go, as CSV")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # workers, one on each CPU
    began = time.monotonic()
    worlds = range(options.first, options.first + options.worlds)
    with ProcessPoolExecutor() as pool:
        rows = pd.DataFrame([row for own in pool.map(one_world, worlds) for row in own])
    if options.rows:
        rows.to_csv(options.rows)
    text, met = table(rows)
    minutes = (time.monotonic() - began) / 60
    made = f"{options.worlds:,} worlds from number {options.first}, in {minutes:.0f} minutes."
    head = (__doc__ or "").partition("\n")[0]
    print(text)
    options.table.write_text(
        f"# {head}\n\nPrinted by `python benchmarks/search.py`: {made}\n\n{text}", encoding="utf-8"
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
