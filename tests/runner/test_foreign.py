import os

import pytest

import machines
from scaling_study.records.analysis import Failures, Invalid
from scaling_study.report.words import MANY_LOST, lost_windows, warn_busy
from scaling_study.runner import foreign
from scaling_study.runner.foreign import ForeignLoad, ForeignProgram, Lookout

ALLOWED = frozenset(os.sched_getaffinity(0))


def test_times_and_names_of_all_processes_are_read(tmp_path):
    stats = {  # of a Debian 12 machine; fields after the 15th are left out
        "812/stat": "812 (in)it\x1b[31m) S 1 812 812 0 -1 4194560 11 0 0 0 300 200 0 0",
        "901/stat": "901 (stress) R 812 900 812 0 -1 4194368 11 0 0 0 900 100 0 0",
    }
    machines.write(tmp_path, stats)
    (tmp_path / "self").mkdir()
    (tmp_path / "77").mkdir()  # a process that has just ended
    assert foreign.cpu_times(tmp_path) == {812: ("in)it\x1b[31m", 5.0), 901: ("stress", 10.0)}


def test_who_took_time_is_listed_and_the_study_itself_is_not():
    own = os.getpid()
    before = {1: ("init", 3.0), 900: ("stress", 10.0), 901: ("stress", 10.0), own: ("python", 1.0)}
    after = {
        1: ("init", 3.01), 900: ("stress", 10.5), 901: ("stress", 10.25), 902: ("cc1", 0.125),
        own: ("python", 9.0),
    }  # fmt: skip
    took = [("stress", 900, 0.5), ("stress", 901, 0.25), ("cc1", 902, 0.125)]
    found = foreign.record(before, after, 1.0).processes
    assert [(one.name, one.pid, one.share) for one in found] == took
    assert foreign._by_name(found) == (
        ForeignProgram("stress", 2, 0.75),
        ForeignProgram("cc1", 1, 0.125),
    )


@pytest.mark.parametrize(
    ("cpus", "cost", "unseen"),
    # CPUs that cost windows, and those from which on it is sure that no program explains them
    [(2, 0.05, 0.15), (16, 0.32, 0.32), (192, 3.84, 3.84)],
)
def test_busy_is_what_costs_windows(cpus, cost, unseen):
    for less, busy in [(-0.01, False), (0.01, True)]:
        seen = ForeignLoad(cpus, cost + less, 0.0, (ForeignProgram("it", 1, cost),))
        stolen = ForeignLoad(cpus, 0.0, cost + less, ())
        assert [bool(warn_busy(one)) for one in (seen, stolen)] == [busy, busy]
        text = warn_busy(ForeignLoad(cpus, unseen + less, 0.0, ()))
        assert ("none that can be seen from here" in text) == busy == bool(text)


def test_the_warning_names_programs_and_how_much_they_take():
    programs = (ForeignProgram("stress", 2, 1.7), ForeignProgram("in)it\x1b[31m", 1, 0.2))
    text = warn_busy(ForeignLoad(2, 1.9, 0.0, programs))
    assert "other programs keep 1.9 of the 2 CPUs of this study busy" in text
    assert r"(stress: 1.7 in 2 processes, in)it\x1b[31m: 0.2)" in text
    assert "more than 0.05 CPUs" in text
    assert "hypervisor" not in text


def test_two_windows_lost_in_a_row_are_looked_into_and_not_too_often():
    lookout = Lookout(ALLOWED, span_s=0.01)
    lost, other, fine = ("short_overlap", "foreign_cpu"), ("few_steps",), ()

    def looks(*windows):
        return [lookout.after_window(flags) is not None for flags in windows]

    assert looks(lost, fine, lost, other, lost) == [False] * 5
    assert looks(("stolen_cpu",)) == [True]
    assert looks(*[lost] * 12) == [False, True, False, True] + [False] * 8


def failures(**counts):
    rows = [Invalid(label="x", n=1, flag=flag, count=count) for flag, count in counts.items()]
    return Failures(windows=tuple(rows))


def test_many_lost_windows_are_marked_and_few_are_not():
    (mark,) = lost_windows(failures(foreign_cpu=25, short_overlap=20), 100)
    assert mark.bad
    assert mark.text == "25% of windows disturbed"
    assert mark.tip.startswith("25 of 100 windows lost CPU time to other programs")
    (mark,) = lost_windows(failures(stolen_cpu=10), 100)
    assert "hypervisor" in mark.tip
    few = failures(foreign_cpu=int(100 * MANY_LOST) - 1, few_steps=21)
    assert [*lost_windows(few, 100), *lost_windows(failures(), 0)] == []
