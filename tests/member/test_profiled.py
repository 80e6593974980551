"""A member under a profiler, on its own side, with real torch."""

import gzip
import json
import pstats
from collections import Counter

import pytest
import torch
from torch.optim import optimizer

from scaling_study.member import channel, profiled

MODEL = torch.nn.Linear(8, 1)
INPUTS = torch.randn(4, 8)


def loss():
    value = MODEL(INPUTS).relu().sum()
    value.backward()
    return value


def plain_step(optimizer):
    optimizer.zero_grad()
    loss()
    optimizer.step()


def closure_step(optimizer):
    def closure():
        optimizer.zero_grad()
        return loss()

    optimizer.step(closure)


def profile(order, step, steps=3, *, closed_after=99):
    """Do what a member does: a step, then the profiler's own step, until that says stop."""
    adam = torch.optim.AdamW(MODEL.parameters())
    step(adam)
    found = profiled.start(order, steps)
    for count in range(1, 100):
        step(adam)
        if not found.step(closed=count >= closed_after):
            return found, count
    raise AssertionError("it never stops")


def operators(folder, step, **options):
    found, count = profile(channel.PROFILE_OPERATORS, step, **options)
    found.write(folder)
    return json.loads((folder / "operators.json").read_text()), count


def calls(content, operator):
    counts = Counter()
    for row in content["rows"]:
        if row["operator"] == operator:
            counts[row["phase"]] += row["calls"]
    return counts


@pytest.mark.parametrize("step", [plain_step, closure_step])
def test_operators_are_counted_by_step_and_phase(tmp_path, step):
    before = len(optimizer._global_optimizer_pre_hooks)
    content, count = operators(tmp_path, step)
    assert len(optimizer._global_optimizer_pre_hooks) == before
    assert content["steps"] == 3
    assert count == 3 + profiled.WARM_UP_STEPS
    assert calls(content, "aten::addmm") == {"forward": 3}
    assert calls(content, "ReluBackward0") == {"backward": 3}
    assert set(calls(content, "aten::_foreach_addcdiv_") or {"optimizer": 1}) == {"optimizer"}
    assert all(row["self_s"] <= row["total_s"] + 1e-9 for row in content["rows"])


def test_a_table_a_trace_and_flops_are_written_too(tmp_path):
    content, _ = operators(tmp_path, plain_step)
    (row,) = [row for row in content["rows"] if row["operator"] == "aten::addmm"]
    assert row["flops"] == 3 * 2 * 4 * 8
    assert all(row["flops"] is None for row in content["rows"] if row["operator"] == "aten::relu")
    assert "Self CPU" in (tmp_path / "operators.txt").read_text()
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        names = {event.get("name") for event in json.load(file)["traceEvents"]}
    assert "aten::addmm" in names


def test_a_profile_that_is_closed_early_covers_the_steps_it_saw(tmp_path):
    content, count = operators(tmp_path, plain_step, steps=50, closed_after=4)
    assert count == 4
    assert content["steps"] == 4 - profiled.WARM_UP_STEPS
    assert calls(content, "aten::addmm") == {"forward": content["steps"]}


def test_a_profile_without_a_whole_step_writes_nothing(tmp_path):
    found, _ = profile(channel.PROFILE_OPERATORS, plain_step, closed_after=1)
    found.write(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_calls_are_those_of_the_profiled_steps(tmp_path):
    found, _ = profile(channel.PROFILE_CALLS, plain_step, steps=3)
    plain_step(torch.optim.SGD(MODEL.parameters()))  # after the end: not counted
    found.write(tmp_path)
    stats = pstats.Stats(str(tmp_path / "calls.prof")).stats
    counts = {name: entry[1] for (_, _, name), entry in stats.items()}
    assert counts["loss"] == 3
    assert json.loads((tmp_path / "calls.json").read_text()) == {"steps": 3}
