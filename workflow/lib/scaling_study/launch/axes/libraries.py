"""Axes of the libraries that multiply matrices and allocate memory."""

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Never

from scaling_study.common.axis_values import Axes, Value
from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes.axis import (
    LIBRARY,
    Axis,
    Effects,
    Library,
    Where,
    is_named,
    is_preloaded,
    preload,
    preloaded,
)
from scaling_study.launch.axes.launcher import LAUNCHERS
from scaling_study.records import window
from scaling_study.records.readback import Readback

# ---- blas

BLAS = {
    # The OpenMP builds come first: they share torch's pool of OpenMP threads, and the pthread
    # builds add a second pool. But the OpenMP runtime that they are linked to becomes torch's.
    "openblas": Library(
        patterns=(
            *("openblas-openmp/libopenblas.so.[0-9]*", "libopenblaso.so.[0-9]*"),
            *("openblas-pthread/libopenblas.so.[0-9]*", "libopenblasp.so.[0-9]*"),
            "libopenblas.so.[0-9]*",
        ),
        install="apt install libopenblas0-openmp",
    ),
    "blis": Library(
        patterns=(
            *("blis-openmp/libblis.so.[0-9]*", "libblis-mt.so.[0-9]*"),
            *("blis-pthread/libblis.so.[0-9]*", "libblis.so.[0-9]*"),
        ),
        install="apt install libblis4-openmp",
    ),
    "mkl": Library(patterns=("libmkl_rt.so.[0-9]*",), install="pip install mkl"),
}

INTEL_PATH = "bundled-intel-path"
INSTALL_COMPILER = "apt install gcc libc6-dev (a one-line library has to be compiled)"


