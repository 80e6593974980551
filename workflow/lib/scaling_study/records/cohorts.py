"""tables/cohorts.json: the cohorts of a study.

The format has version 1.
"""

from typing import Literal

from msgspec import Struct, field

from scaling_study.records.confirmation import FirstModels
from scaling_study.records.field import Index
from scaling_study.records.machine import Machine
from scaling_study.records.model_length import ModelLength
from scaling_study.records.readback import Checked, Readback
from scaling_study.records.window import AskedCohort, CohortEnd, CohortEvent, Settled


class Optimizer(Struct, frozen=True, kw_only=True):
    """An optimizer of the script."""

    name: str
    steps: int = 0
    ends: bool = False
    """Whether its steps end iterations."""


class Counting(Struct, frozen=True, kw_only=True):
    """How a member counted iterations."""

    how: str = ""
    optimizers: tuple[Optimizer, ...] = ()


class Compiled(Struct, frozen=True, kw_only=True):
    """The work of torch.compile in a member."""

    times: int
    """Compiled functions."""
    seconds: float
    """Time of all compilation."""
    anew: int
    """Kernels that were not in its cache on the disk."""
    cached: int
    """Kernels that were in that cache."""
    warm_up_s: float
    """Time of compilation after the first step and before the first window."""


class Got(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """The settings that members of a cohort got; the last two fields are known at their end."""

    member: Readback | None = None
    """All that the first member reported before the first window."""
    counted: tuple[Counting | None, ...] | None = None
    """How the first member counted iterations."""
    once: bool | None = None
    """Whether each run of the script needs a process of its own."""


class Reported(Got, frozen=True, kw_only=True):
    """The reports of a cohort's members."""

    intra_op: tuple[int, ...]
    """Threads of an operator, for each member."""
    start_s: tuple[float, ...]
    """Time from a process's start to the end of its first step, for members that report it."""
    compiled: tuple[Compiled, ...] | None = None
    """Compilation in each member, once it has ended."""


class InvalidWindow(Struct, frozen=True, kw_only=True):
    """A window that does not count, and why."""

    n: int
    flags: tuple[str, ...]


class Replicate(Struct, frozen=True, kw_only=True):
    """A replicate of the plan."""

    launch: str = ""
    label: str = ""
    role: str = ""
    replicate: Index = 0


class CohortSummary(AskedCohort, frozen=True, kw_only=True):
    """A cohort: its request, what it got and lost, and how it ended."""

    file: str
    """Its record file, from the study's folder."""
    machine: str
    """Hash of the machine."""
    host: str
    """Name of the node."""
    end: CohortEnd | None = None
    """None where the job was cut off."""
    events: tuple[CohortEvent, ...] = ()
    """Events of its members."""
    windows_valid: int
    """How many windows count."""
    ns_valid: tuple[int, ...] = ()
    """Their process counts."""
    windows_invalid: tuple[InvalidWindow, ...] = ()
    steps: int
    """Steps counted in valid windows."""
    settled: tuple[Settled, ...] = ()
    """Records of windows that were taken again."""
    shared_files: dict[str, int] = field(default_factory=dict)
    """Files that several members wrote, and how many wrote each."""
    readback: Reported | None = None
    """None if no member reached its gate."""

    @property
    def measured(self) -> bool:
        """Whether any window was taken."""
        return bool(self.windows_valid or self.windows_invalid)


class Cohorts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of cohorts.json."""

    schema_version: Literal[1]
    samples: dict[str, float] = {}
    """Samples of a step in all ranks, by launch, if scripts count them; 0 if a script has none."""
    model_length: ModelLength = ModelLength()
    """The number of steps after which scripts end, in steps of the default launch."""
    machines: dict[str, Machine]
    """machine.json by hash."""
    cohorts: tuple[CohortSummary, ...]
    first_models: FirstModels | None = None
    """The first models that a race has trained as a whole."""
    missing: tuple[Replicate, ...] = ()
    """Replicates that are planned and have no record file."""
    left_out: tuple[str, ...] = ()
    """Record files that the plan does not name."""

    def of(self, machine: str) -> tuple[CohortSummary, ...]:
        """Return the cohorts of a machine."""
        return tuple(cohort for cohort in self.cohorts if cohort.machine == machine)

    def first_of(self, machine: str) -> FirstModels | None:
        """Return the first models of a machine, if it has trained some."""
        first = self.first_models
        return first if first is not None and first.machine_hash == machine else None
