"""Ranks that wait for the slowest of them."""

from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import ranks_plant
from scaling_study.diagnosis.measures import Account

WAITING = Account(
    ("ranks_wait_s_per_step",), "waiting of the ranks for the slowest of them, on average"
)

PLANTS = {
    "slow_rank": ranks_plant("a rank that is slower than the other", "imbalance", "--slow"),
}

CAUSE = Cause(
    "Ranks that wait for the slowest of them",
    "the processes that train one model together do not have the same work, and all wait for "
    "the slowest",
    "Outside of backward, where ranks wait for each other, one of them takes longer than the "
    "others.",
    "Getting Started with Distributed Data Parallel, skewed processing speeds",
    Remedy(
        "Give each rank the same work: batches of like lengths (a DistributedSampler over "
        "sorted or bucketed samples), and nothing that only one of them does in a step.",
    ),
    growth=(Route(WAITING),),
    level=(Route(WAITING),),
    plants=PLANTS,
    order=70,
)
