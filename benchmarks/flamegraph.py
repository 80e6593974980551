"""Differential flamegraph of 100,000 distinct stacks: time until Chromium has drawn it, and bytes.

    python benchmarks/flamegraph.py [--stacks 100000] [--runs 3]

The stacks are made up: frames below frames of a few thousand functions, 20 to 250 deep, the half of
them slower in the second profile. Drawn means that the page's script has put pixels on the canvas,
counted from the start of loading the page from disk. Prints JSON.
"""

import argparse
import importlib
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from scaling_study.profiling.stacks import TRAINER, Folded, Stack
from scaling_study.report import flamegraph, page

ROOT = Path(__file__).resolve().parent.parent
FUNCTIONS = 5_000
DEEPEST = 250
SEED = 1


def make(stacks: int) -> tuple[Folded, Folded]:
    """Two profiles with the same distinct stacks, of which half differ in time."""
    chance = random.Random(SEED)  # noqa: S311 (made-up data)
    names = [
        f"at::native::function_{number} (libtorch_cpu.so)"
        if number % 2
        else f"method_{number} (package/module_{number % 90}.py)"
        for number in range(FUNCTIONS)
    ]
    found: set[tuple[str, ...]] = set()
    path: list[str] = []
    while len(found) < stacks:
        # The next stack leaves the one before somewhere, as real ones do.
        del path[min(len(path), int(DEEPEST * chance.random() ** 0.5)) :]
        depth = chance.randint(20, DEEPEST)
        while len(path) < depth:
            path.append(chance.choice(names))
        found.add(tuple(path))
    ordered = sorted(found)
    weights = [chance.paretovariate(1.2) for _ in ordered]
    whole = sum(weights)
    halves = [
        [
            Stack(TRAINER, "", "", "forward", frames, 0.01 * weight * factor / whole)
            for frames, weight, factor in zip(ordered, weights, factors, strict=True)
        ]
        for factors in ([1.0] * stacks, [chance.choice((1.0, 3.0)) for _ in ordered])
    ]
    one, other = (
        Folded(
            stacks=tuple(half),
            step_s=0.01,
            sampled_step_s=sum(stack.seconds for stack in half),
            samples=stacks,
            sample_s=0.01 / stacks,
            label=f"made up, n = {n}",
            native=True,
        )
        for half, n in zip(halves, (1, 64), strict=True)
    )
    return one, other


def main() -> None:
    """Make the flamegraph, open it a few times, print the median time as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stacks", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    browser = importlib.import_module("browser")
    one, other = make(options.stacks)
    began_s = time.perf_counter()
    flame = flamegraph.view("bench", "100,000 stacks", one, other)
    view_s = time.perf_counter() - began_s
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        html = page.render_page("flames.html.j2", flames=True, graphs=[flame])
        path.write_text(html, encoding="utf-8")
        with browser.browse() as tab:
            found = [_open(tab, path) for _ in range(options.runs)]
    drawn_s = sorted(entry["drawn_s"] for entry in found)
    print(
        json.dumps(
            {
                "stacks": options.stacks,
                "deepest": max(len(stack.path) for stack in one.stacks),
                "nodes": len(json.loads(flame.data)["name"]),
                "view_s": view_s,
                "drawn_s": drawn_s[len(drawn_s) // 2],
                "zoom_s": max(entry["zoom_s"] for entry in found),
                "search_s": max(entry["search_s"] for entry in found),
                "report_bytes": len(flame.data.encode()),
            }
        )
    )


def _open(page: Any, path: Path) -> dict[str, float]:
    """Load the page; return seconds until it is drawn, and those of a zoom and a search."""
    page.open(path)
    times: dict[str, float] = page.run(
        """new Promise((done) => requestAnimationFrame(() => setTimeout(() => {
          const part = document.querySelector("[data-flame]");
          if (part.dataset.drawn !== "yes") throw new Error("nothing was drawn");
          const drawn_s = Number(part.dataset.drawnMs) / 1000;
          const view = part.querySelector(".flame-view"), search = part.querySelector("input");
          const press = (key) => view.dispatchEvent(new KeyboardEvent("keydown", { key }));
          const timed = (act) => {
            const from = performance.now();
            act();
            return (performance.now() - from) / 1000;
          };
          view.focus();
          for (let i = 0; i < 6; i++) press("ArrowDown");
          const zoom_s = timed(() => press("Enter"));
          search.value = "function_1";
          const search_s = timed(() => search.dispatchEvent(new Event("input")));
          done({ drawn_s, zoom_s, search_s });
        })))"""
    )
    if page.problems:
        raise SystemExit(f"the page has problems: {page.problems}")
    return times


if __name__ == "__main__":
    main()
