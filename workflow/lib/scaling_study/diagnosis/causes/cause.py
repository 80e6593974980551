"""What a cause is: a file that has a ``CAUSE`` is one, by the file's name."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from scaling_study.diagnosis.causes.plant import Plant
from scaling_study.diagnosis.query import Measure, Test

LAST = 1000
"""The order of a cause that has none of its own: after all others."""


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """One way to show a cause.

    Attributes:
        measure: Its share.
        tests: What must agree with the share.
        hints: What may be told beside.
        needs: Without these the cause cannot occur, or cannot be told from another one: where one
            of them does not hold, or is not known, the cause is not tested.
    """

    measure: Measure
    tests: tuple[Test, ...] = ()
    hints: tuple[Test, ...] = ()
    needs: tuple[Test, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Remedy:
    """What to do.

    Attributes:
        text: In words.
        axes: The launch's change; None takes that of the relief which showed the cause.
        command: For a shell; None derives it from the change.
        code: What the script itself must do, where no launch can.
        others: Text by relief, of reliefs that take the same cause away in another way.
    """

    text: str
    axes: Mapping[str, Any] | None = None
    command: str | None = None
    code: str | None = None
    others: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """One reason why steps are slow.

    Attributes:
        title: For a person.
        plain: The same within a sentence, for somebody who has never heard of it: "… because".
        looks: How it looks in the accounts and experiments.
        source: Where that is known from.
        remedy: What to do.
        growth: Ways to show that it makes steps slower with more processes.
        level: Ways to show that it makes steps slow with one process already.
        plants: What makes a script slow in this way, by name, to prove the verdict right.
        order: Lower ones are judged first.
        id: In causes.json; the table sets it.
    """

    title: str
    plain: str
    looks: str
    source: str
    remedy: Remedy
    growth: tuple[Route, ...] = ()
    level: tuple[Route, ...] = ()
    plants: Mapping[str, Plant] = dataclasses.field(default_factory=dict)
    order: int = LAST
    id: str = ""
