"""Does the race find the best launch within its time? On 1,000 simulated machines, beside rivals.

    python benchmarks/search.py --worlds 100       # a sample; 1,000 take five minutes on two CPUs
    python benchmarks/search.py --table docs/evidence/search.md

Worlds are drawn by their number (benchmarks/search_worlds.py), so a table can be made again. The
race is the real planner with 50 minutes for measuring; its rivals (benchmarks/search_rivals.py) get
the time that it took in the same world; the grid takes what it takes. Regret is what the chosen
point's true throughput lacks of the best one's. Rivals choose among the launches that the config
has; the race may also combine them, and a regret below 0 counts as 0. The status is 0 if all
figures are reached.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from doc_tables import publish, write_table
from search_rivals import LONGEST_S, RIVALS, WINDOWS, Seen, grid
from search_worlds import MACHINES, World

from scaling_study.search import rounds
from scaling_study.search.race import Race, Settings
from scaling_study.stats.throughputs import fit

if TYPE_CHECKING:
    from scaling_study.stats.throughputs import Start

BUDGET_S = 3000.0
"""Of an hour, ten minutes are the confirmation's."""
QUIET = 0.02
"""Up to this spread between starts the regret has bounds of its own."""
MEDIAN, MOST = 0.005, 0.02
"""Regret that is allowed where starts differ little: median, and 95th percentile."""
SHARE, LARGE = 0.2, MACHINES[:4]
"""Of the grid's time that the race may take, and where: a small machine's grid is soon done."""
SURE = (0.85, 0.95)
"""Where the race says about 90%,"""
RIGHT = (0.88, 0.95)
"""it is right this often."""
FACTOR, COVERED = 0.02, (0.93, 0.97)
"""Of the reported gain: distance of its median from the truth, and share of intervals with it."""
FEW, MANY = "up to 2%", "5%"
"""Spreads between starts: quiet and noisy worlds."""
OURS, GRID = "race", "three replicates of the grid"
HEAD = ("how", "spread between starts", "median regret", "95th percentile", "time, of the grid's")

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
    known = fit(starts, world.seed)
    default = world.field.default.launch
    seen = {n: known.mean((launch, n)) for launch, n in known.column if launch == default}
    near = max(seen.values(), default=math.nan) + math.log1p(-settings.tolerance)
    n = min((n for n, mean in seen.items() if mean >= near), default=0)  # as analyses choose it
    factor = known.ratio((choice.launch, choice.n), (default, n))
    truth = world.true(choice.launch, choice.n) / world.most(default)
    return {
        "too_high": factor.value / truth,
        "covers": (factor.low or 0.0) <= truth <= (factor.high or math.inf),
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
    best = world.best()
    rows = [{"method": OURS, **race(world, BUDGET_S)}]
    truths = [world.true(*rows[0]["point"])]
    # What the race may know of: the launches that the config has, and what it has tried.
    rows[0]["lacks"] = 1 - truths[0] / world.best()
    for name, method in {GRID: grid, **RIVALS}.items():
        seen = Seen(World(seed), math.inf if name == GRID else rows[0]["spent_s"])
        method(seen)
        _, point = seen.best()
        rows.append({"method": name, "point": point, "spent_s": seen.spent_s})
        truths.append(seen.world.true(*point))
    return [
        {
            **row,
            "world": seed,
            "machine": world.machine,
            "noise": world.noise,
            "regret": 1 - true / best,
        }
        for row, true in zip(rows, truths, strict=True)
    ]


def table(rows: pd.DataFrame) -> tuple[str, bool]:
    """Return the table of all ways to choose, and whether all figures are reached."""
    grid_s = rows[rows["method"] == GRID].set_index("world")["spent_s"]
    rows = rows.assign(
        starts=np.where(rows["noise"] <= QUIET, FEW, MANY),
        # A combination that is better than all that rivals may choose makes up for nothing.
        regret=rows["regret"].clip(lower=0),
        share=rows["spent_s"] / rows["world"].map(grid_s),
    )
    groups = rows.groupby(["method", "starts"])
    median, most = groups["regret"].median(), groups["regret"].quantile(0.95)
    shares = groups["share"].mean()
    lines = [
        (*one, f"{median[one]:.2%}", f"{most[one]:.2%}", f"{shares[one]:.1%}")
        for one in itertools.product([OURS, GRID, *RIVALS], [FEW, MANY])
    ]
    ours = rows[rows["method"] == OURS]
    sure = ours[ours["probability"].between(*SURE)]
    right = float((sure["lacks"] <= MOST).mean())
    too_high, covers = float(ours["too_high"].median()), float(ours["covers"].mean())
    late = ours.groupby("machine")["first_s"].quantile(0.95).max() / 60
    share = float(ours.loc[ours["machine"].isin(LARGE), "share"].max())
    quiet_median, quiet, noisy = median[OURS, FEW], most[OURS, FEW], most[OURS, MANY]
    checks = {
        f"regret with quiet starts: median {quiet_median:.2%}, at most {MEDIAN:.1%}": (
            quiet_median <= MEDIAN
        ),
        f"and 95th percentile {quiet:.2%}, at most {MOST:.0%}": quiet <= MOST,
        f"with noisy starts no more than the grid: {noisy:.2%} against {most[GRID, MANY]:.2%}": (
            noisy <= most[GRID, MANY]
        ),
        f"the most time, of the grid's: {share:.1%}, at most {SHARE:.0%}": share <= SHARE,
        f"where it says {SURE[0]:.0%} to {SURE[1]:.0%} ({len(sure)} worlds) it is right in "
        f"{right:.1%}; {RIGHT[0]:.0%} to {RIGHT[1]:.0%}": RIGHT[0] <= right <= RIGHT[1],
        f"first answer after {late:.1f} minutes (95th percentile, slowest machine), at most 10": (
            late <= 10
        ),
        f"reported gain over the default launch, of the true one at the default's best count: "
        f"median {too_high:.3f}, within {FACTOR:.0%} of 1": abs(too_high - 1) <= FACTOR,
        f"and its interval holds that in {covers:.1%}; {COVERED[0]:.0%} to {COVERED[1]:.0%}": (
            COVERED[0] <= covers <= COVERED[1]
        ),
        "ahead of every rival at the same cost": all(
            quiet <= most[name, FEW] and noisy <= most[name, MANY] for name in RIVALS
        ),
    }
    marks = [f"- {'reached' if met else 'NOT REACHED'}: {what}" for what, met in checks.items()]
    text = "\n".join([write_table(HEAD, lines), *marks])
    return text + "\n", all(checks.values())


def main() -> int:
    """Run all worlds, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first world")
    parser.add_argument("--table", type=Path, help="fill the table into this file too")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # workers, one on each CPU
    began = time.monotonic()
    worlds = range(options.first, options.first + options.worlds)
    with ProcessPoolExecutor() as pool:
        rows = pd.DataFrame([row for own in pool.map(one_world, worlds) for row in own])
    text, met = table(rows)
    minutes = (time.monotonic() - began) / 60
    made = f"{options.worlds:,} worlds from number {options.first}, in {minutes:.0f} minutes."
    text = f"Printed by `python benchmarks/search.py`: {made}\n\n{text}"
    publish(text, "search", options.table)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
