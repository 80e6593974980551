"""The causes that are looked for, in the order in which they are judged.

Special before general, and what is counted before what is compared: a later cause gets only what
the earlier ones, where they are named, leave.
"""

import dataclasses

from scaling_study.common import entries
from scaling_study.diagnosis.cause import Cause
from scaling_study.diagnosis.causes import cpu, loader, machine, memory, program

OWN = {**cpu.CAUSES, **machine.CAUSES, **memory.CAUSES, **loader.CAUSES, **program.CAUSES}


def _all() -> tuple[Cause, ...]:
    known = entries.found("causes", "CAUSE", Cause, OWN)
    named = [dataclasses.replace(cause, id=name) for name, cause in known.items()]
    return tuple(sorted(named, key=lambda cause: (cause.order, cause.id)))


CAUSES: tuple[Cause, ...] = _all()
