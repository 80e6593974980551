"""Ranks that exchange their gradients."""

from scaling_study.diagnosis.agreement import takes
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import ranks_plant
from scaling_study.diagnosis.recovered_share import ByRelief

EXCHANGES = takes("backward_s_per_step", "the backward pass, in which gradients are exchanged,")
REDUCTION = Route(ByRelief(("one_element",)), (EXCHANGES,))

PLANTS = {
    "slow_exchange": ranks_plant(
        "a slow exchange of gradients between two ranks", "communication", "--exchange"
    ),
}

CAUSE = Cause(
    "Ranks that exchange their gradients",
    "the processes that train one model together exchange what each has learnt, and wait for it",
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
    plants=PLANTS,
    order=60,
)
