"""The script and its libraries: they wait, exchange, collect, compile, compute."""

import numpy as np

from scaling_study.common.quantities import format_cpus, format_number, format_seconds
from scaling_study.diagnosis.case import CACHED, Case
from scaling_study.diagnosis.cause import SCALING_LOSS, SINGLE_PROCESS_LOSS, Cause, Proof
from scaling_study.diagnosis.checks import any_of, other_threads_cpus, read_back, takes, waiting
from scaling_study.diagnosis.evidence import MOST, Evidence, Measured, Query, Untested
from scaling_study.diagnosis.shares import Counted, Recovered, recovered_share, share_of
from scaling_study.diagnosis.waits import kind_of
from scaling_study.stats.thresholds import SHARE_AT_LEAST

BLAS = ("bundled_blas", "openblas", "blis", "mkl", "intel_path", "isa_default")
FASTER_MULTIPLY = any_of(
    read_back("sgemm_gflops", "Speed of a multiply in GF/s"),
    read_back("isa", "Vector instructions"),
)
CLEARED = "cleared"
COLLECTING = Counted(
    ("collect_s_per_step",), "time in Python's garbage collector", untested=("no_gc",)
)


def _locked(query: Query) -> Evidence:
    sampled = query.case.sampled[query.n]
    if not sampled.samples:
        return Evidence(None, "samples", "Locks were not looked at.")
    most = max(sampled.locks.items(), key=lambda item: item[1], default=None)
    if most is not None:
        text = f"On average {format_number(most[1])} threads wait for the lock on {most[0]}."
        return Evidence(True, "samples", text)
    places = {on: syscall for (syscall, on) in sampled.calls if kind_of(syscall, on) == "lock"}
    locks = ", ".join(f"{on or 'a file'} ({syscall})" for on, syscall in places.items())
    return Evidence(bool(places), "samples", f"Waits for a lock on {locks or 'nothing'}.")


def _interpreter_alone(query: Query) -> Evidence:
    """Check that a thread in a futex can only wait for the interpreter's lock."""
    case = query.case
    if case.demand > case.threads:
        text = "The ranks of a group wait for what they exchange in a futex, too."
        return Evidence(False, "fact", text)
    if case.threads > 1:
        text = "Operators have several threads, which wait for each other in a futex too."
        return Evidence(False, "fact", text)
    text = "An operator has one thread, so that a futex is not the end of a parallel region."
    return Evidence(True, "fact", text)


def _not_the_loader(query: Query) -> Evidence:
    if "loader_lock" in query.named:
        return Evidence(False, "fact", "The threads that keep it waiting are the loader's.")
    return Evidence(True, "fact", "No thread of a loader was found to keep it waiting.")


def _other_threads(query: Query) -> Evidence:
    share = other_threads_cpus(query)
    text = f"Other threads of the member use {format_cpus(share)} CPUs."
    return Evidence(share >= SHARE_AT_LEAST, "account", text)


def _unnamed(query: Query) -> Evidence:
    """Check that named causes take less than half of what the cleared variables recover."""
    if not query.case.measured(CLEARED, query.scope):
        return Evidence(True, "fact", "")
    back = recovered_share(query.case, query.scope, CLEARED)
    known = sum(measured.estimate.value for measured in query.named.values())
    text = "The causes that are named take most of what is recovered without it."
    return Evidence(back is None or known < MOST * back.value, "fact", text)


def operator_calls(query: Query) -> Measured | Untested:
    """Return the time that the calls of a step's operators take, whatever they compute."""
    calls, step = query.case.calls, query.case.step(1)
    if calls is None:
        return Untested("the cost of an operator's call was not measured")
    text = (
        f"A step calls {format_number(calls.calls_per_step)} operators. A call with nothing to"
        f" compute takes {format_seconds(calls.call_s)} here: {{share}} of the step of one process."
    )
    over = np.minimum(calls.calls_per_step * calls.call_s / step, 1.0)
    return share_of(query, over, text, "microbenchmarks")


def stack_gains(case: Case) -> str:
    """Return what training several models as one gives here; empty where that is not known."""
    if case.calls is None or not case.calls.stacks:
        return ""
    gains = " and ".join(
        f"{models} models {gain:.1f} times" for models, gain in case.calls.stacks.items()
    )
    return (
        f"Trained as one, {gains} as many steps per second as one at a time, with layers of"
        f" {case.calls.width} units, whose multiplies are as large as those here on average."
    )


def _stacks_gain(query: Query) -> Evidence:
    calls, text = query.case.calls, stack_gains(query.case)
    if calls is None or not text:
        return Evidence(None, "microbenchmarks", "It multiplies no matrices.")
    return Evidence(max(calls.stacks.values()) > 1, "microbenchmarks", text)


