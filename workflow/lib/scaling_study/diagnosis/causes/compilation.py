"""Recompilation for new shapes."""

from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Dose, Options, Plant
from scaling_study.diagnosis.measures import Account

COMPILING = Account(
    ("compile_s_per_step",), "time in torch.compile's compiler", missing="it was not counted"
)

COMPILE_S = 10e-3
"""About what it takes to compile a small function; the dose differs with the CPU."""


def _recompiling(dose: Dose, *more: str) -> Options:
    every = max(1, round(COMPILE_S / (dose.strength * dose.step_s)))
    return ("recompiling.py", "--every", str(every), *more)


PLANTS = {
    "recompiling": Plant(
        "recompilation for new shapes",
        ("compilation",),
        wrapper=_recompiling,
        control=lambda dose: _recompiling(dose, "--same"),
        level=True,
        promised=False,
    ),
}

CAUSE = Cause(
    "Recompilation for new shapes",
    "the model meets inputs of ever new shapes, and is compiled anew for each",
    "A part of a step is in torch.compile's compiler, long after the first steps.",
    "torch.compile troubleshooting, recompilations; TORCH_LOGS=recompiles says what changed",
    Remedy(
        "Compile once for all shapes, or let batches have few of them: pad or bucket what "
        "differs in length, and drop the last, smaller batch.",
        code="torch.compile(model, dynamic=True)",
    ),
    growth=(Route(COMPILING),),
    level=(Route(COMPILING),),
    plants=PLANTS,
    order=190,
)
