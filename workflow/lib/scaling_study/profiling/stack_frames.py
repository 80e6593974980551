"""Frames of a sampled stack: read, cleaned and classified.

py-spy writes a frame as ``name (file:line)``. Cleaned frames of two runs are equal even if
addresses, line numbers, template arguments and versions of libraries differ. The rules that
classify them are data: waiting, phases, noise.
"""

import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

MEMO = 1 << 18
"""Frames that are cached; a profile has a few thousand distinct ones."""

_FRAME = re.compile(r"(?P<name>.*) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+|\?\?|<unknown>|unknown")
# The wheel's libgomp-24e2ab19.so.1.0.0 becomes libgomp.so, so that different builds compare equal.
_LIBRARY = re.compile(r"(?P<stem>lib[\w+.]+?)(?:-[0-9a-f]{6,})?\.so[.\d]*")
_EXTENSION = re.compile(r"(?P<stem>\w+)\.(?:cpython|abi)[\w-]*\.so")
_PYTHON_FILE = re.compile(r".*\.py|<.*>")
# The path before a package, this one or the standard library. Other paths keep the last folder.
_INSTALLED = re.compile(r".*/(?:site-packages|dist-packages|python3\.\d+|workflow/lib)/")
_LAST_FOLDER = re.compile(r"^/.*/(?=[^/]+/[^/]+$)")
# ATen's loops are callbacks of templates. The function that wrote the loop names the kernel.
_LOOP = re.compile(r"c10::function_ref<.*callback_fn")
_LOOP_NAME = re.compile(r"at::native::(?:\w+::|\(anonymous namespace\)::)*(\w+)(?=[<(])")
_LOOP_MACHINERY = re.compile(
    r"Vectorized\w*|loop_2d_from_1d|\w*Ops|(?:cpu|unary|binary)_\w*kernel\w*|cpu_kernel\w*"
)
_ISA = re.compile(r"\b(?:AVX2|AVX512|DEFAULT|SVE\w*|VSX|ZVECTOR)::")
# GCC's clones of one function: foo.constprop.0, foo [clone .isra.1], foo._omp_fn.0
_CLONE = re.compile(
    r"\s*\[clone [^\]]*\]|\.(?:constprop|isra|part|cold|lto_priv|_omp_fn)(?:\.\d+)*"
    r"|@@?[A-Z_]+[\d.]*$"
)
_OPERATOR = re.compile(r"operator\s*(<=>|<<=|>>=|<<|>>|<=|>=|->\*|->|<|>|\(\))")
_BRACKETS = re.compile(r"<[^<>()]*>|\([^<>()]*\)")
_UNCLOSED = re.compile(r"[<(].*")
_HIDDEN = str.maketrans("<>()", "\1\2\3\4")
_SHOWN = str.maketrans("\1\2\3\4", "<>()")


@dataclass(frozen=True, slots=True)
class Frame:
    """One cleaned frame.

    Attributes:
        name: the function's name, without arguments and template arguments; ``""`` where the
            sampler knew only an address.
        file: the Python file or the library, or ``""``.
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


@functools.lru_cache(maxsize=MEMO)
def read_frame(text: str) -> Frame:
    """Read and clean one frame of py-spy's raw format."""
    match = _FRAME.fullmatch(text)
    name, file = (match["name"], match["file"]) if match else (text, "")
    if _PYTHON_FILE.fullmatch(file):
        return Frame(shorten_qualified(name), shorten_path(file), python=True)
    file = file.rpartition("/")[2].strip("[]")  # [vdso] is a library too
    if library := _LIBRARY.fullmatch(file) or _EXTENSION.fullmatch(file):
        file = f"{library['stem']}.so"
    return Frame("" if _ADDRESS.fullmatch(name) else clean_name(name), file, python=False)


def shorten_path(path: str) -> str:
    """Return a Python file's path as an import would name it: the same in every environment."""
    short = _INSTALLED.sub("", path)
    return short if short != path else _LAST_FOLDER.sub("", path)


def shorten_qualified(name: str) -> str:
    """Return a qualified name with at most one of its enclosing functions."""
    *outer, last = name.split(".<locals>.")
    return f"{outer[-1].rpartition('.')[2]}.{last}" if outer else name


def clean_name(name: str) -> str:
    """Shorten a C++ name to its path: no arguments, template arguments, return type or clone.

    ``void at::native::(anonymous namespace)::cpu_kernel<float>(at::Iter&)`` becomes
    ``at::native::cpu_kernel``.
    """
    if _LOOP.match(name):
        loops = [loop for loop in _LOOP_NAME.findall(name) if not _LOOP_MACHINERY.fullmatch(loop)]
        if loops:
            return f"at::native::{loops[0]}::{{loop}}"
    name = _ISA.sub("", _CLONE.sub("", name).replace("(anonymous namespace)::", ""))
    # Names of operators hide their brackets while pairs are removed, the innermost first.
    left = _OPERATOR.sub(lambda match: match[0].translate(_HIDDEN), name)
    removed = 1
    while removed:
        left, removed = _BRACKETS.subn("", left)
    left = _UNCLOSED.sub("", left).translate(_SHOWN)
    short = re.sub(r"\{lambda#\d+\}|'lambda\d*'", "{lambda}", left).strip()
    short = short.removesuffix(" const").strip()
    # A template's name has its return type in front; "operator bool" has a space of its own.
    head, space, tail = short.rpartition(" ")
    if space and "operator" not in head:
        short = tail
    return short or name


# ---- classes of frames


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


@functools.lru_cache(maxsize=MEMO)
def _meaning(rules: tuple[Rule, ...], frame: Frame) -> str:
    """Return the meaning of the first rule that matches a frame; ``""`` if none does."""
    name = frame.name.rpartition(".")[2] if frame.python else frame.name
    for rule in rules:
        if re.fullmatch(rule.name, name) and re.fullmatch(rule.file, frame.file):
            return rule.meaning
    return ""


def wait_of(frames: Sequence[Frame]) -> str:
    """Return what a stack waits for, or ``""`` while it runs.

    The C library's own static functions have no names: the frame that called them decides.
    """
    for frame in reversed(frames):
        if frame.name or frame.file != "libc.so":
            return _meaning(WAITS, frame)
    return ""


def phase_of(frames: Sequence[Frame]) -> str:
    """Return the phase of a stack, outermost frame first; ``""`` if it is unknown."""
    phases = (_meaning(PHASES, frame) for frame in reversed(frames))
    return next(filter(None, phases), "")


def is_asleep(frames: Sequence[Frame]) -> bool:
    """Return whether a stack is that of a member outside of its window."""
    return any(_meaning(ASLEEP, frame) for frame in frames)


def fold(frames: Sequence[Frame]) -> tuple[str, ...]:
    """Return the texts of a stack's frames, without noise and without consecutive repeats.

    The innermost frame always stays.
    """
    kept = [frame.text for frame in frames[:-1] if not _meaning(NOISE, frame)]
    kept += [frame.text for frame in frames[-1:]]
    return tuple(text for text, _ in itertools.groupby(kept))
