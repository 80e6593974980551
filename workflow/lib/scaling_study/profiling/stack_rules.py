"""Rules on frames of a sampled stack, as data: waiting, phases, noise."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)  # hashed often, by identity
class Rule:
    """A pattern of frames that mean the same.

    Attributes:
        meaning: what a match means, in words.
        name: pattern of the whole name; for a Python function, of the name without its class.
        file: pattern of the whole file, as cleaned.
    """

    meaning: str
    name: str = r".*"
    file: str = r".*"


_OPENMP = r"lib(?:gomp|iomp5|omp)\.so"
_HARNESS = r"(?:.*/)?scaling_study/(?:(?:member|launch/\w+)/\w+|__init__)\.py"
_NO_PYTHON = r"(?!.*\.py$).*"

WAITS = (
    # A runtime's innermost frame is its barrier or its pool: the work itself is a frame of another
    # library. A stack does not show whether the thread spins or sleeps there. The second rule is
    # for a runtime that is linked statically.
    Rule("for OpenMP threads", file=_OPENMP),
    Rule("for OpenMP threads", r"__kmp_\w+|gomp_\w+"),
    # The thread yields its CPU and tries again.
    Rule("for a turn", r"(?:__)?sched_yield"),
    # The thread sleeps in the kernel until another one wakes it (futex(2)).
    Rule(
        "for a lock or a thread",
        r"_*(?:pthread_(?:cond_(?:timed|clock)?wait|mutex_lock|join|clockjoin_ex|rwlock_\w*lock)"
        r"|lll_(?:mutex_)?lock_wait\w*|futex_\w+|GI___futex_\w+|new_sem_(?:wait|timedwait)\w*"
        r"|sem_\w*wait|do_futex_wait\w*|pthread_\w+_(?:wait|lock)\w*|syscall)(?:\.\w+)*",
        r"(?:libc|libpthread)\.so|.*\.[ch]|",
    ),
    # The same, where only Python frames are known. The next rule is for locks of Python itself, the
    # global one included.
    Rule(
        "for a lock or a thread",
        r"wait|acquire|join|_wait_for_tstate_lock|get",
        r"(?:.*/)?(?:threading|queue|concurrent/futures/\w+|tqdm/_monitor)\.py",
    ),
    Rule("for a lock or a thread", r"PyThread_acquire_lock_timed|take_gil"),
    # sleep(3), and time.sleep of Python
    Rule("in sleep", r"_*(?:clock_)?(?:GI___)?(?:clock_)?nanosleep\w*|u?sleep|time_sleep|pysleep"),
    # A system call that waits for a pipe, a socket, a file or a child.
    Rule(
        "for input or output",
        r"_*(?:GI___|libc_)?(?:p?poll|p?select|epoll_p?wait|read|pread64|write|recv|recvfrom"
        r"|recvmsg|send|sendmsg|accept4?|connect|wait4|waitpid|waitid|fsync|select_poll_poll)\w*",
        r"(?:libc|libpthread)\.so|.*\.c|select|",
    ),
    # The same, where only Python frames are known.
    Rule(
        "for input or output",
        r"_recv|_send|_poll|poll|wait|select|recv_bytes|_recv_bytes|accept",
        r"(?:.*/)?(?:multiprocessing/(?:connection|popen_fork)|selectors|socket)\.py",
    ),
)
"""Innermost frames of a thread that waits. The first rule that matches names what it waits for."""

PHASES = (
    Rule("load", file=r"(?:.*/)?torch/utils/data/.+\.py"),
    Rule("backward", r"torch::autograd::(?:python::Python)?Engine::.*"),
    Rule("backward", file=r"(?:.*/)?torch/(?:autograd/(?:__init__|graph)|_tensor)\.py"),
    # The harness takes a closure's time out of the optimizer's.
    Rule("forward", r"timed_closure", _HARNESS),
    Rule("forward", r"_call_impl|_wrapped_call_impl", r"(?:.*/)?torch/nn/modules/module\.py"),
    Rule("optimizer", file=r"(?:.*/)?torch/optim/.+\.py"),
)
"""Phases of a step: the innermost frame that any rule matches decides."""

ASLEEP = (Rule("asleep", r"park|_read_back", _HARNESS),)
"""Frames of a member outside of its window, which does not train."""

NOISE = (
    Rule("harness", file=_HARNESS + r"|(?:.*/)?(?:<frozen runpy>|runpy\.py)"),
    # torch calls a module's forward or a decorated function, whose own frame follows.
    Rule(
        "call",
        r"_wrapped_call_impl|_call_impl|decorate_context",
        r"(?:.*/)?torch/(?:nn/modules/module|utils/_contextlib)\.py",
    ),
    # Static functions of the C library have no name. The next rule is for the frames with which
    # every process or thread begins.
    Rule("start", r"", r"libc\.so|ld-linux.*"),
    Rule(
        "start",
        r"_start|main|__libc_start\w*|Py_(?:BytesMain|RunMain|Main)|pymain_\w+|clone3?|__clone3?"
        r"|start_thread|_?_?(?:thread|process)_?start|thread_run|pythread_wrapper|execute_native_thread_routine",
        _NO_PYTHON,
    ),
    # CPython's own frames in a call of a function, whose Python frame is there.
    Rule(
        "interpreter",
        r"_?Py(?:Object|Eval|Function|CFunction|Vectorcall|Run|Import|Method)_\w+|_PyEval\w*"
        r"|c?function_(?:call|vectorcall)\w*|cfunction_\w+|method(?:descr)?_(?:vector)?call\w*"
        r"|slot_\w+|wrap_\w+|type_call|object_vacall|vectorcall_\w+|partial_\w+|run_mod|run_eval\w*"
        r"|builtin_exec|property_descr_get|do_call_core|tp_new_wrapper",
        _NO_PYTHON,
    ),
    # torch's dispatcher and C++ wrappers, between a function and its kernel.
    Rule(
        "dispatch",
        r"c10::(?:impl|detail|Dispatcher|KernelFunction|OperatorHandle|TypedOperatorHandle|BoxedKernel"
        r"|guts)\b.*|c10::function_ref::.*|at::_ops::\w+::redispatch|at::redispatch::.*"
        r"|at::(?:functionalization::)?wrapper_\w+|std::(?:__)?(?:function|_Function_handler|invoke\w*"
        r"|apply\w*|_Function_base)\b.*|.*::_(?:M_invoke|FUN|M_run)\b.*",
    ),
)
"""Frames to leave out, unless they are innermost: then time is spent in them."""
