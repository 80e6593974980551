"""The kernels: what is asked for, what they touch, and a cohort of them."""

import json
import mmap
import resource
import time

import pytest

from made_records import hardware
from scaling_study.experiments import kernel_cohort, kernels, microbenchmarks
from scaling_study.host import probe
from scaling_study.runner import windows


def test_the_smallest_dose_is_not_none_and_what_nobody_has_set_is_harmless():
    assert kernels.decode(kernels.encode("pages", 0.0001))[1] > 0
    assert kernels.decode(0) == ("register", 0.0)


@pytest.mark.parametrize(("l2", "l3"), [(2**20, 32 * 2**20), (None, None), (2**21, 256 * 2**20)])
def test_working_sets_fit_where_they_belong(l2, l3):
    chosen = kernels.sizes(l2, l3, spare_bytes=2**40)
    assert (l2 or 0) < chosen.llc <= (l3 or 2**20) < chosen.memory
    assert kernels.sizes(l2, l3, spare_bytes=2**25).memory < 2**25


def test_every_kernel_does_its_batch():
    work = kernels.prepare(kernels.Sizes(2**20, 2**22))
    assert list(work) == list(kernels.KERNELS)
    for batch in work.values():
        batch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    work["pages"]()
    touched = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert touched >= kernels.PAGES_BYTES // mmap.PAGESIZE


@pytest.mark.parametrize(
    ("cpus", "quota", "n", "threads", "expected"),
    [
        (2, None, 2, 1, 1),
        (8, None, 4, 1, 3),
        (8, None, 1, 1, 1),
        (8, None, 16, 1, 7),  # no more than there is room for
        (8, 2.5, 8, 1, 1),
        (2, None, 2, 2, 0),  # the training member needs all CPUs itself
        (1, None, 2, 1, 0),
    ],
)
def test_stressors_have_cpus_of_their_own(cpus, quota, n, threads, expected):
    machine = hardware(allowed_cpus=f"0-{cpus - 1}", quota_cpus=quota)
    assert kernel_cohort.count(machine, n, threads) == expected


@pytest.mark.timing
@pytest.mark.slow
def test_a_cohort_runs_the_kernel_asked_for_at_the_duty_asked_for(tmp_path):
    machine = probe.read_machine()
    settings = microbenchmarks.WINDOW
    (tmp_path / "memory").mkdir()
    with kernel_cohort.make(tmp_path, [(None, "default")], machine) as one:
        assert kernel_cohort.start(one)

        def rate(kernel, duty):
            one.tell(kernels.encode(kernel, duty))
            (found,) = kernel_cohort.rates(one.take(windows.WindowPlan(0, 0, 1), settings))
            return found

        rates = {duty: [] for duty in (0.05, 1.0)}
        for _ in range(3):
            for duty, found in rates.items():
                found.append(rate("register", duty))
        whole, little = (sorted(rates[duty])[1] for duty in (1.0, 0.05))
        # A twentieth on a quiet machine. Other programs take from the one that always works first.
        assert little < 0.5 * whole
        one.tell(kernels.encode("pages"))
        with one.training(1) as done:
            assert not done
            time.sleep(0.2)
        assert done[0].steps_active > 0
    assert json.dumps(one.events) == "[]"
