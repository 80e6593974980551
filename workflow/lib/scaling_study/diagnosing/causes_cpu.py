"""Causes that have to do with who has which CPU, and how fast it is."""

from scaling_study.common.quantities import (
    format_count,
    format_cpus,
    format_number,
    format_seconds,
    known,
)
from scaling_study.diagnosing.agreement import BringsBack, Fact, FirstKnown, Waiting
from scaling_study.diagnosing.case import REFERENCE, UNTHROTTLED
from scaling_study.diagnosing.cause import Cause, Remedy, Route
from scaling_study.diagnosing.evidence import MOST, Asked
from scaling_study.diagnosing.measures import Account, Demand, Fewer, Partly
from scaling_study.diagnosing.relief_share import AtLeast, ByRelief
from scaling_study.diagnosing.sampled import UNSEEN

SCHEDSTAT = "run_delay in Documentation/scheduler/sched-stats.rst of the Linux kernel"
UNPILED = ("pinned", "unpinned", "spread", "per_l3")


def _crowded(asked: Asked) -> tuple[bool | None, str]:
    """Whether masks leave some thread without a CPU of its own, though there would be enough."""
    case, cpus = asked.case, asked.case.machine.allowed_cpus
    members = asked.n
    demands = [(case.mean("members_cpus", members), members * case.demand, "thread")]
    if asked.scope == "growth":
        trainers = min(case.mean("trainers_cpus", members), case.placeable)
        demands.insert(0, (trainers, members, "training thread"))
    if not all(known(have) for have, *_ in demands):  # a file of an older version
        return None, "Which CPUs the members may use was not read."
    crowded = [one for one in demands if one[0] < min(one[1], cpus)]
    have, wanted, who = (crowded or demands)[0]
    text = (
        f"The masks allow {format_number(have)} of {format_count(wanted, who)} a CPU of "
        f"its own; there are {format_count(cpus, 'CPU')}."
    )
    return bool(crowded), text


def _threads(asked: Asked) -> tuple[bool | None, str]:
    case, scope = asked.case, asked.scope
    used = case.threads * (case.n if scope == "growth" else 1)
    text = (
        f"An operator uses {format_count(case.threads, 'thread')}: {used} in all, on "
        f"{format_count(case.machine.allowed_cpus, 'CPU')}."
    )
    return case.threads > 1, text


