"""The axes of a launch: the values each may have and what they mean.

This table is what a config may say. What a value does to a process is decided elsewhere; every
word here has one entry there.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scaling_study.common.problems import found, nearest_number, nearest_word, read_each, wrong
from scaling_study.common.topology import format_cpu_list, parse_cpu_list
from scaling_study.configuring.named_files import require_file

Value = str | int | tuple[str, ...]

# Far above any machine; a larger count is a slip of the keyboard.
MOST_THREADS = 4096
REQUIREMENTS_FOLDER = "envs"


@dataclass(frozen=True, slots=True)
class Others:
    """The values of an axis that are not words.

    Attributes:
        allowed: What they are, as shown to a person.
        read: Takes the value of the config and whether files must exist; returns None for what
            it does not understand, and raises ConfigError for what is nearly right.
    """

    allowed: str
    read: Callable[[object, bool], Value | None]


@dataclass(frozen=True, slots=True)
class Axis:
    """One thing that is fixed when a process starts.

    Attributes:
        meaning: One line for a person.
        words: Each word that is allowed, with its meaning; the first one is what a process gets
            where nothing is set.
        others: What is allowed beside the words.
        variables: Environment variables that belong to this axis, so no workload may set them.
    """

    meaning: str
    words: Mapping[str, str]
    others: Others | None = None
    variables: tuple[str, ...] = field(default=())

    @property
    def default(self) -> str:
        """The value where nothing is set."""
        return next(iter(self.words))

    @property
    def allowed(self) -> str:
        """All that is allowed, for a person."""
        return ", ".join([*self.words, *([self.others.allowed] if self.others else [])])


def _read_count(value: object, files: bool) -> int | None:  # noqa: ARG001 - one signature for all
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    if not 1 <= value <= MOST_THREADS:
        raise wrong(value, "is not allowed", COUNT.allowed)
    return value


def _read_library(value: object, files: bool) -> str | None:
    if not isinstance(value, str) or "/" not in value:
        return None
    if files:
        require_file(value, LIBRARY.allowed)
    return value


def _read_build(value: object, files: bool) -> str | None:
    if not isinstance(value, str) or ("/" not in value and not value.endswith(".txt")):
        return None
    if files:
        require_file(value, BUILD.allowed)
        if value.endswith(".txt"):
            if Path(value).parent.resolve() != Path(REQUIREMENTS_FOLDER).resolve():
                raise wrong(value, f"is not in {REQUIREMENTS_FOLDER}/", BUILD.allowed)
        elif not os.access(value, os.X_OK):
            raise wrong(value, "is not executable", BUILD.allowed)
    return value


def _read_id_list(value: object, allowed: str) -> str:
    number = isinstance(value, int) and not isinstance(value, bool)
    if not number and not isinstance(value, str):
        raise wrong(value, found(value), allowed)
    try:
        ids = parse_cpu_list(str(value))
    except ValueError:
        ids = ()
    if not ids:
        raise wrong(value, "is not a list of ids", allowed)
    return format_cpu_list(ids)


def _read_cpu_lists(value: object, files: bool) -> tuple[str, ...] | None:  # noqa: ARG001
    if not isinstance(value, list | tuple):
        return None
    if not value:
        raise wrong(value, "is empty", CPU_LISTS.allowed)
    return tuple(
        read_each(enumerate(value), lambda _, item: _read_id_list(item, CPU_LISTS.allowed))
    )


def _read_node_list(value: object, files: bool) -> str | None:  # noqa: ARG001
    number = isinstance(value, int) and not isinstance(value, bool)
    if not number and not (isinstance(value, str) and value[:1].isdigit()):
        return None
    return _read_id_list(value, NODE_LIST.allowed)


COUNT = Others(f"a whole number from 1 to {MOST_THREADS}", _read_count)
LIBRARY = Others("the path of a shared library (with a /)", _read_library)
BUILD = Others(
    f"the path of a Python interpreter or of a requirements file ({REQUIREMENTS_FOLDER}/*.txt)",
    _read_build,
)
CPU_LISTS = Others('a list with the CPUs of each slot, such as ["0-1", "2,3"]', _read_cpu_lists)
NODE_LIST = Others('a list of memory nodes in one text, such as "0" or "0-1"', _read_node_list)

# The order is fixed: it is the order in labels and in the names of launches.
AXES: Mapping[str, Axis] = {
    "build": Axis(
        "the Python environment that runs the script",
        {"default": "the environment of the study itself"},
        BUILD,
    ),
    "launcher": Axis(
        "how members are started",
        {
            "exec": "a fresh interpreter for each",
            "fork": "forked from one server that has imported torch",
            "dask": "workers of a Dask LocalCluster with Dask's own default environment",
        },
    ),
    "intra_op": Axis(
        "threads that one operator may use",
        {"default": "what torch chooses: as many as the process sees CPUs or cores"},
        COUNT,
        (
            "OMP_NUM_THREADS",
            "MKL_NUM_THREADS",
            "MKL_DYNAMIC",
            "OPENBLAS_NUM_THREADS",
            "GOTO_NUM_THREADS",
            "BLIS_NUM_THREADS",
        ),
    ),
    "inter_op": Axis(
        "threads for operators that run beside each other",
        {"default": "what torch chooses"},
        COUNT,
    ),
    "wait_policy": Axis(
        "what an OpenMP thread does while it waits",
        {
            "default": "what the OpenMP runtime chooses: it spins first",
            "passive": "it sleeps at once, under libgomp and under libiomp",
        },
        variables=("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY"),
    ),
    "blas": Axis(
        "the library that multiplies matrices (sgemm_)",
        {
            "bundled": "the one inside torch",
            "openblas": "OpenBLAS, preloaded",
            "blis": "BLIS, preloaded",
            "mkl": "MKL from PyPI, preloaded",
            "bundled-intel-path": "torch's own MKL, made to take its Intel kernels on any CPU "
            "(not supported by Intel)",
        },
        LIBRARY,
        ("LD_PRELOAD", "MKL_THREADING_LAYER"),
    ),
    "isa": Axis(
        "the vector instructions that ATen, oneDNN and BLAS may use",
        {
            "default": "all that the CPU has",
            "avx2": "at most AVX2",
            "avx512": "at most AVX-512",
        },
        variables=(
            "ATEN_CPU_CAPABILITY",
            "ONEDNN_MAX_CPU_ISA",
            "DNNL_MAX_CPU_ISA",
            "MKL_ENABLE_INSTRUCTIONS",
            "OPENBLAS_CORETYPE",
            "BLIS_ARCH_TYPE",
        ),
    ),
    "allocator": Axis(
        "the library that hands out memory",
        {
            "glibc": "the system's malloc",
            "glibc-large-thresholds": "the system's malloc, which keeps large blocks",
            "jemalloc": "jemalloc, preloaded",
            "tcmalloc": "tcmalloc, preloaded",
            "mimalloc": "mimalloc, preloaded",
        },
        LIBRARY,
        (
            "LD_PRELOAD",
            "MALLOC_TRIM_THRESHOLD_",
            "MALLOC_MMAP_THRESHOLD_",
            "MALLOC_MMAP_MAX_",
            "MALLOC_TOP_PAD_",
        ),
    ),
    "huge_pages": Axis(
        "whether malloc asks for transparent huge pages",
        {"default": "it does not ask", "always": "it asks for them (a tunable of glibc)"},
        variables=("GLIBC_TUNABLES",),
    ),
    "placement": Axis(
        "the CPUs that a slot is bound to",
        {
            "none": "not bound",
            "compact": "CPUs next to each other",
            "cores": "one physical core after the other, SMT siblings last",
            "spread": "round robin over sockets, memory nodes and L3 caches",
            "per_l3": "a whole L3 cache for each slot, in turn",
        },
        CPU_LISTS,
        ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"),
    ),
    "membind": Axis(
        "the memory nodes that a slot takes its memory from",
        {
            "none": "the kernel's policy: the node that touches first",
            "local": "only the nodes of the slot's CPUs",
            "interleave": "all nodes in turn, page by page",
        },
        NODE_LIST,
    ),
}

DEFAULTS: Mapping[str, Value] = {name: axis.default for name, axis in AXES.items()}


def read_value(name: str, value: object, *, files: bool) -> Value:
    """Read the value of an axis from a config.

    Args:
        name: A known axis.
        value: Whatever the config holds.
        files: Whether a path must exist.

    Raises:
        ConfigError: The value is not allowed.
    """
    axis = AXES[name]
    if isinstance(value, str) and value in axis.words:
        return value
    read = axis.others.read(value, files) if axis.others else None
    if read is not None:
        return read
    nearest = nearest_word(value, axis.words)
    if nearest is None and axis.others is COUNT:
        nearest = nearest_number(value)
    what = "is not a known word" if isinstance(value, str) else found(value)
    raise wrong(value, what, axis.allowed, nearest)
