"""The axes of a launch: what each value does to a process before it starts, and how it is proved.

Every value is a small entry. ``prepare`` turns a value into environment variables and preloads,
or says why this machine cannot do it; ``holds`` compares it with a member's attestation. Placement
and memory policy are not here: they differ per slot (see ``placement``).
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scaling_study.common.unavailable import UnavailableError
from scaling_study.probing.libraries import LIBRARIES

Attestation = Mapping[str, Any]
Machine = Mapping[str, Any]
Value = Any

# glibc refuses an M_MMAP_THRESHOLD above half of its largest heap, 32 MiB on 64 bits (mallopt(3)).
LARGE_MMAP_BYTES = 32 * 1024**2
# Never give memory back to the kernel between steps: any figure above a step's garbage does.
LARGE_TRIM_BYTES = 4 * 1024**3

# A member is watched for 20 ms after parallel work. Threads that sleep at once use far less than
# this of it; a default libgomp spins for several ms.
SPIN_LIMIT_S = 0.002


@dataclass(frozen=True, slots=True)
class Effects:
    """What a launch does to a process before it starts."""

    env: Mapping[str, str] = field(default_factory=dict)
    preload: tuple[str, ...] = ()

    def __or__(self, other: Effects) -> Effects:
        """Join two; both keep their own variables (no two axes own the same one)."""
        return Effects({**self.env, **other.env}, (*self.preload, *other.preload))

    def environment(self) -> dict[str, str]:
        """Return the variables, with the preloads as ``LD_PRELOAD``."""
        preload = {"LD_PRELOAD": ":".join(self.preload)} if self.preload else {}
        return {**self.env, **preload}


def _nothing(_value: Value, _machine: Machine) -> Effects:
    return Effects()


def _always(_value: Value, _attestation: Attestation) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: how to prepare a value, how to read it back, and whether it took effect."""

    effective: Callable[[Attestation], str]
    prepare: Callable[[Value, Machine], Effects] = _nothing
    holds: Callable[[Value, Attestation], bool] = _always


def library(name: str, machine: Machine) -> str:
    """Return the path of a library that the probe found.

    Raises:
        UnavailableError: it is not installed.
    """
    found = machine["libraries"].get(name)
    if found is None:
        raise UnavailableError(f"{name} is not installed", INSTALL[name])
    return str(found)


INSTALL = {
    **{name: entry.install for name, entry in LIBRARIES.items()},
    "intel-path": "apt install gcc libc6-dev (a one-line library has to be compiled)",
}


def _same_file(path: str, other: str | None) -> bool:
    return other is not None and os.path.realpath(path) == os.path.realpath(other)


def _is_path(value: Value) -> bool:
    return isinstance(value, str) and os.sep in value


def _is_preloaded(library: str | None, attestation: Attestation) -> bool:
    preloads = attestation["env"].get("LD_PRELOAD", "").split(":")
    return any(_same_file(path, library) for path in preloads if path)


def _is_named(value: Value, library: str) -> bool:
    """Whether a library is what a value means: that file, or one whose name has that word."""
    return _same_file(value, library) if _is_path(value) else value in Path(library).name


# ---- threads


def _intra_op(value: Value, machine: Machine) -> Effects:
    if not isinstance(value, int):
        return Effects()
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS")
    # torch takes no more threads than mkl_get_max_threads() says (init_num_threads in
    # aten/src/ATen/ParallelOpenMP.cpp), and MKL says at most the machine's physical cores. Where
    # they are enough it keeps its freedom to take fewer for a small multiply.
    cores = {cpu["core"] for cpu in machine["topology"]["cpus"]}
    more = {"MKL_DYNAMIC": "FALSE"} if value > len(cores) else {}
    return Effects(dict.fromkeys(names, str(value)) | more)


def _count_holds(key: str) -> Callable[[Value, Attestation], bool]:
    return lambda value, attestation: value in ("default", attestation[key])


# What a waiting OpenMP thread does: libgomp spins GOMP_SPINCOUNT times and libiomp5 KMP_BLOCKTIME
# milliseconds before it sleeps; OMP_WAIT_POLICY is what both derive their defaults from.
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}


def _wait_policy(value: Value, _machine: Machine) -> Effects:
    return Effects(PASSIVE) if value == "passive" else Effects()


def _wait_policy_effective(attestation: Attestation) -> str:
    spin_s = attestation["spin_s"]
    if spin_s is None:
        return "one thread, nothing to wait for"
    runtimes = ", ".join(os.path.basename(path) for path in attestation["openmp"])  # noqa: PTH119
    return f"{spin_s * 1e3:.1f} ms of CPU time spent waiting after a parallel region ({runtimes})"


