"""How a loader that is switched is asked to load: what the coordinator tells, as one number.

Standard library only.
"""

from __future__ import annotations

from typing import NamedTuple

# What the script gets: new batches, ones from memory, those in the place of new ones; or nothing,
# while batches are taken as fast as they come.
NEW, FROM_MEMORY, SWAPPED, NOTHING = range(4)

_BITS = 16
_MASK = (1 << _BITS) - 1


class Ask(NamedTuple):
    """What is asked for.

    Attributes:
        gives: one of NEW, FROM_MEMORY, SWAPPED and NOTHING.
        workers: of the loader; None as it is.
        ahead: batches that each of them prepares ahead; None as it is.
        whole: whether all rows of a batch are read at once.
    """

    gives: int = NEW
    workers: int | None = None
    ahead: int | None = None
    whole: bool = False

    @property
    def code(self) -> int:
        """A number that holds all of it; 0 for new batches of the loader as it is."""
        fields = (self.gives, _optional(self.workers), _optional(self.ahead), int(self.whole))
        return sum(one << _BITS * at for at, one in enumerate(fields))

    @classmethod
    def of(cls, code: int) -> Ask:
        """Return what a number holds."""
        gives, workers, ahead, at_once = (code >> _BITS * at & _MASK for at in range(4))
        return cls(gives, _known(workers), _known(ahead), bool(at_once))

    @property
    def way(self) -> Ask:
        """The same, but for what the script gets."""
        return self._replace(gives=NEW)


def _optional(count: int | None) -> int:
    return 0 if count is None else count + 1


def _known(field: int) -> int | None:
    return field - 1 if field else None


AS_IT_IS = Ask()
