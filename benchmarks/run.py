"""Measure every figure that the project promises, on this machine, and print them in one table.

    python benchmarks/run.py [--only attached one_cohort ...]

Each figure is a ratio or a time of its own run; nothing else should run meanwhile. The quick study
(`make report`) has to be there: the last figures are read from its results.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
QUICK = ROOT / "results/quick"
LONGEST_PROFILE_S = 150


class Figure(NamedTuple):
    """One promised figure: what it is, what it should be, what it is here."""

    what: str
    target: str
    measured: str
    met: bool


def run(script: str, *arguments: str) -> Any:
    """Run a benchmark, showing its progress, and return the JSON that it prints last."""
    command = [sys.executable, str(FOLDER / script), *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def attached() -> Iterator[Figure]:
    """Step time attached against bare; of steps below a millisecond, what it adds to each."""
    for case in ("TSMixerx", "NCF"):
        found = run("attached.py", "--case", case)
        text = f"{found['ratio']:.4f} ({found['low']:.4f} to {found['high']:.4f})"
        yield Figure(f"attached / bare, {case}", "at most 1.01", text, found["ratio"] <= 1.01)
    found = run("attached.py", "--case", "plain loop")
    added_us = (found["ratio"] - 1) * found["step_ms"] * 1e3
    text = f"{added_us:.1f} us of {found['step_ms']:.2f} ms"
    yield Figure("attached - bare, plain loop", "at most 25 us a step", text, added_us <= 25)


def one_cohort() -> Iterator[Figure]:
    """One full-size cohort, against a shell loop."""
    found = run("one_cohort.py")
    share, skew = found["inside_windows"], found["start_skew_p99_ms"]
    yield Figure("full-size cohort inside windows", "at least 80%", f"{share:.1%}", share >= 0.8)
    yield Figure("start skew, p99", "at most 2 ms", f"{skew:.3f} ms", skew <= 2)
    overlap, times = found["overlap_least"], found["times_the_shell_loop"]
    yield Figure("least overlap", "at least 99%", f"{overlap:.2%}", overlap >= 0.99)
    rates = found["windows_per_minute"]
    text = f"{times:.1f} times ({rates['cohort']:.1f} against {rates['loop']:.1f} a minute)"
    yield Figure("windows/minute against a shell loop", "at least 4 times", text, times >= 4)


def isolated() -> Iterator[Figure]:
    """Windows of one cohort against fresh cohorts for each point."""
    for n, row in run("one_cohort.py", "--isolated").items():
        spans = [f"{low:.2f} to {high:.2f}" for low, high in (row["cohort_ms"], row["isolated_ms"])]
        text = f"{spans[0]} and {spans[1]} ms"
        yield Figure(
            f"one cohort and isolated agree, n = {n}", "intervals overlap", text, row["agree"]
        )


def profiles() -> Iterator[Figure]:
    """What profiling costs."""
    found = run("profiles.py")
    spied, beside, spread = (
        found[key] for key in ("py_spy_overhead", "others_overhead", "unprofiled_spread")
    )
    text = f"{spied:.1%} ({', '.join(f'{overhead:.1%}' for overhead in found['py_spy_overheads'])})"
    yield Figure("overhead of py-spy on the profiled member", "at most 10%", text, spied <= 0.1)
    text = f"{beside:.1%}, unprofiled windows differ by {spread:.1%}"
    met = beside <= max(spread, 0.0)
    yield Figure("overhead of torch's profiler on the others", "within the A/A spread", text, met)
    point_s = found["point_s"]
    met = point_s <= LONGEST_PROFILE_S
    what = "profiling a point, 300 samples of its stacks"
    yield Figure(what, f"at most {LONGEST_PROFILE_S} s", f"{point_s:.1f} s", met)


def flamegraph() -> Iterator[Figure]:
    """A differential flamegraph of 100,000 stacks in Chromium."""
    found = run("flamegraph.py")
    seconds, megabytes = found["drawn_s"], found["report_bytes"] / 1e6
    text = f"{seconds:.2f} s, {megabytes:.2f} MB"
    met = seconds <= 2 and megabytes <= 5
    yield Figure("flamegraph of 100,000 stacks", "at most 2 s, 5 MB", text, met)


def coordinator() -> Iterator[Figure]:
    """The coordinator's own CPU time for a window of 192 members, and how it grows."""
    found = run("coordinator.py")
    largest = found["rows"][-1]
    gone = largest["asked"] - largest["alive"]
    what = f"members of {largest['asked']} that did not start"
    yield Figure(what, "none", str(gone), gone == 0)
    share, exponent = largest["share"], found["exponent"]
    yield Figure("coordinator's cost, 192 members", "at most 10%", f"{share:.1%}", share <= 0.1)
    what = "growth of that cost with the members"
    yield Figure(what, "at most linear", f"n^{exponent:.2f}", exponent <= 1.1)


def dry_run() -> Iterator[Figure]:
    """Dry run of 10,000 launches."""
    wall_s = run("dry_run.py")["wall_s"]
    yield Figure("dry run of 10,000 launches", "at most 12 s", f"{wall_s:.1f} s", wall_s <= 12)


def records() -> Iterator[Figure]:
    """Collect, analyse and render 200,000 records."""
    found = run("records.py")
    wall_s, peak = found["wall_s"], found["peak_bytes"] / 2**30
    text = f"{wall_s:.1f} s, {peak:.2f} GiB"
    met = wall_s <= 15 and peak <= 0.6
    yield Figure("collect, analyse, render 200,000 records", "at most 15 s, 0.6 GiB", text, met)


def quick() -> Iterator[Figure]:
    """What the quick study on the disk says of itself."""
    ends = [
        json.loads(path.read_text().splitlines()[-1])
        for path in sorted((QUICK / "measure").glob("*/*.jsonl"))
    ]
    measured = [end for end in ends if end["start_s"] is not None]
    share = sum(end["in_windows_s"] for end in measured) / sum(end["wall_s"] for end in measured)
    yield Figure("quick study inside windows", "at least 50%", f"{share:.1%}", share >= 0.5)
    (found,) = json.loads((QUICK / "analysis/confirmation.json").read_text())["machines"]
    ratio = found["ratio"] or {"value": 0.0, "low": None, "high": None}
    low = ratio["low"] or 0.0
    text = f"{ratio['value']:.1f} times, at least {low:.1f}"
    yield Figure("confirmed / default as it is", "certainly above 1", text, low > 1)


BENCHMARKS: dict[str, Callable[[], Iterator[Figure]]] = {
    "quick": quick,
    "dry-run": dry_run,
    "records": records,
    "attached": attached,
    "one_cohort": one_cohort,
    "isolated": isolated,
    "coordinator": coordinator,
    "profiles": profiles,
    "flamegraph": flamegraph,
}


def main() -> None:
    """Run the benchmarks and print each figure when it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS))
    for name in parser.parse_args().only:
        for figure in BENCHMARKS[name]():
            mark = "ok  " if figure.met else "MISS"
            print(f"{mark} {figure.what:44} {figure.target:22} {figure.measured}", flush=True)


if __name__ == "__main__":
    main()
