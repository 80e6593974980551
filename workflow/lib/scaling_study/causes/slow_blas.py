"""A slow BLAS kernel or instruction set."""

from scaling_study.causes.cause import Cause, Remedy, Route
from scaling_study.evidence.agreement import AnyOf, Attested
from scaling_study.evidence.relief_share import ByRelief

BLAS = ("bundled_blas", "openblas", "blis", "mkl", "intel_path", "isa_default")
FASTER_MULTIPLY = AnyOf(
    (
        Attested("sgemm_gflops", "Speed of a multiply in GF/s"),
        Attested("isa", "Vector instructions", None),
    )
)

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
    order=160,
)
