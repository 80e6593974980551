"""A slow BLAS kernel or instruction set."""

import functools
import shutil
import subprocess

from scaling_study.diagnosis.agreement import AnyOf, Attested
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import FOLDER, Plant
from scaling_study.diagnosis.recovered_share import ByRelief

BLAS = ("bundled_blas", "openblas", "blis", "mkl", "intel_path", "isa_default")
FASTER_MULTIPLY = AnyOf(
    (
        Attested("sgemm_gflops", "Speed of a multiply in GF/s"),
        Attested("isa", "Vector instructions", None),
    )
)

SLOW_GEMM = FOLDER.parents[1] / "results/.planted/libslow_gemm.so"


@functools.cache
def _no_slow_gemm() -> str | None:
    """Compile the slow multiply, unless that cannot be."""
    compiler = shutil.which("cc")
    if compiler is None:
        return "there is no C compiler: apt install gcc libc6-dev"
    SLOW_GEMM.parent.mkdir(parents=True, exist_ok=True)
    source = str(FOLDER / "slow_gemm.c")
    flags = ["-O3", "-march=native", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", str(SLOW_GEMM), source], check=True)
    return None


PLANTS = {
    "slow_blas": Plant(
        "a slow BLAS kernel",
        ("slow_blas",),
        axes={"intra_op": 1, "blas": str(SLOW_GEMM)},
        env=lambda dose: {"SLOW_GEMM_PASSES": str(round(dose.multiplies * dose.strength))},
        missing=_no_slow_gemm,
        level=True,
    ),
}

CAUSE = Cause(
    "A slow BLAS kernel or instruction set",
    "matrices are multiplied with code made for an older processor",
    "One process is slow already, in user time; another library multiplies faster in the same "
    "process and brings the time back.",
    "OPENBLAS_VERBOSE, BLIS_ARCH_DEBUG and MKL_VERBOSE name the kernel",
    Remedy("Use the library or instruction set that multiplies faster here."),
    growth=(
        Route(
            ByRelief(BLAS, beyond=("one_thread", "passive")),
            (FASTER_MULTIPLY,),
        ),
    ),
    level=(
        Route(
            ByRelief(BLAS),
            (FASTER_MULTIPLY,),
        ),
    ),
    plants=PLANTS,
    order=160,
)