def intel_path_library(folder: Path, machine: str) -> str:
    """Return the library that makes MKL take its Intel kernels, compiled once for each machine.

    Jobs that compile it at the same time do so in separate folders. A member never sees half a
    file, nor one that changes while it is mapped.

    Args:
        folder: the folder of the libraries of all machines.
        machine: the machine's hash.

    Raises:
        UnavailableError: there is no C compiler, or it failed.
    """
    source = Path(__file__).with_name("intel_path.c")
    version = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    path = folder / f"libintel_path-{machine}-{version}.so"
    if path.exists():
        return str(path)
    compiler = shutil.which("cc")
    if compiler is None:
        raise UnavailableError("there is no C compiler (cc)", INSTALL_COMPILER)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".intel_path-", dir=folder) as own:
        made = Path(own) / path.name
        command = [compiler, "-shared", "-fPIC", "-o", str(made), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = "".join(done.stderr.strip().splitlines()[-1:])
            raise UnavailableError(f"{compiler} failed: {last}", INSTALL_COMPILER)
        made.replace(path)
    return str(path)


def _prepare_blas(value: str, where: Where) -> Effects:
    if value in {"mkl", INTEL_PATH} and not where.machine.is_x86:
        raise UnavailableError("MKL is a library for x86", "set blas to openblas")
    if value == INTEL_PATH:
        if where.builds is None:
            raise UnavailableError("the library is not compiled here", INSTALL_COMPILER)
        return preloaded(intel_path_library(where.builds, where.machine.hash))
    # mkl_rt chooses its threading layer at run time. GNU is the OpenMP runtime that torch has
    # already loaded; the default would add Intel's.
    layer = {"MKL_THREADING_LAYER": "GNU"} if value == "mkl" else {}
    return Effects(layer) | preload(value, where.machine, BLAS)


def _effective_blas(_value: Value, readback: Readback) -> str:
    kernel = readback.sgemm_kernel or "kernel unknown"
    return f"{readback.sgemm} ({kernel}, {readback.sgemm_gflops:.0f} GF/s)"


def _holds_blas(value: str, readback: Readback, _slot: window.Slot) -> bool:
    multiplies = is_preloaded(readback.sgemm, readback)
    chooses = is_preloaded(readback.intel_path, readback)
    if value == "bundled":
        return not multiplies and not chooses
    if value == INTEL_PATH:
        return chooses and not multiplies
    return multiplies and is_named(value, readback.sgemm)


# ---- isa

VARIABLES = (
    *("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "OPENBLAS_CORETYPE", "BLIS_ARCH_TYPE"),
    "MKL_ENABLE_INSTRUCTIONS",
)
"""Variables that limit the instruction set of each library. ATen and oneDNN obey on every CPU.
OpenBLAS and BLIS take the kernel of a CPU that has the set; MKL obeys on Intel's CPUs only."""


ISAS = {
    "avx2": ("avx2", "AVX2", "Haswell", "haswell", "AVX2"),
    "avx512": ("avx512", "AVX512_CORE", "SkylakeX", "skx", "AVX512"),
}
"""The values of these variables for each instruction set, in their order."""
FLAGS = {"avx2": ("avx2", "fma"), "avx512": ("avx512f", "avx512dq", "avx512bw", "avx512vl")}
"""The flags of a CPU that has an instruction set."""


def _prepare_isa(value: str, where: Where) -> Effects:
    missing = [flag for flag in FLAGS[value] if flag not in where.machine.isa]
    if missing:
        raise UnavailableError(
            f"this CPU has no {', '.join(missing)}", f"leave isa {value} to a machine that has it"
        )
    return Effects(dict(zip(VARIABLES, ISAS[value], strict=True)))


# ---- allocator

ALLOCATORS = {
    "jemalloc": Library(patterns=("libjemalloc.so.[0-9]*",), install="apt install libjemalloc2"),
    # The minimal build has no heap profiler, whose hooks cost time.
    "tcmalloc": Library(
        patterns=("libtcmalloc_minimal.so.[0-9]*", "libtcmalloc.so.[0-9]*"),
        install="apt install libtcmalloc-minimal4",
    ),
    "mimalloc": Library(patterns=("libmimalloc.so.[0-9]*",), install="pip install cmeel-mimalloc"),
}

LARGE_THRESHOLDS = {
    # glibc refuses more than half of its largest heap, 32 MiB on 64 bits (mallopt(3)).
    "MALLOC_MMAP_THRESHOLD_": str(32 * 1024**2),
    # Any value above the memory that a step frees keeps malloc from returning it to the kernel.
    "MALLOC_TRIM_THRESHOLD_": str(4 * 1024**3),
}

# The settings of PyTorch's tuning guide, which torch.backends.xeon.run_cpu sets too. Memory goes
# back to the kernel after this many milliseconds, which is longer than any run.
JEMALLOC_DECAY_MS = 9_000_000_000
JEMALLOC = {
    "MALLOC_CONF": "oversize_threshold:1,background_thread:true,metadata_thp:auto,"
    f"dirty_decay_ms:{JEMALLOC_DECAY_MS},muzzy_decay_ms:{JEMALLOC_DECAY_MS}"
}

# The name of glibc's file; it holds the version before glibc 2.34.
_GLIBC = re.compile(r"libc[.-]")


def _prepare_allocator(value: str, where: Where) -> Effects:
    if value == "glibc-large-thresholds":
        return Effects(LARGE_THRESHOLDS)
    tuned = Effects(JEMALLOC if value == "jemalloc" else {})
    return preload(value, where.machine, ALLOCATORS) | tuned


def _thresholds(env: Mapping[str, str]) -> dict[str, str]:
    return {name: env[name] for name in LARGE_THRESHOLDS if name in env}


def _effective_allocator(_value: Value, readback: Readback) -> str:
    found = _thresholds(readback.env)
    decay_ms = readback.jemalloc_decay_ms
    kept = [] if decay_ms is None else [f"dirty_decay_ms:{decay_ms}"]
    return " ".join([str(readback.allocator), *map("=".join, found.items()), *kept])


def _holds_allocator(value: str, readback: Readback, _slot: window.Slot) -> bool:
    owner = readback.allocator
    if value not in {"glibc", "glibc-large-thresholds"}:
        tuned = value != "jemalloc" or readback.jemalloc_decay_ms == JEMALLOC_DECAY_MS
        return tuned and is_preloaded(owner, readback) and is_named(value, owner)
    found = _thresholds(readback.env)
    # A launcher may set a threshold of its own, which the value glibc leaves as it is.
    wanted = (
        found == LARGE_THRESHOLDS
        if value == "glibc-large-thresholds"
        else not found or found == _thresholds(LAUNCHERS[readback.launcher].environment())
    )
    return wanted and bool(_GLIBC.match(Path(owner or "").name))


# ---- huge_pages


def _refuse_huge_pages(axes: Axes) -> None:
    if axes["huge_pages"] == "always" and not str(axes["allocator"]).startswith("glibc"):
        raise UnavailableError(
            f"huge_pages always is a setting of glibc's allocator, not of {axes['allocator']}",
            "exclude: [{huge_pages: always, allocator: " + str(axes["allocator"]) + "}]",
        )


def _prepare_huge_pages(value: str, where: Where) -> Effects:
    if where.machine.thp == "never":
        raise UnavailableError(
            "transparent huge pages are switched off",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)",
        )
    if value == "tensors":
        return Effects({"THP_MEM_ALLOC_ENABLE": "1"})
    # hugetlb=1 makes malloc ask for transparent huge pages by madvise (glibc 2.35 and newer).
    return Effects({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"})


def _effective_huge_pages(_value: Value, readback: Readback) -> str:
    size = readback.huge_page_bytes
    return "unknown" if size is None else f"{size / 1024**2:.0f} MiB in huge pages"


AXES: dict[str, Axis[Never]] = {
    "blas": Axis(
        "the library that multiplies matrices (sgemm_)",
        {
            "bundled": "the one inside torch",
            "openblas": "OpenBLAS, preloaded",
            "blis": "BLIS, preloaded",
            "mkl": "MKL from PyPI, preloaded",
            INTEL_PATH: "torch's own MKL, made to take its Intel kernels on any CPU "
            "(not supported by Intel)",
        },
        LIBRARY,
        variables=("LD_PRELOAD", "MKL_THREADING_LAYER"),
        libraries=BLAS,
        prepare=_prepare_blas,
        effective=_effective_blas,
        holds=_holds_blas,
    ),
    "isa": Axis(
        "the vector instructions that ATen, oneDNN and BLAS may use",
        {"default": "all that the CPU has", "avx2": "at most AVX2", "avx512": "at most AVX-512"},
        variables=(*VARIABLES, "DNNL_MAX_CPU_ISA"),
        prepare=_prepare_isa,
        effective=lambda _, got: str(got.isa),
        # ATen reports the name of its own variable's value in capitals.
        holds=lambda value, got, _: value == "default" or bool(got.isa == value.upper()),
    ),
    "allocator": Axis(
        "the library that hands out memory",
        {
            "glibc": "the system's malloc",
            "glibc-large-thresholds": "the system's malloc, which keeps large blocks",
            "jemalloc": "jemalloc, preloaded, with the settings of PyTorch's tuning guide",
            "tcmalloc": "tcmalloc, preloaded",
            "mimalloc": "mimalloc, preloaded",
        },
        LIBRARY,
        variables=(
            *("LD_PRELOAD", "MALLOC_CONF", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"),
            *("MALLOC_MMAP_MAX_", "MALLOC_TOP_PAD_"),
        ),
        libraries=ALLOCATORS,
        prepare=_prepare_allocator,
        effective=_effective_allocator,
        holds=_holds_allocator,
    ),
    "huge_pages": Axis(
        "whether malloc or torch asks for transparent huge pages",
        {
            "default": "they do not ask",
            "always": "malloc asks for them (a tunable of glibc)",
            "tensors": "torch asks for them for tensors of 2 MiB and more (THP_MEM_ALLOC_ENABLE)",
        },
        variables=("GLIBC_TUNABLES", "THP_MEM_ALLOC_ENABLE"),
        refuse=_refuse_huge_pages,
        prepare=_prepare_huge_pages,
        effective=_effective_huge_pages,
        holds=lambda value, got, _: value == "default" or bool(got.huge_page_bytes),
    ),
}
