"""Causes of the ranks that train one model together: what they exchange, and whom they wait for."""

from scaling_study.diagnosing.cause import Cause, Remedy, Route
from scaling_study.diagnosing.causes_code import takes
from scaling_study.diagnosing.measures import Account
from scaling_study.diagnosing.relief_share import ByRelief

EXCHANGES = takes("backward_s_per_step", "the backward pass, in which gradients are exchanged,")
WAITING = Account(
    ("ranks_wait_s_per_step",), "waiting of the ranks for the slowest of them, on average"
)
REDUCTION = Route(ByRelief(("one_element",)), (EXCHANGES,))

RANKS = (
    Cause(
        "communication",
        "Ranks that exchange their gradients",
        "the processes that train one model together exchange what each has learnt, and wait for "
        "it",
        "A step is faster when the ranks still wait for each other, but exchange one number in "
        "place of their gradients.",
        "torch.nn.parallel.DistributedDataParallel, communication hooks",
        Remedy(
            "Use fewer ranks, or let a rank do more between two exchanges: a larger batch, or "
            "several batches under no_sync(). Both change the training; what a larger batch gains "
            "here can be measured as a parameter of the study.",
        ),
        growth=(REDUCTION,),
        level=(REDUCTION,),
    ),
    Cause(
        "imbalance",
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
    ),
)
