"""Reports of a cohort's members about themselves, and checks of their launch."""

from msgspec import Struct

from scaling_study.records.field import Count, Index, Json, Positive, Seconds
from scaling_study.records.model_length import ModelLength


class Check(Struct, frozen=True):
    """One axis: what was asked for and what the members really got."""

    axis: str
    requested: object
    effective: object
    ok: bool


class Checked(Struct, frozen=True, kw_only=True):
    """Checks of whether members got what their launch asks for."""

    checks: list[Check]
    """For each axis, the requested and the effective value, and whether they agree."""

    @property
    def proven(self) -> bool:
        """Whether the members showed that they got all that their launch asks for."""
        return all(check.ok for check in self.checks)


class Loader(Struct, frozen=True, kw_only=True):
    """A kind of loader that the script has iterated over."""

    kind: str
    """Its class."""
    kinds: list[str] = []
    """Names of its class and of its base classes."""
    workers: Count | None
    """Its workers; null if it has threads or processes of its own."""
    threads: bool = False
    """Whether its own ones are threads of this process."""
    settable: bool = False
    """Whether the number of its workers can be set."""
    shares_out: bool = False
    """Whether it shares its batches out among several workers."""
    by_row: bool = False
    """Whether torch makes its batches row by row."""
    batches: Count | None = None
    """Batches in a pass; null if its length is not known."""
    ready: Count = 0
    """Batches that may be ready while nobody takes any."""


class Readback(Struct, frozen=True, kw_only=True):
    """The report of one member about itself."""

    slot: Index
    """The member."""
    launcher: str
    """How it was started."""
    once: bool
    """Whether each run of the script needs a process of its own."""
    counted: Json
    """How iterations were counted: the optimizers, their steps, and which one ends an
    iteration."""
    ended: ModelLength | None = None
    """How many starts of the script have ended since the process began, and after how many
    steps: mean, `shortest`, `longest`; null if none has."""
    pid: Count
    """Process id."""
    cpus: list[Index]
    """CPUs of the training thread and of bound OpenMP threads. Source: sched_getaffinity(2)."""
    thread_cpus: list[list[Index]] | None
    """CPUs of each OpenMP thread; null where no variable binds them. Source:
    sched_getaffinity(2) of each thread, by itself in a parallel region."""
    policy: str
    """Memory policy of the heap. Source: /proc/self/numa_maps."""
    pages_by_node: dict[str, Count]
    """Resident pages by NUMA node. Source: /proc/self/numa_maps."""
    os_threads: Count
    """Threads. Source: /proc/self/task."""
    intra_op: Positive
    """Threads of an operator. Source: torch."""
    inter_op: Count
    """Threads between operators. Source: torch."""
    openmp: list[str]
    """OpenMP runtimes among the mapped libraries."""
    parallel: str | None
    """The OpenMP runtime whose threads run torch's operators. Source: dladdr(3) on
    `GOMP_parallel`, or else `__kmpc_fork_call`."""
    sgemm: str | None
    """Library that multiplies matrices. Source: dladdr(3) on `sgemm_`."""
    sgemm_kernel: str | None
    """The kernel that this library selected. Source: a function of OpenBLAS and BLIS, the
    version of MKL."""
    sgemm_gflops: float
    """Rate of a 512 by 512 multiply, best of six, while all other members sleep (all but a few
    on a machine of 16 or more CPUs)."""
    intel_path: str | None
    """Library whose answer makes MKL take its Intel path. Source: dladdr(3) on
    `mkl_serv_intel_cpu_true`."""
    allocator: str | None
    """Library that allocates memory. Source: dladdr(3) on `posix_memalign`."""
    jemalloc_decay_ms: int | None
    """`opt.dirty_decay_ms`; null for other allocators. Source: jemalloc's mallctl."""
    huge_page_bytes: Count | None
    """AnonHugePages. Source: /proc/self/smaps_rollup."""
    isa: str
    """The vector instruction set that ATen chose. Source: torch."""
    default_dtype: str
    """Default type of numbers. Source: torch."""
    spin_s: float | None
    """CPU time in 20 ms of sleep after parallel work, spent by threads that spin; null with
    one thread."""
    changes: dict[str, bool]
    """Single changes of experiments, and whether each took effect inside the member."""
    impossible: dict[str, str]
    """Changes that cannot be made in this script, and why."""
    cached: Json
    """Batches from memory: how many, their bytes, whether the script changes them."""
    compiled: Json
    """torch.compile: `times` (compiled functions, of which torch keeps the last 64),
    `seconds`, and the number of kernels made `anew` and found `cached` on the disk."""
    torch: str
    """Version of torch."""
    python: str
    """The interpreter."""
    env: dict[str, str]
    """Variables that can change a measurement (`OMP_*`, `MKL_*`, `OPENBLAS_*`, `MALLOC_*`,
    `LD_*`, `PYTHON*`, `TORCH_*`, `ATEN_*` and similar ones), no others."""
    switches: Json
    """For each switch of the launch, the state that its axis finds in the process: of live
    optimizers, loaders, modules, settings of torch."""
    loaders: list[Loader]
    """Kinds of loaders that were iterated over: class, workers (null: threads or processes
    of its own; `threads` says which), whether their number can be set, whether torch makes
    its batches row by row (`by_row`), batches that may be ready."""
    start_s: Seconds | None = None
    """Time from the process's start to the end of its first step, while its whole cohort
    started; null in a pool."""
    warm_up_compile_s: Seconds | None = None
    """Time in torch.compile after the first step and before the first window; null in a pool."""
