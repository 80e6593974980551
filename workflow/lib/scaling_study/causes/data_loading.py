"""A loader that keeps training waiting."""

from scaling_study.causes.cause import Cause, Remedy, Route
from scaling_study.evidence.agreement import takes
from scaling_study.evidence.case import CACHED
from scaling_study.evidence.measures import Account, Instead
from scaling_study.evidence.relief_share import ByRelief

LOADS = takes("load_s_per_step", "the loader")
LOADING = Instead(Account(("load_s_per_step",), "time in the loader"), (CACHED,))

CAUSE = Cause(
    "A loader that keeps training waiting",
    "the model waits for its next data",
    "A large part of a step is in the loader, and comes back when batches are taken from memory.",
    "torch.utils.data, num_workers; the loader's time in tables/points",
    Remedy(
        "Make the rows of a batch together (__getitems__), do less work for each sample, or "
        "keep what was made. Loader workers help only where CPUs are free; what they and "
        "prefetching gain on this script, the axes loader_workers and prefetch measure.",
    ),
    growth=(Route(ByRelief((CACHED,)), (LOADS,)),),
    level=(
        Route(ByRelief((CACHED,)), (LOADS,)),
        Route(LOADING),
    ),
    order=180,
)
