"""Memory bandwidth."""

from scaling_study.causes.cause import Cause, Remedy, Route
from scaling_study.evidence.agreement import Inflated, Sensitive
from scaling_study.evidence.measures import Beside

CAUSE = Cause(
    "Memory bandwidth",
    "all processes together want more data from memory than it can deliver",
    "User time grows; a stream through memory beside a member slows it down beyond the "
    "control, and streams slow each other down; operators that stream grow, small multiplies "
    "do not.",
    "STREAM: McCalpin 1995, Memory Bandwidth and Machine Balance",
    Remedy(
        "Start fewer processes, spread them over memory nodes, or make tensors smaller "
        "(bfloat16, in-place operators).",
        axes={"placement": "spread"},
    ),
    growth=(Route(Beside("memory", minus=("llc",)), (Sensitive("memory"), Inflated("memory"))),),
    order=300,
)
