"""Frames of a sampled stack: read, cleaned and classified.

py-spy writes a frame as ``name (file:line)``. Cleaned frames of two runs are equal even if
addresses, line numbers, template arguments and versions of libraries differ. The rules that
classify them are data in ``stack_rules``.
"""

import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from scaling_study.profiling import stack_rules
from scaling_study.profiling.stack_rules import Rule

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
            return _meaning(stack_rules.WAITS, frame)
    return ""


def phase_of(frames: Sequence[Frame]) -> str:
    """Return the phase of a stack, outermost frame first; ``""`` if it is unknown."""
    phases = (_meaning(stack_rules.PHASES, frame) for frame in reversed(frames))
    return next(filter(None, phases), "")


def is_asleep(frames: Sequence[Frame]) -> bool:
    """Return whether a stack is that of a member outside of its window."""
    return any(_meaning(stack_rules.ASLEEP, frame) for frame in frames)


def fold(frames: Sequence[Frame]) -> tuple[str, ...]:
    """Return the texts of a stack's frames, without noise and without consecutive repeats.

    The innermost frame always stays.
    """
    kept = [frame.text for frame in frames[:-1] if not _meaning(stack_rules.NOISE, frame)]
    kept += [frame.text for frame in frames[-1:]]
    return tuple(text for text, _ in itertools.groupby(kept))
