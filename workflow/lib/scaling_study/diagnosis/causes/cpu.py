"""CPUs that members do not get: limits, crowding, other programs, and threads that wait."""

import numpy as np

from scaling_study.common.quantities import format_count, format_cpus, format_number, format_seconds
from scaling_study.diagnosis import checks
from scaling_study.diagnosis.case import CACHED, REFERENCE, Case
from scaling_study.diagnosis.cause import SCALING_LOSS, Cause, Proof
from scaling_study.diagnosis.evidence import MOST, Evidence, Measured, Query, Untested
from scaling_study.diagnosis.shares import Counted, share_of, unexplained
from scaling_study.diagnosis.waits import SCHEDSTAT
from scaling_study.experiments.interventions import QUOTA_BURSTS
from scaling_study.launch.axes.threads import SPIN_LIMIT_S
from scaling_study.stats.interval import Floats
from scaling_study.stats.ratios import mean
from scaling_study.stats.thresholds import FOREIGN_CPUS

UNPILED = ("pinned", "unpinned", "spread", "per_l3")
THREAD_INTERVENTIONS = ("one_thread", "passive")
BUSY_CPUS = 0.1
"""A program that runs for less than a tenth of the time hardly slows others down by a tenth."""
PROCESSES = Counted(
    ("wait_processes_s_per_step",), "waiting for a CPU that another member had", relieved=True
)


def _quota(query: Query) -> Evidence:
    quota = query.case.machine.quota_cpus
    if quota is None:
        return Evidence(None, "fact", "No quota is set on the cgroups that can be seen from here.")
    used = format_number(query.case.mean("cpu_use", query.case.n))
    text = f"The cgroup's quota is {format_number(quota)} CPUs; the members used {used}."
    return Evidence(True, "fact", text)


def _crowded(query: Query) -> Evidence:
    """Check whether masks leave a thread without a CPU of its own, though there are enough.

    If the masks are not known, it counts whether a change of the placement saves time.
    """
    case, cpus, members = query.case, len(query.case.machine.cpus), query.n
    demands = [
        (query.mean("trainers_cpus"), members, "training thread"),
        (query.mean("members_cpus"), members * case.demand, "thread"),
    ]
    if query.scope == "single_process_loss":
        del demands[0]
    if any(np.isnan(have) for have, *_ in demands):
        placed = checks.saves_time(*UNPILED)(query)
        unread = Evidence(None, "fact", "Which CPUs the members may use was not read.")
        return unread if placed.agrees is None else placed
    crowded = [demand for demand in demands if demand[0] < min(demand[1], cpus)]
    have, wanted, who = (crowded or demands)[0]
    text = (
        f"The masks allow {format_number(have)} of {format_count(wanted, who)} a CPU of "
        f"its own; there are {format_count(cpus, 'CPU')}."
    )
    return Evidence(bool(crowded), "fact", text)


def _foreign(query: Query) -> Evidence:
    cpus = query.mean("foreign_cpus")
    names = ", ".join(
        f"{process.name} (process {process.pid}, {format_cpus(process.share)} CPUs)"
        for process in query.case.foreign
    )
    text = f"Other programs kept {format_cpus(cpus)} CPUs busy{': ' + names if names else ''}."
    return Evidence(cpus >= FOREIGN_CPUS, "account", text)


def _foreign_traffic(query: Query) -> str | None:
    if query.scope == "scaling_loss" or query.mean("foreign_cpus") < BUSY_CPUS:
        return None
    return "What their memory traffic costs besides is not known: nothing ran without them."


def _several_threads(query: Query) -> Evidence:
    """Check that an operator divides its work among threads."""
    case, threads = query.case, query.case.threads
    text = (
        f"An operator uses {format_count(threads, 'thread')}: {threads * query.n} in all, on "
        f"{format_count(len(case.machine.cpus), 'CPU')}."
    )
    return Evidence(threads > 1, "fact", text)


def _spins(query: Query) -> Evidence:
    spin_s = query.case.reported("spin_s")
    if not isinstance(spin_s, float):
        return Evidence(None, "fact", "Whether waiting threads spin was not probed.")
    text = (
        f"After a parallel operator a member used {format_number(spin_s * 1e3)} ms of CPU time in "
        "20 ms of sleep."
    )
    return Evidence(spin_s > SPIN_LIMIT_S, "fact", text)


def _smaller(query: Query) -> Evidence:
    machine = query.case.machine
    allowed, online = len(machine.cpus), len(machine.topology.cpus)
    text = f"{allowed} of the machine's {online} CPUs are allowed."
    return Evidence(allowed < online, "fact", text)


