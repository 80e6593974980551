"""What the shell sets, where no cause that has a name of its own tells what it does."""

from scaling_study.diagnosis.agreement import Fact
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.query import MOST, Asked
from scaling_study.diagnosis.recovered_share import ByRelief, relief_share

CLEARED = "cleared"


def _unnamed(asked: Asked) -> tuple[bool, str]:
    """Whether the causes that are named take less than what comes back without the variables."""
    if not asked.case.measured(CLEARED, asked.scope):
        return True, ""
    back = relief_share(asked.case, asked.scope, CLEARED)
    known = sum(one.estimate.value for one in asked.named.values())
    agrees = back is None or known < MOST * back.value
    return agrees, "The causes that are named take most of what comes back without it."


ROUTE = Route(ByRelief((CLEARED,)), needs=(Fact(_unnamed),))

CAUSE = Cause(
    "What the shell sets",
    "a setting of the shell that they were started from slows them down",
    "Time comes back without the variables, the CPU mask and the memory policy of today's launch, "
    "and no other cause takes most of that time.",
    "OpenMP API specification, Environment Variables; mallopt(3); the libraries' manuals",
    Remedy("Start the processes without what the shell sets, as recommended.sh does."),
    growth=(ROUTE,),
    level=(ROUTE,),
    order=400,
)