CAUSES = {
    "operator_calls": Cause(
        "Calls of operators on few numbers",
        "torch.func.stack_module_state, Model ensembling in PyTorch's tutorials",
        "Train several models as one in a process (docs/tiny-models.md), or take larger batches: "
        "no launch makes calls cheaper.",
        gain=stack_gains,
        share=operator_calls,
        requires=(_stacks_gain,),
        scopes=SINGLE_PROCESS_LOSS,
    ),
    "communication": Cause(
        "Ranks that exchange their gradients",
        "torch.nn.parallel.DistributedDataParallel, communication hooks",
        "Use fewer ranks, or let a rank do more between two exchanges: a larger batch, or "
        "several batches under no_sync(). Both change training; a parameter of the study can "
        "measure the gain of a larger batch.",
        interventions=("one_element",),
        requires=(
            takes("backward_s_per_step", "the backward pass, in which gradients are exchanged,"),
        ),
    ),
    "imbalance": Cause(
        "Ranks that wait for the slowest of them",
        "Getting Started with Distributed Data Parallel, skewed processing speeds",
        "Give each rank the same work: batches of like lengths (a DistributedSampler over "
        "sorted or bucketed samples), and no extra work for one of them.",
        counted=Counted(
            ("ranks_wait_s_per_step",), "waiting of the ranks for the slowest of them, on average"
        ),
    ),
    "lock_contention": Cause(
        "Processes that wait for the same lock",
        "flock(2), fcntl(2), futex(2); /proc/locks and /proc/PID/syscall in proc(5)",
        "Give each process a file or lock of its own, or hold the lock for a shorter time.",
        command="cat /proc/locks",
        code="open a file per process: f'{path}.{os.getpid()}'",
        counted=Counted(("blocked_lock_s_per_step",), "waiting for a lock"),
        requires=(waiting("lock"), _locked),
    ),
    "file_io": Cause(
        "Waiting for files",
        "Documentation/accounting/psi.rst; /proc/PID/syscall in proc(5)",
        "Keep the data in memory, or on a faster disk; write checkpoints and logs less often.",
        command="cat /proc/pressure/io",
        counted=Counted(("blocked_device_s_per_step",), "waiting for files or devices"),
        requires=(waiting("device"),),
    ),
    "pauses": Cause(
        "A script that waits by itself",
        "nanosleep(2), poll(2), recv(2), wait4(2); /proc/PID/syscall in proc(5)",
        "Look in the script for pauses, retries, and requests to services in every step; request "
        "more at once, or in the background.",
        command="py-spy dump --pid PID  # of a member: the line that waits",
        counted=Counted(
            ("idle_s_per_step",), "waiting for time to pass or for another process", cohort=CACHED
        ),
        requires=(waiting("sleep", "peer", share=0.2),),
    ),
    "slow_blas": Cause(
        "A slow BLAS kernel or instruction set",
        "OPENBLAS_VERBOSE, BLIS_ARCH_DEBUG and MKL_VERBOSE name the kernel",
        "Use the library or instruction set that multiplies faster here.",
        others=(
            Proof(
                Recovered(BLAS, ("one_thread", "passive")), (FASTER_MULTIPLY,), scopes=SCALING_LOSS
            ),
            Proof(Recovered(BLAS), (FASTER_MULTIPLY,), scopes=SINGLE_PROCESS_LOSS),
        ),
    ),
    "denormals": Cause(
        "Denormal numbers",
        "pytorch/pytorch#21734; Intel 64 and IA-32 Software Developer's Manual, MXCSR",
        "Flush denormals to zero at the start of the script.",
        code="torch.set_flush_denormal(True)",
        interventions=("flush_denormals",),
    ),
    "compilation": Cause(
        "Recompilation for new shapes",
        "torch.compile troubleshooting, recompilations; TORCH_LOGS=recompiles says what changed",
        "Compile once for all shapes, or let batches have few of them: pad or bucket sequences, "
        "and drop the last, smaller batch.",
        code="torch.compile(model, dynamic=True)",
        counted=Counted(
            ("compile_s_per_step",),
            "time in torch.compile's compiler",
            missing="it was not counted",
        ),
    ),
    "interpreter": Cause(
        "The interpreter: its collector and its lock",
        "gc and threading in Python's documentation (global interpreter lock)",
        "Collect less often, and keep other threads of the process from running Python.",
        code="gc.freeze(); gc.set_threshold(100_000, 50, 50)",
        interventions=("no_gc",),
        requires=(takes("collect_s_per_step", "the garbage collector"),),
        others=(
            Proof(COLLECTING, scopes=SINGLE_PROCESS_LOSS),
            Proof(
                Counted(("blocked_futex_s_per_step",), "waiting for another thread (futex)"),
                (_interpreter_alone, _other_threads, waiting("futex", share=0.2)),
                (_not_the_loader,),
            ),
        ),
    ),
    "shell": Cause(
        "Settings of the shell",
        "OpenMP API specification, Environment Variables; mallopt(3); the libraries' manuals",
        "Start the processes without these settings, as recommended.sh does.",
        interventions=(CLEARED,),
        needs=(_unnamed,),
    ),
}
