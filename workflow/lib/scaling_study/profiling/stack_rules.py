"""What frames of a sampled stack mean, as data: waiting, a phase, noise, a BLAS kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """One cleaned frame.

    Attributes:
        name: of the function, without arguments and template arguments; ``""`` where the sampler
            knew only an address.
        file: of the Python file or the library, or ``""``.
        python: whether it is a Python function.
    """

    name: str
    file: str
    python: bool

    @property
    def text(self) -> str:
        """The frame as it is shown: ``name (file)``, or ``[library]`` where there is no name."""
        if not self.name:
            return f"[{self.file or 'unknown'}]"
        return f"{self.name} ({self.file})" if self.file else self.name


@dataclass(frozen=True, slots=True)
class Rule:
    """What frames of a name, in a file, mean.

    Attributes:
        meaning: what a match is called.
        name: pattern of the whole name; of a Python function without its class.
        file: pattern of the whole file, as cleaned.
        reason: why it is so.
    """

    meaning: str
    name: str
    file: str
    reason: str

    def matches(self, frame: Frame) -> bool:
        """Whether the rule is about this frame."""
        return bool(
            re.fullmatch(self.name, frame.name.rpartition(".")[2] if frame.python else frame.name)
            and re.fullmatch(self.file, frame.file)
        )


_ANY = r".*"
_OPENMP = r"lib(?:gomp|iomp5|omp)\.so"
_HARNESS = r"(?:.*/)?scaling_study/(?:(?:member|launchers|axes)/\w+|__init__)\.py"

WAITS = (
    Rule(
        "for OpenMP threads",
        _ANY,
        _OPENMP,
        "a runtime's innermost frame is its barrier or its pool: the work itself is a frame of "
        "another library. Whether it spins or sleeps there, a stack cannot tell",
    ),
    Rule("for OpenMP threads", r"__kmp_\w+|gomp_\w+", _ANY, "the same, linked statically"),
    Rule("for a turn", r"(?:__)?sched_yield", _ANY, "gives the CPU away and asks again"),
    Rule(
        "for a lock or a thread",
        r"_*(?:pthread_(?:cond_(?:timed|clock)?wait|mutex_lock|join|clockjoin_ex|rwlock_\w*lock)"
        r"|lll_(?:mutex_)?lock_wait\w*|futex_\w+|GI___futex_\w+|new_sem_(?:wait|timedwait)\w*"
        r"|sem_\w*wait|do_futex_wait\w*|pthread_\w+_(?:wait|lock)\w*|syscall)(?:\.\w+)*",
        r"(?:libc|libpthread)\.so|.*\.[ch]|",
        "sleeps in the kernel until another thread wakes it (futex(2))",
    ),
    Rule(
        "for a lock or a thread",
        r"wait|acquire|join|_wait_for_tstate_lock|get",
        r"(?:.*/)?(?:threading|queue|concurrent/futures/\w+|tqdm/_monitor)\.py",
        "the same, where only Python frames are known",
    ),
    Rule(
        "for a lock or a thread",
        r"PyThread_acquire_lock_timed|take_gil",
        _ANY,
        "a lock of Python's, or its global one",
    ),
    Rule("in sleep", r"_*(?:clock_)?(?:GI___)?(?:clock_)?nanosleep\w*|u?sleep", _ANY, "sleep(3)"),
    Rule("in sleep", r"time_sleep|pysleep", _ANY, "time.sleep of Python"),
    Rule(
        "for input or output",
        r"_*(?:GI___|libc_)?(?:p?poll|p?select|epoll_p?wait|read|pread64|write|recv|recvfrom"
        r"|recvmsg|send|sendmsg|accept4?|connect|wait4|waitpid|waitid|fsync|select_poll_poll)\w*",
        r"(?:libc|libpthread)\.so|.*\.c|select|",
        "a system call that waits for a pipe, a socket, a file or a child",
    ),
    Rule(
        "for input or output",
        r"_recv|_send|_poll|poll|wait|select|recv_bytes|_recv_bytes|accept",
        r"(?:.*/)?(?:multiprocessing/(?:connection|popen_fork)|selectors|socket)\.py",
        "the same, where only Python frames are known",
    ),
)
"""Innermost frames of a thread that waits. The first rule that matches names what for."""

PHASES = (
    Rule("load", r"loads", _HARNESS, "the harness times a loader's iterator as load"),
    Rule("load", _ANY, r"(?:.*/)?torch/utils/data/.+\.py", "torch's data loader"),
    Rule("backward", r"backward", _HARNESS, "the harness times torch.autograd.backward"),
    Rule("backward", r"torch::autograd::(?:python::Python)?Engine::.*", _ANY, "autograd's engine"),
    Rule(
        "backward", _ANY, r"(?:.*/)?torch/(?:autograd/(?:__init__|graph)|_tensor)\.py", "Python's"
    ),
    Rule("forward", r"timed", _HARNESS, "a closure's time is taken out of the optimizer's"),
    Rule(
        "forward",
        r"_call_impl|_wrapped_call_impl",
        r"(?:.*/)?torch/nn/modules/module\.py",
        "a module is called",
    ),
    Rule("optimizer", _ANY, r"(?:.*/)?torch/optim/.+\.py", "the optimizer's step or zero_grad"),
)
"""What a stack belongs to: the innermost frame that any rule matches decides."""

ASLEEP = Rule(
    "asleep", r"park|_read_back", _HARNESS, "a member outside of its window trains nothing"
)

NOISE = (
    Rule("harness", _ANY, _HARNESS, "how the script was started, and the timing of its phases"),
    Rule("harness", _ANY, r"(?:.*/)?<frozen runpy>|(?:.*/)?runpy\.py", "as above"),
    Rule(
        "call",
        r"_wrapped_call_impl|_call_impl|decorate_context",
        r"(?:.*/)?torch/(?:nn/modules/module|utils/_contextlib)\.py",
        "how torch calls a module's forward and a decorated function, which follow",
    ),
    Rule("start", r"", r"libc\.so|ld-linux.*", "a static function of the C library"),
    Rule(
        "start",
        r"_start|main|__libc_start\w*|Py_(?:BytesMain|RunMain|Main)|pymain_\w+|clone3?|__clone3?"
        r"|start_thread|_?_?(?:thread|process)_?start|thread_run|pythread_wrapper|execute_native_thread_routine",
        r"(?!.*\.py$).*",
        "how every process or thread begins",
    ),
    Rule(
        "interpreter",
        r"_?Py(?:Object|Eval|Function|CFunction|Vectorcall|Run|Import|Method)_\w+|_PyEval\w*"
        r"|c?function_(?:call|vectorcall)\w*|cfunction_\w+|method(?:descr)?_(?:vector)?call\w*"
        r"|slot_\w+|wrap_\w+|type_call|object_vacall|vectorcall_\w+|partial_\w+|run_mod|run_eval\w*"
        r"|builtin_exec|property_descr_get|do_call_core|tp_new_wrapper",
        r"(?!.*\.py$).*",
        "how CPython calls a function; its Python frame is there",
    ),
    Rule(
        "dispatch",
        r"c10::(?:impl|detail|Dispatcher|KernelFunction|OperatorHandle|TypedOperatorHandle|BoxedKernel"
        r"|guts)\b.*|c10::function_ref::.*|at::_ops::\w+::redispatch|at::redispatch::.*"
        r"|at::(?:functionalization::)?wrapper_\w+|std::(?:__)?(?:function|_Function_handler|invoke\w*"
        r"|apply\w*|_Function_base)\b.*|.*::_(?:M_invoke|FUN|M_run)\b.*",
        _ANY,
        "torch's dispatcher and C++ wrappers between a function and its kernel",
    ),
)
"""Frames to leave out, unless they are innermost: then time is spent in them."""

BLAS_KERNEL = re.compile(
    r"(?!at::|c10::|torch::|caffe2::|dnnl::)\w*(?:sgemm|sgemv|gemm_|gemmsup)\w*", re.IGNORECASE
)
"""Functions of MKL (``mkl_blas_def_sgemm_kernel_0_zen``, ``sgemm_bdz``), OpenBLAS
(``sgemm_kernel_SKYLAKEX``) and BLIS (``bli_sgemm_haswell_asm_6x16``)."""
BLAS_CALLER = re.compile(
    r"(?:cblas_|mkl_blas_|mkl_)?[sd]?gem[mv](?:_batch|_strided)*(?:_64)?_?|\w*(?:driver|thread|omp_)\w*"
    r"|bli_\w*gemm\w*_(?:front|int|ex|blk_var\d|ker_var\d|cntl\w*)",
    re.IGNORECASE,
)
"""Of these, interfaces and those that share the work out: the same for every CPU."""
