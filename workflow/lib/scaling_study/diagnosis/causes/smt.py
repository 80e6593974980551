"""CPUs that share a core (SMT)."""

from scaling_study.diagnosis.agreement import Fact, Inflated, Sensitive
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.measures import NO_CLOCK, Beside, clock_column
from scaling_study.diagnosis.query import Asked


def _siblings(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    machine = case.machine
    if machine.cores < machine.allowed_cpus:
        text = f"{machine.allowed_cpus} CPUs are {machine.cores} cores."
        return case.n > machine.cores, text
    if machine.virtual:
        return None, "A virtual machine does not tell which of its CPUs share a core."
    return False, "Every CPU is a core of its own."


def _clock(asked: Asked) -> tuple[bool | None, str]:
    """A loop in registers gets slower on a lower clock as it does beside a sibling."""
    column = clock_column(asked.case)
    if column is None:
        return None, f"{NO_CLOCK[:1].upper()}{NO_CLOCK[1:]}."
    return True, "The clock of the members' CPUs is known, and what it costs is set off."


CAUSE = Cause(
    "CPUs that share a core (SMT)",
    "two of the processors are really one that works on two things in turn",
    "User time grows once more members run than there are cores; a loop in registers beside a "
    "member slows it down, and slows down itself among many.",
    "Intel 64 and IA-32 Optimization Reference Manual, Hyper-Threading; lscpu(1)",
    Remedy("Count cores, not CPUs: start one process for each core.", axes={"placement": "cores"}),
    growth=(
        Route(
            Beside("register"),
            (Sensitive("register"), Inflated("register")),
            needs=(Fact(_siblings), Fact(_clock)),
        ),
    ),
    order=270,
)
