"""A script that dozes in each step."""

from scaling_study.diagnosis.agreement import takes
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Plant
from scaling_study.diagnosis.measures import Account

DOZES = Account(("waits_s_per_step",), "dozing", missing="it was not counted")
ROUTE = Route(DOZES, (takes("waits_s_per_step", "dozing"),))


def _doze(seconds):
    import time

    import real_workload

    real_workload.before_each_step(lambda *_: time.sleep(seconds))


CAUSE = Cause(
    "A script that dozes",
    "the training script dozes in each step",
    "A part of a step is in time.sleep.",
    "time.sleep in Python's documentation",
    Remedy("Let it not doze."),
    growth=(ROUTE,),
    level=(ROUTE,),
    plants={"dozing": Plant("a nap in every step", ("dozing",), code=_doze, level=True)},
    order=95,
)
