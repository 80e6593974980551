"""Which windows of a cohort are taken, and which count, with members that are made up."""

import random
from types import SimpleNamespace

import pytest

from made_records import member, taken
from scaling_study.config.config import Measure
from scaling_study.records.window import Settled, Window
from scaling_study.runner import cohort_windows
from scaling_study.runner.cohort_windows import CohortTask, CohortWindows

STEPS = 40
COUNTS = (1, 2)
SETTINGS = {
    "windows": 3, "steps": 20, "window_s": [1.0, 3.0], "retries": 1, "warmup_steps": 0,
    "timeout_s": 1.0,
}  # fmt: skip


class MadeUp:
    """A cohort whose members do `STEPS` steps in each window.

    Args:
        us: what a step takes, by its place in its member's life.
        ends: after so many windows the last member ends, and does not come back.
    """

    def __init__(self, us, ends):
        self._us, self.size, self._ends = us, max(COUNTS), ends
        self._done = [0] * self.size
        self._noise = random.Random(1)  # noqa: S311 (no secret)
        self.events, self.taken = [], []
        self.alive = list(range(self.size))

    def restartable(self, _most):
        return []

    def take(self, asked, _timing):
        self.taken.append(asked)
        if len(self.taken) == self._ends:
            self.alive.pop()
        members = [self._member(slot) for slot in range(asked.n)]
        return taken(members, window=asked.window, block=asked.block)

    def _member(self, slot):
        first = self._done[slot]
        self._done[slot] += STEPS
        us = [int(self._us(at) * self._noise.gauss(1, 0.01)) for at in range(first, first + STEPS)]
        return member(
            us[4:-1], slot, first_step=first, settled_us=us[:4], inside=STEPS - 5, after_us=us[-1:],
            fresh=[],
        )  # fmt: skip


class Windows(CohortWindows):
    """The windows of members that need no start and report nothing."""

    def _start(self):
        pass

    def _finish(self):
        pass


def take(us, *, ends=None, **settings):
    """Take a cohort's windows as far as they depend on what was seen.

    Returns:
        What was written, what of it says that windows were taken anew, and all windows.
    """
    made_up, written = MadeUp(us, ends), []
    job = SimpleNamespace(
        plan=SimpleNamespace(measure=Measure(**SETTINGS | settings)),
        launch=SimpleNamespace(axes={}),
        seed=1,
    )
    journal = SimpleNamespace(write=written.append)
    lookout = SimpleNamespace(after_window=lambda _flags: None)
    task = CohortTask(job, 0, journal, lookout, COUNTS, done=(), first_decides=False)
    run = Windows(task, made_up, (), ())
    while run.take_next():
        pass
    return written, [one for one in written if isinstance(one, Settled)], made_up.taken


def test_what_is_planned_is_enough_for_a_script_that_keeps_its_pace():
    _, settled, asked = take(lambda _: 5000)
    assert (settled, len(asked)) == ([], 6)


def test_only_the_windows_before_a_script_settled_are_taken_anew():
    written, (settled,), asked = take(lambda at: 5000 if at < 200 else 6500, windows=12)
    assert 2 <= settled.block <= 6
    assert settled.change == pytest.approx(0.3, abs=0.15)
    assert settled.left is None
    assert len(asked) == 2 * (12 + settled.block)
    numbers = [one.window for one in written if isinstance(one, Window)]
    assert numbers == list(range(len(numbers)))


def test_all_windows_are_taken_anew_where_few_were_planned():
    _, settled, asked = take(lambda at: 5000 if at < 80 else 6500)
    assert settled[0].block == 3
    assert len(asked) >= 12


def test_a_script_that_never_settles_ends_and_says_so():
    _, settled, asked = take(lambda at: 5000 * 1.003**at)
    assert len(settled) == cohort_windows.SETTLING_ROUNDS
    assert settled[-1].left > 0.03
    assert len(asked) == 6 * (1 + cohort_windows.SETTLING_ROUNDS)


def test_a_count_whose_member_is_lost_is_not_taken_anew():
    _, settled, asked = take(lambda at: 5000 if at < 80 else 6500, ends=4)
    assert settled == []
    assert len(asked) <= 6


def test_windows_that_take_too_long_are_not_taken_anew(monkeypatch):
    monkeypatch.setattr(cohort_windows, "MORE_LONGEST_S", 5.5)  # a block takes 2 s
    _, settled, asked = take(lambda at: 5000 * 1.003**at)
    assert (settled, len(asked)) == ([], 6)
    _, (settled,), asked = take(lambda at: 5000 if at < 200 else 6500, windows=12)
    assert len(asked) == 2 * (12 + 2)
    monkeypatch.setattr(cohort_windows, "MORE_LONGEST_S", -100.0)
    *_, asked = take(lambda at: 5000 if at < 200 else 6500, windows=12)
    assert len(asked) == 2 * 12
