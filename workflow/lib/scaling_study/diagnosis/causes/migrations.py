"""Threads that are moved between CPUs."""

from scaling_study.diagnosis.agreement import BringsBack, Falls, Present
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.recovered_share import ByRelief

PINNED = Route(
    ByRelief(("pinned",), beyond=("passive", "one_thread", "unpinned")),
    (
        Present("migrations_per_step", "Migrations per step", 0.05),
        Falls("migrations_per_step", "Migrations"),
        # Loader workers on a member's one core make it wait for that: its own time is shorter then.
        BringsBack(("pinned",)),
    ),
)

CAUSE = Cause(
    "Threads that are moved between CPUs",
    "the processes are moved from one processor to another and lose what it had at hand",
    "Time comes back when each member is bound to a core of its own, and migrations stop.",
    "sched_setaffinity(2); se.nr_migrations in /proc/PID/sched",
    Remedy("Bind each process to a core of its own.", axes={"placement": "cores"}),
    growth=(PINNED,),
    level=(PINNED,),
    order=280,
)
