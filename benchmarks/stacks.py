"""Small models stacked in one process against one at a time, in turns of one run.

    python benchmarks/stacks.py [--widths 32 64 128 256] [--table docs/tiny-models.md]

Prints how many training steps per second all models of a stack make together, over those of one
model at a time. The stack is that of docs/tiny-models.md.
"""

import argparse
from pathlib import Path

import torch
from doc_tables import fill, update

from scaling_study.member.stacked import gains

ROUNDS, TURN_S = 5, 0.5


def main() -> None:
    """Measure all widths and stacks in turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[32, 64, 128, 256])
    parser.add_argument("--table", type=Path, help="the document to renew")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = ""
    for width in options.widths:
        cells = (f"{gain:.2f}" for gain in gains(width, TURN_S, ROUNDS).values())
        rows += f"| {width} | 1 | {' | '.join(cells)} |\n"
        print(rows.splitlines()[-1], flush=True)
    if options.table:
        update([str(options.table)], lambda text: fill(text, {"stacks": lambda: rows}))


if __name__ == "__main__":
    main()