def _wait_policy_holds(value: Value, attestation: Attestation) -> bool:
    spin_s = attestation["spin_s"]
    return value == "default" or spin_s is None or spin_s < SPIN_LIMIT_S


# ---- BLAS and instruction sets


def _blas(value: Value, machine: Machine) -> Effects:
    if value == "bundled":
        return Effects()
    if value == "bundled-intel-path":
        return Effects(preload=(library("intel-path", machine),))
    path = value if _is_path(value) else library(value, machine)
    # mkl_rt chooses its threading layer at run time; GNU is the OpenMP runtime that torch has
    # already brought, where the default would add Intel's beside it.
    layer = {"MKL_THREADING_LAYER": "GNU"} if value == "mkl" else {}
    return Effects(layer, preload=(path,))


def _blas_effective(attestation: Attestation) -> str:
    kernel = attestation["sgemm_kernel"] or "kernel unknown"
    return f"{attestation['sgemm']} ({kernel}, {attestation['sgemm_gflops']:.0f} GF/s)"


def _blas_holds(value: Value, attestation: Attestation) -> bool:
    preloaded = {
        symbol: _is_preloaded(attestation[symbol], attestation)
        for symbol in ("sgemm", "intel_path")
    }
    if value == "bundled":
        return not any(preloaded.values())
    if value == "bundled-intel-path":
        return preloaded == {"sgemm": False, "intel_path": True}
    return preloaded["sgemm"] and _is_named(value, attestation["sgemm"])


@dataclass(frozen=True, slots=True)
class Isa:
    """An instruction set: the CPU flags it needs, and its name for each library that obeys."""

    flags: tuple[str, ...]
    aten: str
    env: Mapping[str, str]