def _helpers(query: Query) -> Evidence:
    case, busy = query.case, checks.other_threads_cpus(query)
    text = (
        f"A member has {format_number(query.mean('threads'))} threads in "
        f"{format_number(query.mean('processes'))} processes; beside the training thread they "
        f"keep {format_cpus(busy)} CPUs busy."
    )
    if case.threads > 1:
        text += f" Operators have {case.threads} threads: these are theirs."
    return Evidence(case.threads == 1 and busy >= FOREIGN_CPUS, "account", text)


def _outnumber(query: Query) -> Evidence:
    case, cpus = query.case, len(query.case.machine.cpus)
    text = (
        f"{format_count(case.n, 'member')} with {format_count(case.demand, 'thread')} each on "
        f"{format_count(cpus, 'CPU')}."
    )
    return Evidence(case.n * case.demand > cpus, "fact", text)


def _take_turns(query: Query) -> Evidence:
    case = query.case
    waited_s = case.mean("wait_processes_s_per_step", case.n)
    added_s = case.mean("step_s", case.n) - case.mean("step_s", 1)
    text = f"Members wait {format_seconds(waited_s)} of a step for a CPU that another one had."
    return Evidence(waited_s >= MOST * query.share * added_s, "account", text)


def work_bound(query: Query) -> Measured | Untested:
    """Return the cost of more work than the CPUs can do, even under a perfect scheduler.

    Members of one thread each wait for one another in the run queue, and that is counted. If one
    member alone keeps several CPUs busy, each of n members gets fewer, and its training thread
    waits for helper threads, spinning or asleep. The cost is then the bound of a work-conserving
    scheduler: n times the CPU time of a step, over the CPUs. The CPU time is that of the cohort
    that needs least (one thread, or threads that sleep while they wait): spinning is not work.
    """
    case = query.case
    if case.threads == 1:
        return PROCESSES(query)
    names = [name for name in THREAD_INTERVENTIONS if case.measured(name, "single_process_loss")]
    if not names:
        return Untested("how much CPU time a step needs without waiting threads is not known")
    work = min((_cpu_s(case, name) for name in (REFERENCE, *names)), key=mean)
    foreign = np.nan_to_num(case.column("foreign_cpus", case.n))
    cpus = np.maximum(1.0, len(case.machine.cpus) - foreign)
    over = case.n * work / cpus / case.step(1) - 1
    bound = mean(over)
    over = over * (max(0.0, min(bound, unexplained(query))) / bound) if bound > 0 else over * 0.0
    text = (
        f"One member alone keeps {format_number(case.mean('cpu_use', 1))} CPUs busy; {case.n} of "
        f"them would need {format_number(case.n * mean(work / case.step(1)))} of "
        f"{len(case.machine.cpus)} for the work: {{share}} of the added time."
    )
    return share_of(query, over, text)


def _cpu_s(case: Case, name: str) -> Floats:
    return case.column("user_s_per_step", 1, name) + case.column("system_s_per_step", 1, name)


def fewer_processes(query: Query) -> Measured | Untested:
    """Return the time that is recovered with only as many members as CPUs for their threads.

    Taking turns costs more than the counted wait: a process that returns to a CPU finds its caches
    filled by others. That is user time, and only this comparison shows it.
    """
    case = query.case
    fit = len(case.machine.cpus) // max(1, case.demand)
    if (REFERENCE, fit) not in case.measurements.columns or fit in {1, case.n}:
        return Untested("no windows with as many members as CPUs, between one and all")
    if query.named:
        return Untested("other causes have a part in what fewer members recover")
    over = (case.step(case.n) - case.step(fit)) / case.step(1)
    text = f"With {fit} processes in place of {case.n}, {{share}} of the added time is recovered."
    return share_of(query, over, text, "intervention")


