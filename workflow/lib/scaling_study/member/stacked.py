"""Measures what calls of operators cost here, and what a stack of models would save.

``python -m scaling_study.member.stacked OPERATORS_JSON``, with the interpreter, the environment and
the CPUs of a member, after its operators were profiled. The networks are those of
docs/tiny-models.md: three linear layers, batches of 64, Adam.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, profiler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

State = dict[str, Tensor]

BATCH, MODELS = 64, (8, 32)
WIDEST = 1024
ROUNDS, TURN_S = 5, 0.15
MULTIPLIES = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"})
"""Operators that multiply matrices, and whose operations torch's profiler counts."""


def network(width: int) -> torch.nn.Module:
    """Return three linear layers."""
    layers = [torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width)]
    return torch.nn.Sequential(*layers, torch.nn.ReLU(), torch.nn.Linear(width, 1))


def alone(width: int, batch: int = BATCH) -> Callable[[], object]:
    """Return a step of one model."""
    model, features, target = network(width), torch.randn(batch, width), torch.randn(batch, 1)
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(features), target).backward()
        optimizer.step()

    return step


def stacked(width: int, models: int) -> Callable[[], object]:
    """Return a step of several models at once."""
    from torch.func import functional_call, stack_module_state, vmap  # noqa: PLC0415 (torch 2)

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


def rate(step: Callable[[], object], turn_s: float = TURN_S) -> float:
    """Return the steps per second of a turn."""
    began_s, steps = time.perf_counter(), 0
    while time.perf_counter() - began_s < turn_s:
        step()
        steps += 1
    return steps / (time.perf_counter() - began_s)


def gains(width: int, turn_s: float = TURN_S, rounds: int = ROUNDS) -> dict[int, float]:
    """Return the steps per second of all models of a stack over those of one model at a time.

    Args:
        width: units of a layer.
        turn_s: duration of each turn (s); all stacks take turns.
        rounds: number of turns, of which the median counts.
    """
    reference, stacks = alone(width), {models: stacked(width, models) for models in MODELS}
    for step in (reference, *stacks.values()):
        step()  # what is made once is made now
    ratios: dict[int, list[float]] = {models: [] for models in MODELS}
    for _ in range(rounds):
        base = rate(reference, turn_s)
        for models, step in stacks.items():
            ratios[models].append(models * rate(step, turn_s) / base)
    return {models: sorted(ratios[models])[rounds // 2] for models in MODELS}


def typical_width(rows: Iterable[Mapping[str, object]]) -> int | None:
    """Return the units of layers whose multiplies have as many operations as those of a profile.

    Args:
        rows: rows of operators.json.

    Returns:
        None for a profile that multiplies no matrices.
    """
    multiplies = [row for row in rows if row["operator"] in MULTIPLIES and row["flops"]]
    calls = sum(row["calls"] for row in multiplies)  # type: ignore[misc]
    if not calls:
        return None
    flops = sum(row["flops"] for row in multiplies) / calls  # type: ignore[misc]
    return max(1, min(WIDEST, round(math.sqrt(flops / (2 * BATCH)))))


def call_s() -> float:
    """Return the time of an operator's call on hardly any numbers, with all that belongs to it."""
    step = alone(1, batch=1)
    step()
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as profile:
        step()
    return 1 / (len(profile.events()) * max(rate(step) for _ in range(ROUNDS)))


def main(file: str) -> None:
    """Print a record of calls (`records.experiment.OperatorCalls`) as JSON.

    Args:
        file: operators.json.
    """
    content = json.loads(Path(file).read_text(encoding="utf-8"))
    width = typical_width(content["rows"])
    record = {
        "kind": "operator_calls",
        "calls_per_step": sum(row["calls"] for row in content["rows"]) / content["steps"],
        "call_s": call_s(),
        "width": width,
        "stacks": {} if width is None else gains(width),
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main(*sys.argv[1:])
