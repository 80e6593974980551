"""What ends an iteration: one optimizer, several that take turns, or what the config says."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from scaling_study.config.config import load_config
from scaling_study.member.iterations import Iterations, after_backward, encode


class Adam:
    """Stands for an optimizer: Iterations looks at its identity and its class's name."""


class SGD(Adam):
    pass


def ends(how, sequence):
    """Which steps of a sequence of optimizers end an iteration."""
    counting = Iterations(how)
    return [counting.ends(one) for one in sequence]


D, G, THIRD = Adam(), Adam(), SGD()


@pytest.mark.parametrize("sequence", [[D] * 50, [D] * 30 + [G] * 30 + [D] * 30])
def test_each_step_of_one_optimizer_or_one_after_the_other_ends_one(sequence):
    assert all(ends("optimizer", sequence))


@pytest.mark.parametrize("turn", [[D, G], [D, G, THIRD], [D] * 5 + [G], [D, G, G], [D] + [G] * 4])
def test_a_round_of_several_ends_one_as_soon_as_the_first_turns_are_over(turn):
    found = ends("optimizer", turn * 20)[2 * len(turn) :]
    assert sum(found) == 18
    assert found == found[: len(turn)] * 18


def test_a_script_that_starts_anew_makes_new_optimizers():
    counting = Iterations()
    for _ in range(5):
        counting.begin()
        turn = [Adam(), Adam()]
        found = [counting.ends(one) for one in turn * 10]
        assert sum(found[4:]) == 8


def test_the_config_says_which_steps_end_one():
    assert ends("every:3", [D, G, D, D, G, D]) == [False, False, True] * 2
    assert ends("only:SGD", [D, THIRD, D, THIRD]) == [False, True] * 2


def test_what_was_counted_is_reported():
    counting = Iterations()
    for one in [D, G] * 5:
        counting.ends(one)
    assert counting.report() == {
        "how": "optimizer",
        "optimizers": [
            {"name": "Adam", "steps": 5, "ends": False},
            {"name": "Adam", "steps": 5, "ends": True},
        ],
    }


WORDS = {
    "optimizer": "optimizer", "mark": "mark", "backward": "backward", "every:4": {"every": 4},
    "only:AdamW": {"optimizer": "AdamW"},
}  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
def test_the_configs_words_reach_the_member(word):
    workload = {"script": "tests/workloads/plain_loop.py", "step": WORDS[word]}
    assert encode(load_config({"study": "s", "workload": workload}).workload.step) == word


def test_a_backward_pass_inside_another_one_is_part_of_it(monkeypatch):
    backward, passes = torch.autograd.backward, []
    monkeypatch.setattr(torch.autograd, "backward", backward)
    after_backward(lambda: passes.append("one") or len(passes) == 2)
    for _ in range(3):
        inputs = torch.ones(3, requires_grad=True) * 1
        checkpoint(torch.sin, inputs, use_reentrant=True).sum().backward()
    assert len(passes) == 2  # until it returns True
    assert torch.autograd.backward is backward
