"""A loader that keeps training waiting, for what is not told apart."""

from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import CPUS, FOLDER, Dose, Options, Plant, slow_loader
from scaling_study.diagnosis.loading import LOADS, waiting

BY_RELIEF, FROM_CACHE, COUNTED = (Route(way, (LOADS,)) for way in waiting("rest"))


def _loader_workers(dose: Dose, count: int) -> Options:
    busy, *options = slow_loader(dose, "--busy")
    return ("loader_workers.py", "--workers", str(count), "--", str(FOLDER / busy), *options)


BUSY = "every batch takes CPU time, so that workers have something to do"

CAUSE = Cause(
    "A loader that keeps training waiting",
    "the model waits for its next data",
    "A large part of a step is in the loader, and comes back when batches are taken from memory; "
    "what making a batch takes is not known, or does not explain it.",
    "torch.utils.data, num_workers; the loader's time in tables/points",
    Remedy(
        "Make the rows of a batch together (__getitems__), do less work for each sample, or "
        "keep what was made. Loader workers help only where CPUs are free; what they and "
        "prefetching gain on this script, the axes loader_workers and prefetch measure.",
        others={
            "loader_apart": "Give the loader's workers CPUs of their own.",
            "more_workers": "Let more processes load the data.",
        },
    ),
    growth=(BY_RELIEF, FROM_CACHE),
    level=(BY_RELIEF, FROM_CACHE, COUNTED),
    plants={
        "workers": Plant(
            "more loader workers than CPUs",
            (
                *("data_loading", "loader_interference", "loader_preparation", "loader_copies"),
                *("helper_threads", "cpu_oversubscription"),
            ),
            wrapper=lambda dose: _loader_workers(dose, 2 * len(CPUS)),
            control=lambda dose: _loader_workers(dose, 0),
            own={"too_few_workers": BUSY, "loader_preparation": BUSY},
            level=True,
            promised=False,
        ),
    },
    order=180,
)
