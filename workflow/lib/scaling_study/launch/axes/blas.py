"""The library that multiplies matrices."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes import libraries
from scaling_study.launch.axes.axis import Axis, Effects, Library
from scaling_study.launch.axes.values import LIBRARY

if TYPE_CHECKING:
    from scaling_study.common.axis_values import Value
    from scaling_study.launch.axes.axis import Where
    from scaling_study.records import window
    from scaling_study.records.readback import Readback

LIBRARIES = {
    # The OpenMP builds first: they share torch's pool of OpenMP threads, the pthread builds add a
    # pool of their own beside it. The price: the OpenMP runtime they are linked to becomes torch's.
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
    """Return the library that has MKL take its Intel kernels, compiled once for each machine.

    Jobs that compile it at the same time each do so apart; a member never sees half a file, nor one
    that changes while it is mapped.

    Args:
        folder: where all machines have theirs.
        machine: the machine's hash.

    Raises:
        UnavailableError: there is no C compiler, or it cannot make it.
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


def _prepare(value: str, where: Where) -> Effects:
    if value == INTEL_PATH:
        if where.builds is None:
            raise UnavailableError("the library is not compiled here", INSTALL_COMPILER)
        return libraries.preloaded(intel_path_library(where.builds, where.machine.hash))
    # mkl_rt chooses its threading layer at run time; GNU is the OpenMP runtime that torch has
    # already brought, where the default would add Intel's beside it.
    layer = {"MKL_THREADING_LAYER": "GNU"} if value == "mkl" else {}
    return Effects(layer) | libraries.preload(value, where.machine, LIBRARIES)


def _effective(_value: Value, readback: Readback) -> str:
    kernel = readback.sgemm_kernel or "kernel unknown"
    return f"{readback.sgemm} ({kernel}, {readback.sgemm_gflops:.0f} GF/s)"


def _holds(value: str, readback: Readback, _slot: window.Slot) -> bool:
    multiplies = libraries.is_preloaded(readback.sgemm, readback)
    chooses = libraries.is_preloaded(readback.intel_path, readback)
    if value == "bundled":
        return not multiplies and not chooses
    if value == INTEL_PATH:
        return chooses and not multiplies
    return multiplies and libraries.is_named(value, readback.sgemm)


AXIS = Axis(
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
    libraries=LIBRARIES,
    order=60,
    prepare=_prepare,
    effective=_effective,
    holds=_holds,
)
