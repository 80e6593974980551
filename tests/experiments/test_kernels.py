"""The kernels: what is asked for, what they touch, and a cohort of them."""

import json
import mmap
import resource
import time

import pytest

from made_records import hardware
from scaling_study.experiments import kernel_cohort, kernels, microbenchmarks
from scaling_study.host import probe
from scaling_study.runner import resolve, windows


def test_what_is_asked_for_is_understood():
    for name in kernels.KERNELS:
        for duty in (1 / 3, 0.5, 1.0):
            kernel, share = kernels.decode(kernels.encode(name, duty))
            assert kernel == name
            assert share == pytest.approx(duty, abs=0.005)
    # The smallest dose is not none, and a word that nobody has set asks for something harmless.
    assert kernels.decode(kernels.encode("pages", 0.0001))[1] > 0
    assert kernels.decode(0) == ("register", 0.0)


@pytest.mark.parametrize(
    ("l2", "l3", "spare", "expected"),
    [
        (2**20, 32 * 2**20, 2**40, (8 * 2**20, 128 * 2**20)),
        (None, None, 2**40, (2**19, 64 * 2**20)),
        (2**21, 256 * 2**20, 2**28, (64 * 2**20, 2**27)),
    ],
)
def test_working_sets_fit_where_they_belong(l2, l3, spare, expected):
    assert kernels.sizes(l2, l3, spare) == expected


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
    with kernel_cohort.make(tmp_path, [(None, "default")], machine, resolve.host(machine)) as one:
        assert kernel_cohort.start(one)

        def rate(kernel, duty):
            one.tell(kernels.encode(kernel, duty))
            (found,) = kernel_cohort.rates(one.take(windows.Window(0, 0, 1), settings))
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
