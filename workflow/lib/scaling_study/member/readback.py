"""The settings that really hold in a member, read back inside it.

A launch is a set of intents: environment variables, preloads, masks, policies. This module reads
whether they took effect from the kernel, the dynamic linker, torch and the libraries themselves,
never from the variables that asked for them. Members are read at the gate, one at a time, or a few
on a large machine, so that the SGEMM probe is not disturbed. Processes without a gate are read once
in their first steps. Standard library and torch only.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import sys
import time
from pathlib import Path

import torch

from scaling_study.member import changes, loader_substitutes
from scaling_study.member.numa_maps import memory_policy

# 512 x 512 fits the L2 cache of current CPUs and is large enough to reach a BLAS kernel's plateau.
SGEMM_SIZE = 512
SGEMM_REPEATS = 6

# Enough for all repeats on any real processor; an emulated one takes seconds, and does one repeat.
SGEMM_LONGEST_S = 0.5

# Long enough for a spinning OpenMP thread to show (libgomp's default spins for milliseconds).
SPIN_WATCH_S = 0.02

# Prefixes of variables that can change a measurement: threads, libraries and their kernels, memory,
# Python. A report leaves out the rest of the environment, which may hold secrets.
MATTERS = (
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "VECLIB_", "NUMEXPR_"),
    *("MALLOC_", "GLIBC_TUNABLES", "TCMALLOC_", "MIMALLOC_", "JEMALLOC_", "LD_", "PYTHON"),
    *("TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "ATEN_", "ONEDNN_", "DNNL_", "CUDA_VISIBLE_DEVICES"),
)

# Variables that make OpenMP bind its threads.
BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")

_OPENMP = re.compile(r"/lib(gomp|iomp5|omp)[-.]")


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


class _MklVersion(ctypes.Structure):
    """The struct MKLVersion of MKL's function mkl_get_version."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("major", "minor", "update")),
        *((name, ctypes.c_char_p) for name in ("status", "build", "processor", "platform")),
    )


def owner(symbol: str) -> str | None:
    """Return the path of the library whose ``symbol`` torch's calls resolve to (dladdr(3)).

    The global scope, where preloads are, is searched before libtorch_cpu's own, as the dynamic
    linker does for libtorch_cpu's calls.
    """
    function, info = _function(symbol), _DlInfo()
    if function is None:
        return None
    address = ctypes.cast(function, ctypes.c_void_p)
    if ctypes.CDLL(None).dladdr(address, ctypes.byref(info)) and info.file:
        return os.path.realpath(os.fsdecode(info.file))
    return None


