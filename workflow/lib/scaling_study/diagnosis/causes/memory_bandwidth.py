"""Memory bandwidth."""

from scaling_study.diagnosis.agreement import Inflated, Sensitive
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Dose, Options, Plant, one_cpu
from scaling_study.diagnosis.measures import Beside

COPY_BYTES_PER_S = 8e9
"""About what one CPU copies from memory to memory; the dose differs with the machine."""


def _stream(dose: Dose, *more: str) -> Options:
    size = 3 * dose.strength * dose.step_s * COPY_BYTES_PER_S
    return ("stream.py", "--bytes", str(round(size)), *more)


PLANTS = {
    "stream": Plant(
        "steps that copy more than caches hold",
        ("memory_bandwidth", "last_level_cache"),
        wrapper=_stream,
        control=lambda dose: _stream(dose, "--cached"),
        missing=one_cpu,
        promised=False,
    ),
}

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
    plants=PLANTS,
    order=300,
)
