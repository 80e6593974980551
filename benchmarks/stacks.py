"""Small models stacked in one process against one at a time, in turns of one run.

    python benchmarks/stacks.py [--widths 32 64 128 256] [--table docs/tiny-models.md]

Prints how many training steps per second all models of a stack make together, over those of one
model at a time. The stack is that of docs/tiny-models.md.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from doc_tables import fill, update
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

State = dict[str, Tensor]
BATCH, STACKS, ROUNDS, TURN_S = 64, (1, 8, 32), 5, 0.5


def network(width: int) -> torch.nn.Module:
    """Return three linear layers."""
    layers = [torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width)]
    return torch.nn.Sequential(*layers, torch.nn.ReLU(), torch.nn.Linear(width, 1))


def alone(width: int) -> Callable[[], object]:
    """Return a step of one model."""
    model, features, target = network(width), torch.randn(BATCH, width), torch.randn(BATCH, 1)
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(features), target).backward()
        optimizer.step()

    return step


def stacked(width: int, models: int) -> Callable[[], object]:
    """Return a step of several models at once."""
    parameters, buffers = stack_module_state([network(width) for _ in range(models)])
    model = network(width).to("meta")
    features, target = torch.randn(models, BATCH, width), torch.randn(models, BATCH, 1)
    optimizer = torch.optim.Adam(parameters.values())

    def loss(parameters: State, buffers: State, features: Tensor, target: Tensor) -> Tensor:
        output = functional_call(model, (parameters, buffers), (features,))
        return torch.nn.functional.mse_loss(output, target)

    losses = vmap(loss)

    def step() -> None:
        optimizer.zero_grad()
        losses(parameters, buffers, features, target).sum().backward()
        optimizer.step()

    return step


def rate(step: Callable[[], object]) -> float:
    """Return the steps per second of a turn."""
    began_s, steps = time.perf_counter(), 0
    while time.perf_counter() - began_s < TURN_S:
        step()
        steps += 1
    return steps / (time.perf_counter() - began_s)


def main() -> None:
    """Measure all widths and stacks in turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[32, 64, 128, 256])
    parser.add_argument("--table", type=Path, help="the document to renew")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = ""
    for width in options.widths:
        reference, stacks = alone(width), {models: stacked(width, models) for models in STACKS[1:]}
        gains: dict[int, list[float]] = {models: [] for models in stacks}
        for step in (reference, *stacks.values()):
            step()  # what is made once is made now
        for _ in range(ROUNDS):
            base = rate(reference)
            for models, step in stacks.items():
                gains[models].append(models * rate(step) / base)
        cells = (f"{statistics.median(each):.2f}" for each in gains.values())
        rows += f"| {width} | 1 | {' | '.join(cells)} |\n"
        print(rows.splitlines()[-1], flush=True)
    if options.table:
        update([str(options.table)], lambda text: fill(text, {"stacks": lambda: rows}))


if __name__ == "__main__":
    main()
