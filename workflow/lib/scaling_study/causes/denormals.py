"""Denormal numbers."""

from scaling_study.causes.cause import Cause, Remedy, Route
from scaling_study.evidence.relief_share import ByRelief

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
    order=170,
)
