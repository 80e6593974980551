"""Time of making batches, in the training thread or in worker processes."""

from functools import partial

from scaling_study.common.counter import Counter
from scaling_study.member import loaders

COUNTER = Counter(
    "Time in which torch's loaders make batches: that of all worker processes together.",
    time=partial(loaders.watch, loaders.MADE),
)
