"""A lower clock with more CPUs at work."""

from scaling_study.diagnosis.agreement import Inflated
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.measures import Clock

CAUSE = Cause(
    "A lower clock with more CPUs at work",
    "processors run slower when more of them work",
    "User time grows while the clock falls; a loop in registers slows down alike.",
    "Documentation/admin-guide/pm/cpufreq.rst; turbo tables of the processor",
    Remedy(
        "Nothing is wrong: the processor keeps within its power. Check the governor.",
        command="cpupower frequency-info",
    ),
    growth=(Route(Clock(), (Inflated("register"),)),),
    order=260,
)
