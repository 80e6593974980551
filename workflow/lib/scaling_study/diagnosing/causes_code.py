"""Causes in what the script and its libraries do: kernels, numbers, loading, locks, interpreter."""

import numpy as np

from scaling_study.common.quantities import format_cpus, format_number, format_percent
from scaling_study.diagnosing.agreement import AnyOf, Attested, Fact, Waiting
from scaling_study.diagnosing.case import CACHED
from scaling_study.diagnosing.cause import Cause, Remedy, Route
from scaling_study.diagnosing.evidence import Asked
from scaling_study.diagnosing.measures import Account, Instead
from scaling_study.diagnosing.relief_share import ByRelief
from scaling_study.diagnosing.sampled import UNSEEN, kind_of

BLAS = ("bundled_blas", "openblas", "blis", "mkl", "intel_path", "isa_default")
LEAST = 0.05
"""What takes less of a step than this cannot be what makes it slow."""


def takes(column: str, title: str) -> Fact:
    """That a part of a step is long enough to matter."""

    def tell(asked: Asked) -> tuple[bool | None, str]:
        share = asked.case.mean(column, asked.n) / asked.case.mean("step_s", asked.n)
        if np.isnan(share):  # a file of an older version
            return None, f"How long {title} takes was not counted."
        return share >= LEAST, f"T{title[1:]} takes {format_percent(round(share, 2))} of a step."

    return Fact(tell, "account")


def _locked(asked: Asked) -> tuple[bool | None, str]:
    case, scope = asked.case, asked.scope
    one = case.sampled[case.n if scope == "growth" else 1]
    if not one.samples:
        return None, "Locks were not looked at."
    most = max(one.locks.items(), key=lambda item: item[1], default=None)
    if most is not None:
        return True, f"On average {format_number(most[1])} threads wait for the lock on {most[0]}."
    places = {on: syscall for (syscall, on) in one.calls if kind_of(syscall, on) == "lock"}
    found = ", ".join(f"{on or 'a file'} ({syscall})" for on, syscall in places.items())
    return bool(places), f"Waits for a lock on {found or 'nothing'}."


def _alone(asked: Asked) -> tuple[bool | None, str]:
    """Whether a futex can only be the interpreter's lock."""
    case = asked.case
    if case.demand > case.threads:
        return False, "The ranks of a group wait for what they exchange in a futex, too."
    return case.threads == 1, (
        "An operator has one thread, so that a futex is not the end of a parallel region."
        if case.threads == 1
        else "Operators have several threads, which wait for each other in a futex too."
    )


