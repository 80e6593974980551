"""CPU time of making batches, in the training thread or in worker processes."""

from functools import partial

from scaling_study.common.counter import Counter
from scaling_study.member import loaders

COUNTER = Counter(
    "CPU time in which torch's loaders make batches.", time=partial(loaders.watch, loaders.COMPUTED)
)
