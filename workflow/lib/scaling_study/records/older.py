"""Records of older versions, raised to today's: one function for each step of a format.

A function takes a record of one version, as JSON data, and returns it in the form of the next. Its
key is the kind of a file's first record, and the version from which it raises all records of it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter

from msgspec import convert

from scaling_study.records.field import Json

Step = Callable[[Json], Json]


def _confirmation_4(record: Json) -> Json:
    """Number a slot's models; versions up to 4 numbered processes, and starts in each of them."""
    if record["kind"] != "round":
        return record
    runs = []
    models: Counter[int | float | None] = Counter()
    before = convert(record["runs"], list[dict[str, int | float | None]])
    for run in sorted(before, key=itemgetter("process", "again")):
        rest = {name: run[name] for name in run.keys() - {"process", "again"}}
        runs.append({**rest, "model": models[run["slot"]], "ahead": bool(run["again"])})
        models[run["slot"]] += 1
    return {**record, "runs": runs}


STEPS: dict[str, dict[int, Step]] = {"confirmation": {4: _confirmation_4}}


def steps(kind: str, version: int, today: int) -> Sequence[Step] | None:
    """Return what raises a file's records to today's version; None if there is no such way.

    Args:
        kind: the kind of the file's first record.
        version: its version.
        today: the version that this program writes.
    """
    known = STEPS.get(kind, {})
    if version > today or not known.keys() >= {*range(version, today)}:
        return None
    return [known[number] for number in range(version, today)]