# ATen and oneDNN obey everywhere. OpenBLAS and BLIS take the kernel of a CPU that has the set;
# MKL obeys on Intel's CPUs only.
ISAS = {
    "avx2": Isa(
        flags=("avx2", "fma"),
        aten="AVX2",
        env={
            "ATEN_CPU_CAPABILITY": "avx2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "OPENBLAS_CORETYPE": "Haswell",
            "BLIS_ARCH_TYPE": "haswell",
            "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        },
    ),
    "avx512": Isa(
        flags=("avx512f", "avx512dq", "avx512bw", "avx512vl"),
        aten="AVX512",
        env={
            "ATEN_CPU_CAPABILITY": "avx512",
            "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
            "OPENBLAS_CORETYPE": "SkylakeX",
            "BLIS_ARCH_TYPE": "skx",
            "MKL_ENABLE_INSTRUCTIONS": "AVX512",
        },
    ),
}


def _isa(value: Value, machine: Machine) -> Effects:
    if value == "default":
        return Effects()
    missing = [flag for flag in ISAS[value].flags if flag not in machine["isa"]]
    if missing:
        raise UnavailableError(
            f"this CPU has no {', '.join(missing)}", f"leave isa {value} to a machine that has it"
        )
    return Effects(ISAS[value].env)


def _isa_holds(value: Value, attestation: Attestation) -> bool:
    return value == "default" or bool(attestation["isa"] == ISAS[value].aten)


# ---- memory


# Its file, with its version in the name before glibc 2.34.
_GLIBC = re.compile(r"libc[.-]")

LARGE_THRESHOLDS = {
    "MALLOC_MMAP_THRESHOLD_": str(LARGE_MMAP_BYTES),
    "MALLOC_TRIM_THRESHOLD_": str(LARGE_TRIM_BYTES),
}


def _allocator(value: Value, machine: Machine) -> Effects:
    if value == "glibc":
        return Effects()
    if value == "glibc-large-thresholds":
        return Effects(LARGE_THRESHOLDS)
    return Effects(preload=(value if _is_path(value) else library(value, machine),))


def _allocator_effective(attestation: Attestation) -> str:
    thresholds = [
        f"{name}={attestation['env'][name]}"
        for name in LARGE_THRESHOLDS
        if name in attestation["env"]
    ]
    return " ".join([str(attestation["allocator"]), *thresholds])


def _allocator_holds(value: Value, attestation: Attestation) -> bool:
    owner = attestation["allocator"]
    if value in {"glibc", "glibc-large-thresholds"}:
        env = attestation["env"]
        thresholds = {name: env[name] for name in LARGE_THRESHOLDS if name in env}
        # Dask's default environment sets a threshold of its own, which glibc alone leaves as it is.
        wanted = (
            thresholds == LARGE_THRESHOLDS
            if value == "glibc-large-thresholds"
            else not thresholds or attestation["launcher"] == "dask"
        )
        return wanted and bool(_GLIBC.match(Path(owner or "").name))
    return owner is not None and _is_preloaded(owner, attestation) and _is_named(value, owner)


def _huge_pages(value: Value, machine: Machine) -> Effects:
    if value == "default":
        return Effects()
    if machine["thp"] == "never":
        raise UnavailableError(
            "transparent huge pages are switched off",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)",
        )
    # hugetlb=1 makes malloc ask for transparent huge pages by madvise (glibc 2.35 and newer).
    return Effects({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"})


def _huge_pages_effective(attestation: Attestation) -> str:
    size = attestation["huge_page_bytes"]
    return "unknown" if size is None else f"{size / 1024**2:.0f} MiB in huge pages"


def _huge_pages_holds(value: Value, attestation: Attestation) -> bool:
    return value == "default" or bool(attestation["huge_page_bytes"])


# ---- processes


def dask_environment() -> dict[str, str]:
    """Return what this installation's Dask puts into its workers' environment by default."""
    import dask  # noqa: PLC0415
    import distributed  # noqa: F401, PLC0415 (it adds its defaults to dask.config)

    defaults = dask.config.get("distributed.nanny.pre-spawn-environ")
    return {name: str(value) for name, value in defaults.items() if value is not None}


def _launcher(value: Value, _machine: Machine) -> Effects:
    return Effects(dask_environment()) if value == "dask" else Effects()


def _build_holds(value: Value, attestation: Attestation) -> bool:
    """Compare interpreters without following links: a virtual environment's is one to its base."""
    python = attestation["python"]
    if str(value).endswith(".txt"):
        return Path(python).parts[-3:] == (Path(value).stem, "bin", "python")
    asked = sys.executable if value == "default" else value
    return bool(os.path.abspath(asked) == os.path.abspath(python))  # noqa: PTH100 (resolve follows links)


def _launcher_holds(value: Value, attestation: Attestation) -> bool:
    return bool(attestation["launcher"] == value)


AXES: dict[str, Axis] = {
    # The launcher comes first: what another axis sets replaces Dask's defaults.
    "launcher": Axis(lambda got: str(got["launcher"]), _launcher, _launcher_holds),
    "build": Axis(
        lambda got: f"{got['python']}, torch {got['torch']}",
        holds=_build_holds,
    ),
    "intra_op": Axis(lambda got: str(got["intra_op"]), _intra_op, _count_holds("intra_op")),
    "inter_op": Axis(lambda got: str(got["inter_op"]), holds=_count_holds("inter_op")),
    "wait_policy": Axis(_wait_policy_effective, _wait_policy, _wait_policy_holds),
    "blas": Axis(_blas_effective, _blas, _blas_holds),
    "isa": Axis(lambda got: str(got["isa"]), _isa, _isa_holds),
    "allocator": Axis(_allocator_effective, _allocator, _allocator_holds),
    "huge_pages": Axis(_huge_pages_effective, _huge_pages, _huge_pages_holds),
}


def prepare(axes: Mapping[str, Value], machine: Machine) -> Effects:
    """Return what a launch does to its members before they start.

    Args:
        axes: the launch's value on every axis.
        machine: the machine's description (machine.json).

    Raises:
        UnavailableError: this machine cannot do it, or two values exclude each other.
    """
    if axes["huge_pages"] == "always" and not str(axes["allocator"]).startswith("glibc"):
        raise UnavailableError(
            f"huge_pages always is a setting of glibc's allocator, not of {axes['allocator']}",
            "exclude: [{huge_pages: always, allocator: " + str(axes["allocator"]) + "}]",
        )
    effects = Effects()
    for name, axis in AXES.items():
        effects |= axis.prepare(axes[name], machine)
    for path in effects.preload:
        # ld.so(8) takes both for separators, and has no way to quote them.
        if " " in path or ":" in path:
            raise UnavailableError(
                f"{path} cannot be preloaded: its path has a space or a colon",
                f"ln -s {shlex.quote(path)} to a path without, and name that one",
            )
    return effects


def checks(
    axes: Mapping[str, Value], attestations: Sequence[Attestation]
) -> list[dict[str, str | bool]]:
    """Compare what was asked for with what the members got.

    Args:
        axes: the launch's value on every axis.
        attestations: one for each member.

    Returns:
        For each axis: ``axis``, ``requested``, ``effective`` (of the first member in which it
        does not hold, else of the first), and ``ok``: it holds in every member.
    """
    found: list[dict[str, str | bool]] = []
    for name, axis in AXES.items():
        value = axes[name]
        wrong = [got for got in attestations if not axis.holds(value, got)]
        effective = axis.effective((wrong or list(attestations))[0])
        found.append(
            {"axis": name, "requested": str(value), "effective": effective, "ok": not wrong}
        )
    return found
