"""A script that changes its settings while it trains: its windows would show two launches."""

import os

import pytest

import jobs

SCRIPT = """
import os, torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(10**9):
    if step == {step}:
        {change}
    optimizer.zero_grad()
    model(torch.randn(64, 64, dtype=torch.float32)).square().mean().backward()
    optimizer.step()
"""
CPUS = sorted(os.sched_getaffinity(0))
FEWER = f"os.sched_setaffinity(0, {{{CPUS[0]}}})"
CASES = [
    ("torch.set_num_threads(3)", ("number of threads (torch.set_num_threads) from 1 to 3",)),
    ("torch.set_default_dtype(torch.float64)", ("torch.float32 to torch.float64",)),
    (FEWER, ("CPUs",)),
]


@pytest.mark.parametrize(("change", "words"), CASES)
@pytest.mark.parametrize("step", [0, 40])
def test_a_setting_that_changes_after_the_first_step_fails(tmp_path, step, change, words):
    if change == FEWER and len(CPUS) == 1:
        pytest.skip("one CPU")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(step=step, change=change))
    (end,) = jobs.run(jobs.config(script, processes=[1]), tmp_path)["end"]
    if step:
        assert end["status"] == "failed"
        assert "the script changed " in end["reason"]
        assert all(word in end["reason"] for word in words), end["reason"]
    elif "threads" not in change:  # before the first step it is the launch that fails: intra_op 1
        assert (end["status"], end["reason"]) == ("complete", None)