CAUSES = {
    "cpu_quota": Cause(
        "A CPU quota of the cgroup",
        "CPU bandwidth control: Documentation/scheduler/sched-bwc.rst; cpu.stat in "
        "Documentation/admin-guide/cgroup-v2.rst",
        "Raise or remove the quota, or start no more processes than it has CPUs for.",
        command="cat /sys/fs/cgroup/cpu.max  # then, as root, for the cgroup that has it: "
        "echo max > cpu.max",
        counted=Counted(("trainer_throttled_s_per_step",), "time held back by a quota"),
        interventions=(QUOTA_BURSTS,),
        notes=(_quota,),
    ),
    "stopped": Cause(
        "Processes that are stopped from outside",
        "SIGSTOP in signal(7); ptrace(2); states T and t in /proc/PID/stat, proc(5); cpulimit(1)",
        "Find the program that stops them: cpulimit, a batch system that suspends jobs, a "
        "debugger or a tracer.",
        command="grep -H TracerPid /proc/[0-9]*/status; pgrep --list-full cpulimit",
        counted=Counted(("blocked_stopped_s_per_step",), "standing still, stopped by a signal"),
        requires=(checks.waiting("stopped"),),
    ),
    "affinity_pileup": Cause(
        "Members piled up on the same CPUs",
        f"{SCHEDSTAT}; sched_setaffinity(2); libgomp manual, OMP_PROC_BIND",
        "Give each process CPUs of its own, and unset OMP_PROC_BIND, GOMP_CPU_AFFINITY and "
        "KMP_AFFINITY.",
        axes={"placement": "cores"},
        command="unset OMP_PROC_BIND OMP_PLACES GOMP_CPU_AFFINITY KMP_AFFINITY",
        counted=Counted(("wait_pileup_s_per_step",), "waiting for a CPU while others were idle"),
        interventions=UNPILED,
        minus=("passive", "one_thread"),
        requires=(_crowded,),
    ),
    "foreign_load": Cause(
        "Other programs on the same CPUs",
        f"{SCHEDSTAT}; /proc/stat in proc(5)",
        "Stop the other programs, or measure when they do not run.",
        command="top -b -n 1",
        counted=Counted(
            ("wait_foreign_s_per_step",),
            "waiting for a CPU that another program had",
            uncounted=_foreign_traffic,
        ),
        requires=(_foreign,),
    ),
    "steal": Cause(
        "CPU time taken by the hypervisor",
        "steal in /proc/stat, proc(5); Documentation/virt/kvm/x86/msr.rst",
        "Move to a host that is not overcommitted, or to dedicated CPUs.",
        counted=Counted(("stolen_s_per_step",), "time that the hypervisor took"),
    ),
    "spinning": Cause(
        "OpenMP threads that spin while they wait",
        "libgomp manual, GOMP_SPINCOUNT and OMP_WAIT_POLICY",
        "Let waiting threads sleep (OMP_WAIT_POLICY=PASSIVE), or give each process one thread.",
        remedies={
            "one_thread": "Give each process one thread: that recovers more than letting "
            "waiting threads sleep (OMP_WAIT_POLICY=PASSIVE)."
        },
        interventions=("passive",),
        requires=(_several_threads, _spins),
    ),
    "too_many_threads": Cause(
        "More threads than small operators can use",
        "torch.set_num_threads; CPU threading in PyTorch's notes",
        "Give each process one thread.",
        interventions=("one_thread",),
        minus=("passive",),
        requires=(_several_threads,),
    ),
    "cpuset": Cause(
        "A mask or cpuset smaller than the machine",
        f"{SCHEDSTAT}; cpuset(7), taskset(1)",
        "Start the study with more CPUs allowed (cpuset, taskset, the whole node).",
        counted=Counted(
            ("wait_cpuset_s_per_step",),
            "waiting for a CPU that the whole machine would have had",
            relieved=True,
        ),
        requires=(_smaller,),
        scopes=SCALING_LOSS,
    ),
    "cpu_oversubscription": Cause(
        "More work than CPUs",
        f"{SCHEDSTAT}; Documentation/scheduler/sched-eevdf.rst",
        "Start fewer processes: as many as there are CPUs for their threads. More do not give "
        "more models per hour.",
        share=work_bound,
        requires=(_outnumber,),
        scopes=SCALING_LOSS,
        others=(Proof(fewer_processes, (_outnumber, _take_turns), scopes=SCALING_LOSS),),
    ),
    "helper_threads": Cause(
        "Helper threads that compete for CPUs",
        SCHEDSTAT,
        "Start fewer loader workers, background threads or processes, so that all working threads "
        "fit on the CPUs.",
        # Counted without the loader: its threads have causes of their own.
        counted=Counted(
            ("wait_threads_s_per_step",),
            "waiting for a CPU that helper threads had",
            relieved=True,
            cohort=CACHED,
        ),
        requires=(_helpers,),
    ),
    "migrations": Cause(
        "Threads that are moved between CPUs",
        "sched_setaffinity(2); se.nr_migrations in /proc/PID/sched",
        "Bind each process to a core of its own.",
        interventions=("pinned",),
        minus=("passive", "one_thread", "unpinned"),
        requires=(
            checks.present("migrations_per_step", "Migrations per step", 0.05),
            checks.falls("migrations_per_step", "Migrations"),
            # Loader workers on a pinned member's core make it wait, which counts as external: the
            # step must really get shorter.
            checks.saves_time("pinned"),
        ),
    ),
}
