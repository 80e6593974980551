"""Values of axes, what they ask of a machine, and what members read back."""

from pathlib import Path

from made_records import hardware, readback
from scaling_study.common.topology import Cpu, Topology
from scaling_study.launch.axes import axis_table
from scaling_study.launch.axes.axis import Where

LIBRARIES = {
    "openblas": "/lib/openblas-pthread/libopenblasp-r0.3.21.so",
    "blis": "/lib/libblis.so.4.0.0",
    "mkl": "/env/lib/libmkl_rt.so.2",
    "jemalloc": "/lib/libjemalloc.so.2",
    "tcmalloc": "/lib/libtcmalloc_minimal.so.4.5.6",
    "mimalloc": "/lib/libmimalloc.so.2.0",
    "numa": "/lib/libnuma.so.1",
    "libiomp5": "/env/lib/libiomp5.so",
    "libomp": "/lib/llvm-14/lib/libomp.so.5",
}


FLAGS = ("avx2", "fma", "avx512f", "avx512dq", "avx512bw", "avx512vl")


BF16 = ("avx512_bf16",)


TOPOLOGY = Topology(tuple(Cpu(cpu, cpu // 2, 0, 0, 0) for cpu in range(8)), ())


MACHINE = hardware(libraries=LIBRARIES, isa=(*FLAGS, *BF16), topology=TOPOLOGY)


def prepare(machine=MACHINE, **values):
    return axis_table.prepare(values, Where(machine, Path("/builds"))).environment()


def read_back(preload=(), env=None, **changed):
    preloads = {"LD_PRELOAD": ":".join(preload)} if preload else {}
    return readback(env={"PATH": "/bin", **(env or {}), **preloads}, **changed)


OPENBLAS, BLIS, TCMALLOC = LIBRARIES["openblas"], LIBRARIES["blis"], LIBRARIES["tcmalloc"]
