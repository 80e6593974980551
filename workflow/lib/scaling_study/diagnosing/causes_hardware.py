"""Causes in how fast the CPUs are, and where a thread runs."""

from scaling_study.diagnosing.agreement import Fact, Falls, Inflated, Present, Sensitive
from scaling_study.diagnosing.cause import Cause, Remedy, Route
from scaling_study.diagnosing.evidence import Asked
from scaling_study.diagnosing.measures import NO_CLOCK, Beside, Clock, clock_column
from scaling_study.diagnosing.relief_share import ByRelief


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


HARDWARE = (
    Cause(
        "frequency",
        "A lower clock with more CPUs at work",
        "processors run slower when more of them work",
        "User time grows while the clock falls; a loop in registers slows down alike.",
        "Documentation/admin-guide/pm/cpufreq.rst; turbo tables of the processor",
        Remedy(
            "Nothing is wrong: the processor keeps within its power. Check the governor.",
            command="cpupower frequency-info",
        ),
        growth=(Route(Clock(), (Inflated("register"),)),),
    ),
    Cause(
        "smt",
        "CPUs that share a core (SMT)",
        "two of the processors are really one that works on two things in turn",
        "User time grows once more members run than there are cores; a loop in registers beside a "
        "member slows it down, and slows down itself among many.",
        "Intel 64 and IA-32 Optimization Reference Manual, Hyper-Threading; lscpu(1)",
        Remedy(
            "Count cores, not CPUs: start one process for each core.", axes={"placement": "cores"}
        ),
        growth=(
            Route(
                Beside("register"),
                (Sensitive("register"), Inflated("register")),
                needs=(Fact(_siblings), Fact(_clock)),
            ),
        ),
    ),
    Cause(
        "migrations",
        "Threads that are moved between CPUs",
        "the processes are moved from one processor to another and lose what it had at hand",
        "Time comes back when each member is bound to a core of its own, and migrations stop.",
        "sched_setaffinity(2); se.nr_migrations in /proc/PID/sched",
        Remedy("Bind each process to a core of its own.", axes={"placement": "cores"}),
        growth=(
            Route(
                ByRelief(("pinned",), beyond=("passive", "one_thread", "unpinned")),
                (
                    Present("migrations_per_step", "Migrations per step", 0.05),
                    Falls("migrations_per_step", "Migrations"),
                ),
            ),
        ),
        level=(
            Route(
                ByRelief(("pinned",), beyond=("passive", "one_thread", "unpinned")),
                (
                    Present("migrations_per_step", "Migrations per step", 0.05),
                    Falls("migrations_per_step", "Migrations"),
                ),
            ),
        ),
    ),
)
