"""Frames of a sampled stack: read, cleaned and judged.

A frame comes as py-spy writes it, ``name (file:line)``. Cleaned, frames of two runs meet although
addresses, line numbers, template arguments and versions of libraries differ. The rules by which
they are judged are data in ``stack_rules``.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from scaling_study.profiling import stack_rules
from scaling_study.profiling.stack_rules import Frame

if TYPE_CHECKING:
    from collections.abc import Sequence

MEMO = 1 << 18
"""Distinct frames kept cleaned; a profile repeats a few thousand."""

_FRAME = re.compile(r"(?P<name>.*) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+|\?\?|<unknown>|unknown")
# The wheel's libgomp-24e2ab19.so.1.0.0 is libgomp.so: builds of different days compare.
_LIBRARY = re.compile(r"(?P<stem>lib[\w+.]+?)(?:-[0-9a-f]{6,})?\.so[.\d]*")
_EXTENSION = re.compile(r"(?P<stem>\w+)\.(?:cpython|abi)[\w-]*\.so")
_PYTHON_FILE = re.compile(r".*\.py|<.*>")
# Where a package or the standard library begins; of anything else the last folder says enough.
_INSTALLED = re.compile(r".*/(?:site-packages|dist-packages|python3\.\d+)/")
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
_OPENING = {"<": ">", "(": ")"}


@functools.lru_cache(maxsize=MEMO)
def read_frame(text: str) -> Frame:
    """Read and clean one frame of py-spy's raw format."""
    found = _FRAME.fullmatch(text)
    name, file = (found["name"], found["file"]) if found else (text, "")
    if _PYTHON_FILE.fullmatch(file):
        return Frame(shorten_qualified(name), shorten_path(file), python=True)
    file = file.rpartition("/")[2].strip("[]")  # [vdso] is a library too
    if library := _LIBRARY.fullmatch(file) or _EXTENSION.fullmatch(file):
        file = f"{library['stem']}.so"
    return Frame("" if _ADDRESS.fullmatch(name) else clean_name(name), file, python=False)


def shorten_path(path: str) -> str:
    """A Python file as one would import it: the same for every environment and machine."""
    short = _INSTALLED.sub("", path)
    return short if short != path else _LAST_FOLDER.sub("", path)


def shorten_qualified(name: str) -> str:
    """A qualified name with at most one of the functions that it is local to."""
    *outer, last = name.split(".<locals>.")
    return f"{outer[-1].rpartition('.')[2]}.{last}" if outer else name


def clean_name(name: str) -> str:
    """Shorten a C++ name to its path: no arguments, template arguments, return type or clone.

    ``void at::native::(anonymous namespace)::cpu_kernel<float>(at::Iter&)`` is
    ``at::native::cpu_kernel``.
    """
    if _LOOP.match(name):
        loops = [one for one in _LOOP_NAME.findall(name) if not _LOOP_MACHINERY.fullmatch(one)]
        if loops:
            return f"at::native::{loops[0]}::{{loop}}"
    name = _ISA.sub("", _CLONE.sub("", name).replace("(anonymous namespace)::", ""))
    kept: list[str] = []
    closing: list[str] = []
    at = 0
    while at < len(name):
        character = name[at]
        operator = _OPERATOR.match(name, at) if character == "o" else None
        if operator:
            if not closing:
                kept.append(operator[0])
            at = operator.end()
            continue
        if character in _OPENING:
            closing.append(_OPENING[character])
        elif closing and character == closing[-1]:
            closing.pop()
        elif not closing:
            kept.append(character)
        at += 1
    short = re.sub(r"\{lambda#\d+\}|'lambda\d*'", "{lambda}", "".join(kept)).strip()
    short = short.removesuffix(" const").strip()
    # A template's name has its return type in front; "operator bool" has a space of its own.
    head, space, tail = short.rpartition(" ")
    if space and "operator" not in head:
        short = tail
    return short or name


@functools.lru_cache(maxsize=MEMO)
def is_noise(frame: Frame) -> bool:
    """Whether a frame says nothing as long as another one follows it."""
    return any(rule.matches(frame) for rule in stack_rules.NOISE)


def wait_of(frames: Sequence[Frame]) -> str:
    """What a stack waits for, or ``""`` where it runs.

    The C library's own static functions have no names: whoever called them decides.
    """
    for frame in reversed(frames):
        if frame.name or frame.file != "libc.so":
            return _wait_of_frame(frame)
    return ""


@functools.lru_cache(maxsize=MEMO)
def _wait_of_frame(frame: Frame) -> str:
    return next((rule.meaning for rule in stack_rules.WAITS if rule.matches(frame)), "")


@functools.lru_cache(maxsize=MEMO)
def _phase_of_frame(frame: Frame) -> str:
    return next((rule.meaning for rule in stack_rules.PHASES if rule.matches(frame)), "")


@functools.lru_cache(maxsize=MEMO)
def is_asleep(frame: Frame) -> bool:
    """Whether the frame is that of a member outside of its window."""
    return stack_rules.ASLEEP.matches(frame)


@functools.lru_cache(maxsize=MEMO)
def is_blas_kernel(frame: Frame) -> bool:
    """Whether the frame is a function that multiplies matrices on a kind of CPU."""
    if frame.python or not stack_rules.BLAS_KERNEL.fullmatch(frame.name):
        return False
    return not stack_rules.BLAS_CALLER.fullmatch(frame.name)


def phase_of(frames: Sequence[Frame]) -> str:
    """The phase of a stack, outermost frame first; ``""`` where it is not known."""
    return next((phase for frame in reversed(frames) if (phase := _phase_of_frame(frame))), "")


def fold(frames: Sequence[Frame]) -> tuple[str, ...]:
    """The texts of a stack's frames without noise, and each once where it follows itself."""
    last = len(frames) - 1
    texts: list[str] = []
    for at, frame in enumerate(frames):
        if at != last and is_noise(frame):
            continue
        if not texts or texts[-1] != frame.text:
            texts.append(frame.text)
    return tuple(texts)
