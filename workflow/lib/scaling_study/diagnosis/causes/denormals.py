"""Denormal numbers."""

from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Dose, Options, Plant
from scaling_study.diagnosis.recovered_share import ByRelief

DENORMAL_S = 21e-6
"""What denormals add to a call of denormals.py on the CPU that its doses were chosen on; elsewhere
the dose differs."""


def _denormals(dose: Dose, *more: str) -> Options:
    calls = round(1.5 * dose.strength * dose.step_s / DENORMAL_S)
    return ("denormals.py", "--calls", str(calls), *more)


PLANTS = {
    "denormals": Plant(
        "denormal numbers",
        ("denormals",),
        wrapper=_denormals,
        control=lambda dose: _denormals(dose, "--normal"),
        level=True,
    ),
}

CAUSE = Cause(
    "Denormal numbers",
    "the model computes with numbers so small that the processor handles each one separately",
    "One process is slow already, in user time, and fast when denormals are flushed to zero.",
    "pytorch/pytorch#21734; Intel 64 and IA-32 Software Developer's Manual, MXCSR",
    Remedy(
        "Flush denormals to zero at the start of the script.",
        code="torch.set_flush_denormal(True)",
    ),
    growth=(Route(ByRelief(("flush_denormals",))),),
    level=(Route(ByRelief(("flush_denormals",))),),
    plants=PLANTS,
    order=170,
)