def _function(symbol: str) -> ctypes._NamedFuncPointer | None:
    for library in (None, str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")):
        with contextlib.suppress(AttributeError, OSError):
            return ctypes.CDLL(library)[symbol]
    return None


def _sgemm_seconds(repeats: int) -> float:
    # The script may have set another default type or device.
    left = torch.ones(SGEMM_SIZE, SGEMM_SIZE, dtype=torch.float32, device="cpu")
    out = torch.empty_like(left)
    times: list[float] = []
    with torch.no_grad():
        while len(times) < repeats and sum(times) < SGEMM_LONGEST_S:
            began = time.perf_counter()
            torch.mm(left, left, out=out)
            times.append(time.perf_counter() - began)
    return min(times)


def sgemm_kernel(library: str | None) -> str | None:
    """Return the kernel that a BLAS library chose for this CPU, as the library names it.

    OpenBLAS and BLIS have a function for it. MKL's version names the instruction set. None for
    other libraries.
    """
    if library is None:
        return None
    blas = ctypes.CDLL(library)
    if hasattr(blas, "openblas_get_corename"):
        blas.openblas_get_corename.restype = ctypes.c_char_p
        return str(blas.openblas_get_corename().decode())
    if hasattr(blas, "bli_arch_string"):
        blas.bli_arch_string.restype = ctypes.c_char_p
        return str(blas.bli_arch_string(blas.bli_arch_query_id()).decode())
    for name in ("MKL_Get_Version", "mkl_serv_get_version"):  # the MKL in torch has the second only
        if hasattr(blas, name):
            version = _MklVersion()
            blas[name](ctypes.byref(version))
            text = re.sub(r" with support.*| enabled processors", "", version.processor.decode())
            return text.replace("Intel(R) ", "")
    return None


def _huge_page_bytes() -> int | None:
    text = ""
    with contextlib.suppress(OSError):  # not in every kernel and container
        text = Path("/proc/self/smaps_rollup").read_text()
    match = re.search(r"^AnonHugePages:\s+(\d+) kB", text, re.MULTILINE)
    return int(match.group(1)) * 1024 if match else None


def _spin_s() -> float | None:
    """Return the CPU time of this process asleep after parallel work; None if it has one thread."""
    if torch.get_num_threads() == 1:
        return None
    _sgemm_seconds(1)
    torch.ones(1 << 20, device="cpu").add_(1)  # an OpenMP region of ATen's own
    began = time.process_time()
    time.sleep(SPIN_WATCH_S)
    return time.process_time() - began


def thread_cpus() -> list[list[int]] | None:
    """Return the CPUs of each OpenMP thread, which each thread reads in a parallel region.

    None if no variable binds threads, because then all have the CPUs of the process, and without
    GOMP_parallel.
    """
    parallel, number = _function("GOMP_parallel"), _function("omp_get_thread_num")
    if parallel is None or number is None or os.environ.keys().isdisjoint(BINDING):
        return None
    cpus: dict[int, list[int]] = {}

    def note(_: object) -> None:
        cpus[number()] = sorted(os.sched_getaffinity(0))

    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(note)
    parallel(call, None, 0, 0)  # by as many threads as torch has set
    return [cpus[thread] for thread in sorted(cpus)]


def _jemalloc_decay_ms() -> int | None:
    """Return jemalloc's opt.dirty_decay_ms (its manual, mallctl); None for other allocators."""
    control, value = _function("mallctl"), ctypes.c_ssize_t()
    if control is None:
        return None
    size = ctypes.c_size_t(ctypes.sizeof(value))
    control(b"opt.dirty_decay_ms", ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t())
    return value.value


def compiled() -> dict[str, object]:
    """Return what torch.compile has compiled in this process.

    Returns:
        ``times`` (number of compiled functions, of which torch keeps the last 64), ``seconds``
        for them, and the numbers of their kernels that were compiled ``anew`` or ``cached`` on the
        disk.
    """
    utils = sys.modules.get("torch._dynamo.utils")
    done = utils.get_compilation_metrics() if utils else []

    def total(name: str) -> int:
        return sum(getattr(metrics, name, 0) or 0 for metrics in done)

    return {
        "times": len(done),
        "seconds": total("duration_us") / 1e6,
        "anew": total("inductor_fx_local_cache_miss_count"),
        "cached": total("inductor_fx_local_cache_hit_count"),
    }


def report() -> dict[str, object]:
    """Return the settings that hold in this process, as JSON; docs/records.md describes the keys.

    Allocations of the probe are freed on return. The random state is not touched.
    """
    policy, pages = memory_policy()
    maps = Path("/proc/self/maps").read_text()
    mapped = {line.split(maxsplit=5)[-1] for line in maps.splitlines()}
    sgemm, threads = owner("sgemm_"), thread_cpus()
    return {
        "pid": os.getpid(),
        "cpus": sorted(os.sched_getaffinity(0).union(*threads or ())),
        "thread_cpus": threads,
        "policy": policy,
        "pages_by_node": pages,
        "os_threads": len(list(Path("/proc/self/task").iterdir())),
        "intra_op": torch.get_num_threads(),
        "inter_op": torch.get_num_interop_threads(),
        "openmp": sorted(path for path in mapped if _OPENMP.search(path)),
        # ATen's operators and MKL call this function. Compilers other than GCC name it otherwise.
        "parallel": owner("GOMP_parallel") or owner("__kmpc_fork_call"),
        "sgemm": sgemm,
        "sgemm_kernel": sgemm_kernel(sgemm),
        "sgemm_gflops": 2 * SGEMM_SIZE**3 / _sgemm_seconds(SGEMM_REPEATS) / 1e9,
        "intel_path": owner("mkl_serv_intel_cpu_true"),
        # Not malloc: for that, a Python that is not position-independent, as Debian's, has an
        # address of its own, whichever library serves it.
        "allocator": owner("posix_memalign"),
        "jemalloc_decay_ms": _jemalloc_decay_ms(),
        "huge_page_bytes": _huge_page_bytes(),
        "isa": torch.backends.cpu.get_cpu_capability(),
        "default_dtype": str(torch.get_default_dtype()),
        "spin_s": _spin_s(),
        "changes": changes.effective(),
        "impossible": changes.impossible(),
        "cached": loader_substitutes.cached_facts,
        "compiled": compiled(),
        "torch": torch.__version__,
        "python": sys.executable,
        "env": {name: text for name, text in os.environ.items() if name.startswith(MATTERS)},
    }


def write(file: str, **process: object) -> None:
    """Write the report of this process to a file, whole at any moment.

    Args:
        file: the path.
        process: what only the caller knows of this process.
    """
    part = Path(f"{file}.part")
    part.write_text(json.dumps({**process, **report()}), encoding="utf-8")
    part.replace(file)
