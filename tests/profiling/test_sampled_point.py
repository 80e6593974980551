"""Members that are sampled in turn are read as one."""

import re
import statistics

import pytest

from scaling_study.profiling import profile_launch, sampled_point, stacks
from scaling_study.report.flamegraph import ENOUGH_SAMPLES, say_coarse

FRAMES = "<module> (train.py:9);run (train.py:4)"


def turn(folder, number, *, mul, mm, seconds, steps):
    lines = [
        f"thread (7): MainThread;{FRAMES};mul (libtorch_cpu.so) {mul}",
        f"thread (7): MainThread;{FRAMES};mm{number} (libtorch_cpu.so) {mm}",
    ]
    file = f"stacks-{number}.raw"
    (folder / file).write_text("\n".join(lines) + "\n")
    return {"file": file, "seconds": seconds, "steps": steps, "trainer_tid": 7}


def seconds_of(folded):
    return {stack.frames[-1].split(" ")[0]: stack.seconds for stack in folded.stacks}


def test_stacks_of_turns_are_means_over_all_their_steps(tmp_path):
    turns = [
        turn(tmp_path, 0, mul=90, mm=10, seconds=10.0, steps=100),  # 0.1 s a step
        turn(tmp_path, 1, mul=30, mm=30, seconds=10.0, steps=50),  # 0.2 s a step
    ]
    folded = sampled_point.read_point(tmp_path, {"turns": turns}, step_s=0.12, label="default")
    assert folded.samples == 160
    assert folded.sampled_step_s == pytest.approx(20 / 150)
    assert folded.step_s == 0.12
    assert folded.label == "default"
    assert seconds_of(folded) == {
        "mul": pytest.approx((9.0 + 5.0) / 150),
        "mm0": pytest.approx(1.0 / 150),
        "mm1": pytest.approx(5.0 / 150),
    }
    assert sum(stack.seconds for stack in folded.stacks) == pytest.approx(20 / 150)
    assert folded.sample_s == pytest.approx(20 / 150 / 160)


def test_one_turn_is_read_as_it_is(tmp_path):
    one = turn(tmp_path, 0, mul=90, mm=10, seconds=10.0, steps=100)
    folded = sampled_point.read_point(tmp_path, {"turns": [one]}, step_s=0.09)
    alone = stacks.read(
        tmp_path / "stacks-0.raw", seconds=10.0, steps=100, step_s=0.09, trainer_tid=7
    )
    assert seconds_of(folded) == pytest.approx(seconds_of(alone))
    assert folded.sample_s == pytest.approx(alone.sample_s)
    assert folded.native == alone.native


def test_the_cost_of_turns_is_that_of_the_member_whose_turn_it_is():
    # The second member is twice as slow as the first, and the sampler costs each a tenth.
    around = ([0.01, 0.02], [0.01, 0.02])
    first = (0, [[0.011] * 20, [0.02] * 10])
    second = (1, [[0.022] * 10, [0.0105] * 20])
    found = profile_launch._overhead([first, second], *around)
    assert found["overhead"] == pytest.approx(1.1)
    assert found["step_s"] == pytest.approx(statistics.fmean([0.011] * 20 + [0.022] * 10))
    assert found["overhead"] == pytest.approx(found["step_s"] / found["unprofiled_step_s"])
    assert found["others_overhead"] == pytest.approx((1.0 + 1.05) / 2)
    alone = profile_launch._overhead([(0, [[0.011]])], [0.01], [0.01])
    assert (alone["overhead"], alone["others_overhead"]) == (pytest.approx(1.1), None)


@pytest.mark.parametrize(
    ("samples", "ends"), [(35, (4, 24)), (100, (6, 17)), (1, (0, 83)), (299, (7, 14))]
)
def test_few_samples_are_said_to_be_coarse(samples, ends):
    text = say_coarse(samples)
    assert re.search(r"10% of the time may be (\d+)% to (\d+)%", text)
    low, high = map(int, re.findall(r"(\d+)%", text)[1:])
    assert (low, high) == ends
    assert f"{samples} sample" in text


@pytest.mark.parametrize("samples", [ENOUGH_SAMPLES, 5000])
def test_enough_samples_need_no_word(samples):
    assert say_coarse(samples) == ""