def _spins(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    spin_s = case.attested.get(REFERENCE, {}).get("spin_s")
    if spin_s is None:
        return None, "Whether waiting threads spin was not probed."
    return spin_s > SPINS_S, (
        f"After a parallel operator a member used {format_number(spin_s * 1e3)} ms of CPU time in "
        "20 ms of sleep."
    )


SPINS_S = 0.002
"""axes.SPIN_LIMIT_S: threads that sleep at once use far less of 20 ms."""


def _quota(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    quota = case.machine.quota_cpus
    if quota is None:
        return None, "No quota is set on the cgroups that can be seen from here."
    return True, (
        f"The cgroup's quota is {format_number(quota)} CPUs; the members used "
        f"{format_number(case.mean('cpu_use', case.n))}."
    )


def _outnumber(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    cpus = case.machine.allowed_cpus
    return case.n * case.demand > cpus, (
        f"{format_count(case.n, 'member')} with {format_count(case.demand, 'thread')} each on "
        f"{format_count(cpus, 'CPU')}."
    )


def _take_turns(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    waited_s = case.mean("wait_processes_s_per_step", case.n)
    added_s = case.mean("step_s", case.n) - case.mean("step_s", 1)
    text = f"Members wait {format_seconds(waited_s)} of a step for a CPU that another one had."
    return waited_s >= MOST * asked.share * added_s, text


def _smaller(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    allowed, online = case.machine.allowed_cpus, case.machine.online_cpus
    return allowed < online, f"{allowed} of the machine's {online} CPUs are allowed."


def _foreign(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    n = asked.n
    cpus = case.mean("foreign_cpus", n)
    names = ", ".join(
        f"{one['name']} (process {one['pid']}, {format_cpus(one['share'])} CPUs)"
        for one in case.foreign
    )
    text = f"Other programs kept {format_cpus(cpus)} CPUs busy{': ' + names if names else ''}."
    return cpus >= FOREIGN_CPUS, text


FOREIGN_CPUS = 0.05
"""windows.FOREIGN_FLOOR_CPUS: below it is the resolution of /proc/stat."""


def _foreign_traffic(asked: Asked) -> str | None:
    if asked.case.mean("foreign_cpus", asked.n) < BUSY_CPUS:
        return None
    return "What their memory traffic costs besides is not known: nothing ran without them."


BUSY_CPUS = 0.1
"""Who runs for less than a tenth of the time hardly makes others slower by a tenth."""


def _helpers(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    n = asked.n
    ran = sum(
        case.mean(f"{kind}_s_per_step", n) - case.mean(f"trainer_{kind}_s_per_step", n)
        for kind in ("user", "system")
    )
    busy = ran / case.mean("step_s", n)
    text = (
        f"A member has {format_number(case.mean('threads', n))} threads in "
        f"{format_number(case.mean('processes', n))} processes; beside the training thread they "
        f"keep {format_cpus(busy)} CPUs busy."
    )
    if case.threads > 1:
        return False, f"{text} Operators have {case.threads} threads: these are theirs."
    return bool(busy >= FOREIGN_CPUS), text


THROTTLED = Account(("trainer_throttled_s_per_step",), "time held back by a quota")
STOPPED = Account(
    ("blocked_stopped_s_per_step",), "standing still, stopped by a signal", missing=UNSEEN
)
PILED = AtLeast(
    Account(("wait_pileup_s_per_step",), "waiting for a CPU while others were idle"),
    ByRelief(UNPILED, beyond=("passive", "one_thread"), own="wait_pileup_s_per_step"),
)
UNCROWDED = FirstKnown((Fact(_crowded), BringsBack(UNPILED)))
BY_FOREIGN = Account(("wait_foreign_s_per_step",), "waiting for a CPU that another program had")
STOLEN = Account(("stolen_s_per_step",), "time that the hypervisor took")
FIRST = (
    Cause(
        "cpu_quota",
        "A CPU quota of the cgroup",
        "a limit set on this container or service stops the processes for a part of the time",
        "The kernel counts throttled time; CPUs are idle while members are ready to run. In bursts "
        "that end before the quota holds anybody back, steps with many processes are as short as "
        "with one. The affinity mask shows nothing of it.",
        "CPU bandwidth control: Documentation/scheduler/sched-bwc.rst; cpu.stat in "
        "Documentation/admin-guide/cgroup-v2.rst",
        Remedy(
            "Raise or remove the quota, or start no more processes than it has CPUs for.",
            command="cat /sys/fs/cgroup/cpu.max  # then, as root, for the cgroup that has it: "
            "echo max > cpu.max",
        ),
        growth=(Route(AtLeast(THROTTLED, ByRelief((UNTHROTTLED,))), hints=(Fact(_quota),)),),
        level=(Route(THROTTLED, hints=(Fact(_quota),)),),
    ),
    Cause(
        "stopped",
        "Processes that are stopped from outside",
        "some program stops the processes again and again, and lets them go on after a while",
        "Training threads are found stopped: neither ready to run nor waiting for anything. No "
        "counter of the kernel shows it.",
        "SIGSTOP in signal(7); ptrace(2); states T and t in /proc/PID/stat, proc(5); cpulimit(1)",
        Remedy(
            "Find what stops them, and have it leave them alone: cpulimit, a batch system that "
            "suspends jobs, a debugger or a tracer.",
            command="grep -H TracerPid /proc/[0-9]*/status; pgrep --list-full cpulimit",
        ),
        growth=(Route(STOPPED, (Waiting(("stopped",), 0.1),)),),
        level=(Route(STOPPED, (Waiting(("stopped",), 0.1),)),),
    ),
    Cause(
        "affinity_pileup",
        "Members piled up on the same CPUs",
        "the processes are bound to the same processors while others stand idle",
        "Members wait for a CPU while allowed CPUs are idle; their masks allow fewer CPUs than "
        "there are members. OMP_PROC_BIND and GOMP_CPU_AFFINITY do this to separately started "
        "processes.",
        f"{SCHEDSTAT}; sched_setaffinity(2); libgomp manual, OMP_PROC_BIND",
        Remedy(
            "Give each process CPUs of its own, and unset OMP_PROC_BIND, GOMP_CPU_AFFINITY and "
            "KMP_AFFINITY.",
            axes={"placement": "cores"},
            command="unset OMP_PROC_BIND OMP_PLACES GOMP_CPU_AFFINITY KMP_AFFINITY",
        ),
        growth=(Route(PILED, (UNCROWDED,)),),
        level=(Route(PILED, (UNCROWDED,)),),
    ),
    Cause(
        "foreign_load",
        "Other programs on the same CPUs",
        "other programs on this computer take processor time from the study",
        "Members wait for a CPU beside measured CPU time of programs that do not belong to the "
        "study; without those the CPUs would do.",
        f"{SCHEDSTAT}; /proc/stat in proc(5)",
        Remedy("Stop the other programs, or measure when they do not run.", command="top -b -n 1"),
        growth=(Route(BY_FOREIGN, (Fact(_foreign, "account"),)),),
        level=(Route(Partly(BY_FOREIGN, _foreign_traffic), (Fact(_foreign, "account"),)),),
    ),
    Cause(
        "steal",
        "CPU time taken by the hypervisor",
        "the computer is a virtual one, and its host gives the processors to others meanwhile",
        "Steal time grows; nothing inside the machine accounts for it.",
        "steal in /proc/stat, proc(5); Documentation/virt/kvm/x86/msr.rst",
        Remedy("Move to a host that is not overcommitted, or to dedicated CPUs."),
        growth=(Route(STOLEN),),
        level=(Route(STOLEN),),
    ),
)

THREADS = (
    Cause(
        "spinning",
        "OpenMP threads that spin while they wait",
        "threads that have nothing to do keep their processor busy asking for work, and the "
        "threads that have work must wait for it",
        "User time and run-queue wait grow on all threads as soon as processes share CPUs, and "
        "both go when waiting threads sleep. One process alone is not slow.",
        "libgomp manual, GOMP_SPINCOUNT and OMP_WAIT_POLICY",
        Remedy(
            "Let waiting threads sleep (OMP_WAIT_POLICY=PASSIVE), or give each process one thread.",
            axes={"wait_policy": "passive"},
            others={
                "one_thread": "Give each process one thread: that brings back more than letting "
                "waiting threads sleep (OMP_WAIT_POLICY=PASSIVE)."
            },
        ),
        growth=(Route(ByRelief(("passive",)), (Fact(_threads), Fact(_spins))),),
        level=(Route(ByRelief(("passive",)), (Fact(_threads), Fact(_spins))),),
    ),
    Cause(
        "too_many_threads",
        "More threads than small operators can use",
        "each process divides small pieces of work among several threads, and bringing them "
        "together costs more than they save",
        "One thread per operator brings time back that sleeping threads do not.",
        "torch.set_num_threads; CPU threading in PyTorch's notes",
        Remedy("Give each process one thread.", axes={"intra_op": 1}),
        growth=(Route(ByRelief(("one_thread",), beyond=("passive",)), (Fact(_threads),)),),
        level=(Route(ByRelief(("one_thread",), beyond=("passive",)), (Fact(_threads),)),),
    ),
    Cause(
        "cpuset",
        "A mask or cpuset smaller than the machine",
        "the processes may use only a part of this computer's processors",
        "Members outnumber the CPUs that they may use, but not those of the machine.",
        f"{SCHEDSTAT}; cpuset(7), taskset(1)",
        Remedy("Start the study with more CPUs allowed (cpuset, taskset, the whole node)."),
        growth=(
            Route(
                Account(
                    ("wait_cpuset_s_per_step",),
                    "waiting for a CPU that the whole machine would have had",
                    relieved=True,
                ),
                (Fact(_smaller),),
            ),
        ),
    ),
    Cause(
        "cpu_oversubscription",
        "More work than CPUs",
        "there is more work than processors, so the processes take turns",
        "Run-queue wait grows in proportion to members beyond the CPUs, or one member alone keeps "
        "several CPUs busy already; throughput stays what it is.",
        f"{SCHEDSTAT}; Documentation/scheduler/sched-eevdf.rst",
        Remedy(
            "Start fewer processes: as many as there are CPUs for their threads. More do not give "
            "more models per hour."
        ),
        growth=(
            Route(Fewer(), (Fact(_outnumber), Fact(_take_turns, "account"))),
            Route(Demand(), (Fact(_outnumber),)),
        ),
    ),
    Cause(
        "helper_threads",
        "Helper threads that compete for CPUs",
        "other threads and processes that each process starts take processor time from the "
        "training itself",
        "Run-queue wait grows although the training threads alone would fit; threads or child "
        "processes beside them use CPU time, and are not those of operators.",
        SCHEDSTAT,
        Remedy(
            "Start fewer loader workers and background threads, or fewer processes, so that all "
            "threads that work fit on the CPUs."
        ),
        growth=(
            Route(
                Account(
                    ("wait_threads_s_per_step",),
                    "waiting for a CPU that helper threads had",
                    relieved=True,
                ),
                (Fact(_helpers, "account"),),
            ),
        ),
        level=(
            Route(
                Account(("wait_threads_s_per_step",), "waiting for a CPU that helper threads had"),
                (Fact(_helpers, "account"),),
            ),
        ),
    ),
)