def _other_threads(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    n = asked.n
    ran = sum(
        case.mean(f"{kind}_s_per_step", n) - case.mean(f"trainer_{kind}_s_per_step", n)
        for kind in ("user", "system")
    )
    share = ran / case.mean("step_s", n)
    return bool(share >= LEAST) and not np.isnan(share), (
        f"Other threads of the member use {format_cpus(share)} CPUs."
    )


FASTER_MULTIPLY = AnyOf(
    (
        Attested("sgemm_gflops", "Speed of a multiply in GF/s"),
        Attested("isa", "Vector instructions", None),
    )
)
LOCKED = Account(("blocked_lock_s_per_step",), "waiting for a lock", missing=UNSEEN)
DEVICE = Account(("blocked_device_s_per_step",), "waiting for files or devices", missing=UNSEEN)
FUTEX = Account(("blocked_futex_s_per_step",), "waiting for another thread (futex)", missing=UNSEEN)
PAUSED = Account(
    ("idle_s_per_step",),
    "waiting for time to pass or for another process",
    cohort=CACHED,
    missing=UNSEEN,
)
LOADS = takes("load_s_per_step", "the loader")
LOADING = Instead(Account(("load_s_per_step",), "time in the loader"), (CACHED,))
COLLECTS = takes("collect_s_per_step", "the garbage collector")
COLLECTING = Instead(
    Account(("collect_s_per_step",), "time in Python's garbage collector"), ("no_collector",)
)

COMPILING = Account(
    ("compile_s_per_step",), "time in torch.compile's compiler", missing="it was not counted"
)

WAITS = (
    Cause(
        "lock_contention",
        "Processes that wait for the same lock",
        "the processes take turns at something that only one of them may use at a time",
        "Blocked time grows; training threads are found in flock or fcntl, in a futex in memory "
        "that processes share, or in a pause while another member holds a file's lock.",
        "flock(2), fcntl(2), futex(2); /proc/locks and /proc/PID/syscall in proc(5)",
        Remedy(
            "Give each process a file or lock of its own, or hold the lock for a shorter time.",
            command="cat /proc/locks",
            code="open a file per process: f'{path}.{os.getpid()}'",
        ),
        growth=(Route(LOCKED, (Waiting(("lock",), 0.1), Fact(_locked, "samples"))),),
        level=(Route(LOCKED, (Waiting(("lock",), 0.1), Fact(_locked, "samples"))),),
    ),
    Cause(
        "file_io",
        "Waiting for files",
        "the processes wait for the disk",
        "Blocked time; training threads are found in read, write or fsync on files, or in "
        "uninterruptible sleep.",
        "Documentation/accounting/psi.rst; /proc/PID/syscall in proc(5)",
        Remedy(
            "Keep the data in memory, or on a faster disk; write checkpoints and logs less often.",
            command="cat /proc/pressure/io",
        ),
        growth=(Route(DEVICE, (Waiting(("device",), 0.1),)),),
        level=(Route(DEVICE, (Waiting(("device",), 0.1),)),),
    ),
    Cause(
        "pauses",
        "A script that waits by itself",
        "the training script pauses, or waits for an answer of another program",
        "Blocked time outside of the loader; training threads are found in a sleep, or waiting for "
        "a pipe, a socket or a child process.",
        "nanosleep(2), poll(2), recv(2), wait4(2); /proc/PID/syscall in proc(5)",
        Remedy(
            "Look in the script for pauses, for what is tried again and again, and for services "
            "that are asked in every step; ask them for more at once, or in the background.",
            command="py-spy dump --pid PID  # of a member: the line that waits",
        ),
        growth=(Route(PAUSED, (Waiting(("sleep", "peer")),)),),
        level=(Route(PAUSED, (Waiting(("sleep", "peer")),)),),
    ),
)

WORK = (
    Cause(
        "slow_blas",
        "A slow BLAS kernel or instruction set",
        "matrices are multiplied with code made for an older processor",
        "One process is slow already, in user time; another library multiplies faster in the same "
        "process and brings the time back.",
        "OPENBLAS_VERBOSE, BLIS_ARCH_DEBUG and MKL_VERBOSE name the kernel",
        Remedy("Use the library or instruction set that multiplies faster here."),
        growth=(
            Route(
                ByRelief(BLAS, beyond=("one_thread", "passive")),
                (FASTER_MULTIPLY,),
            ),
        ),
        level=(
            Route(
                ByRelief(BLAS),
                (FASTER_MULTIPLY,),
            ),
        ),
    ),
    Cause(
        "denormals",
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
    ),
    Cause(
        "data_loading",
        "A loader that keeps training waiting",
        "the model waits for its next data",
        "A large part of a step is in the loader, and comes back when batches are taken from "
        "memory.",
        "torch.utils.data, num_workers; the loader's time in tables/points",
        Remedy(
            "Make the rows of a batch together (__getitems__), do less work for each sample, or "
            "keep what was made. Loader workers help only where CPUs are free; what they and "
            "prefetching gain on this script, the axes loader_workers and prefetch measure.",
        ),
        growth=(Route(ByRelief((CACHED,)), (LOADS,)),),
        level=(
            Route(ByRelief((CACHED,)), (LOADS,)),
            Route(LOADING),
        ),
    ),
    Cause(
        "compilation",
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
    ),
    Cause(
        "interpreter",
        "The interpreter: its collector and its lock",
        "the script's own language, Python, is busy tidying up or lets only one of its threads "
        "work at a time",
        "A large part of a step is in the garbage collector, and comes back without it; or the "
        "training thread waits in a futex while other threads of the member use CPU time.",
        "gc and threading in Python's documentation (global interpreter lock)",
        Remedy(
            "Collect less often, and keep other threads of the process from running Python.",
            code="gc.freeze(); gc.set_threshold(100_000, 50, 50)",
        ),
        growth=(
            Route(FUTEX, (Fact(_alone), Fact(_other_threads, "account"), Waiting(("futex",)))),
            Route(ByRelief(("no_collector",)), (COLLECTS,)),
        ),
        level=(
            Route(FUTEX, (Fact(_alone), Fact(_other_threads, "account"), Waiting(("futex",)))),
            Route(ByRelief(("no_collector",)), (COLLECTS,)),
            Route(COLLECTING),
        ),
    ),
)
