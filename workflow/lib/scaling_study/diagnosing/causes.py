"""The causes that are looked for, in the order in which they are judged.

Special before general, and what is counted before what is compared: a later cause gets only what
the earlier ones, where they are named, leave. A new cause is a new entry.
"""

from scaling_study.diagnosing.cause import Cause
from scaling_study.diagnosing.causes_code import WAITS, WORK
from scaling_study.diagnosing.causes_cpu import FIRST, THREADS
from scaling_study.diagnosing.causes_hardware import HARDWARE
from scaling_study.diagnosing.causes_memory import MEMORY, SHARED
from scaling_study.diagnosing.causes_ranks import RANKS

CAUSES: tuple[Cause, ...] = (*FIRST, *RANKS, *WAITS, *THREADS, *WORK, *MEMORY, *HARDWARE, *SHARED)
