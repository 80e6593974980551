"""More threads than small operators can use."""

from scaling_study.diagnosis.agreement import SEVERAL_THREADS
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import CPUS, Plant
from scaling_study.diagnosis.recovered_share import ByRelief

PLANTS = {
    "threads": Plant(
        "more threads than CPUs, asleep while they wait",
        ("too_many_threads", "cpu_oversubscription"),
        axes={"intra_op": 4 * len(CPUS), "wait_policy": "passive"},
        level=True,
        promised=False,
    ),
}

CAUSE = Cause(
    "More threads than small operators can use",
    "each process divides small pieces of work among several threads, and bringing them "
    "together costs more than they save",
    "One thread per operator brings time back that sleeping threads do not.",
    "torch.set_num_threads; CPU threading in PyTorch's notes",
    Remedy("Give each process one thread.", axes={"intra_op": 1}),
    growth=(Route(ByRelief(("one_thread",), beyond=("passive",)), (SEVERAL_THREADS,)),),
    level=(Route(ByRelief(("one_thread",), beyond=("passive",)), (SEVERAL_THREADS,)),),
    plants=PLANTS,
    order=120,
)
