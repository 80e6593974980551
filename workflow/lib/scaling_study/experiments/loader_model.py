"""Variants of a launch with a loader, and the predicted step with another loader.

The prediction follows from parts that were measured.
Without workers the training thread makes each batch itself, before it trains on it. With workers, a
step takes as long as the slower of two: the loader alone, or training plus taking over a batch.
While the faster one works, both are slower than alone. If they want more CPUs than there are, each
gets its part (processor sharing: Kleinrock 1967, JACM 14(2)). CPUs also share cores and caches; how
much this slows them is measured.
"""

from collections.abc import Callable
from dataclasses import dataclass

from scaling_study.common.quantities import format_count
from scaling_study.experiments.conditions import Variant
from scaling_study.member.loader_substitutes import FROM_MEMORY, NEW, NOTHING, SWAPPED, WHOLE, Ask
from scaling_study.records.experiment import Way
from scaling_study.records.readback import Loader

SWITCHED = "loader_switched"
"""The change inside members that lets them switch from one way to load to another."""
AS_IS = Variant("as_is", "as it is", change=(SWITCHED,), asked=Ask(NEW).code)
VARIANTS = (
    AS_IS,
    Variant("cached", "batches from memory, no loader", asked=Ask(FROM_MEMORY).code),
    Variant("swapped", "as it is, each batch swapped for one from memory", asked=Ask(SWAPPED).code),
    Variant("only", "the loader alone, nobody trains", asked=Ask(NOTHING).code),
    Variant("warm", "as it is, its files in memory", asked=Ask(NEW).code),
    Variant("cold", "as it is, its files not in memory", asked=Ask(NEW).code),
)
"""The variants of a launch with a loader, in the order in which they are shown."""

WORKERS = (0, 1, 2, 4)
"""Numbers of loader workers to try, up to one more than a process has CPUs."""
FURTHER_AHEAD = 4
"""Factor by which a worker prepares more batches ahead."""


def is_pipeline(loader: Loader) -> bool:
    """Return whether a loader is a pipeline of SPDL's with threads in the training process."""
    return loader.threads and "Pipeline" in loader.kinds


def variant(way: Way, gives: int) -> Variant:
    """Return the variant that loads in another way; it may need a start of its own.

    Args:
        way: the way.
        gives: what the script gets: NEW batches, or NOTHING while the loader is alone.
    """
    ask = Ask(gives, way.axes.get("loader_workers"), way.axes.get("prefetch"), way.change == WHOLE)
    name, title = way.trains, way.title
    if gives == NOTHING:
        name, title = way.alone, f"the loader alone, {way.title}"
    if way.change in {None, WHOLE}:
        return Variant(name, title, way.axes, (SWITCHED,), ask.code, of=AS_IS.name)
    return Variant(name, title, way.axes, (SWITCHED, str(way.change)), ask.code)


def now(loader: Loader) -> Way:
    """Return the way in which the script loads as it is.

    Args:
        loader: what a member reports of it.
    """
    return Way(name="", title=AS_IS.title, workers=loader.workers, as_fast=True)


def ways(loader: Loader, cpus: float) -> list[Way]:
    """Return other ways to load.

    Args:
        loader: what a member reports of it.
        cpus: CPUs that a process has.
    """
    workers = loader.workers
    if is_pipeline(loader):
        title = "its threads in a process of their own"
        return [Way(name="elsewhere", title=title, workers=None, change="pipeline_elsewhere")]
    if not loader.settable:
        return []
    others = [
        Way(
            name=f"workers-{each}",
            title=format_count(each, "worker"),
            workers=each,
            axes={"loader_workers": each},
        )
        for each in WORKERS
        if each <= cpus + 1 and each != workers and (each <= 1 or loader.shares_out)
    ]
    if loader.by_row:
        title = "all rows of a batch read at once"
        others.append(Way(name="whole", title=title, workers=workers, change=WHOLE))
    if workers:
        ahead = FURTHER_AHEAD * loader.ready // workers
        title = f"{ahead} batches of each worker ahead"
        others.append(
            Way(name="ahead", title=title, workers=workers, axes={"prefetch": ahead}, as_fast=True)
        )
    return others


@dataclass(frozen=True, slots=True)
class StepParts:
    """The step of a variant and its parts (s).

    Attributes:
        step_s: the whole step.
        load_s: time of the training thread in the loader.
        cpu_s: CPU time of all threads and processes.
        trainer_s: CPU time of the training thread.
        made_s: time to make its batch, in any thread or process; 0 if it is not known.
    """

    step_s: float
    load_s: float
    cpu_s: float
    trainer_s: float
    made_s: float


Measured = Callable[[str], StepParts | None]
"""Returns the measured step of a variant, by its name; None without one."""


def predicted_s(way: Way, now: Way, cpus: float, measured: Measured) -> float | None:
    """Return the predicted time of a step (s); None if a part of it is not known.

    For the script as it is, and with more batches ahead, it follows from the parts alone: a lower
    bound, however many batches are ahead. For another way, the measured step is scaled by the ratio
    of the times that follow from the parts, because both steps have in common what these lack.

    Args:
        way: the way to load batches.
        now: the way in which the script loads as it is.
        cpus: CPUs that a process has.
        measured: the measured steps.
    """
    parts_s, now_s = (_of_parts_s(mode, now.workers, cpus, measured) for mode in (way, now))
    as_is = measured("as_is")
    if parts_s is None or now_s is None or as_is is None:
        return None
    return parts_s if way.as_fast else as_is.step_s * parts_s / now_s


def _of_parts_s(way: Way, workers: int | None, cpus: float, measured: Measured) -> float | None:
    """Return the time of a step (s) from its parts; the script's own loader has ``workers``."""
    as_is, cached, alone = measured("as_is"), measured("cached"), measured(way.alone)
    if as_is is None or cached is None or alone is None:
        return None
    # Training in the script as it is: on new batches, after waiting for them.
    training_s = as_is.step_s - as_is.load_s
    takes_s = _takes_s(alone, way.workers)
    if way.as_fast and workers != 0:
        return max(training_s + takes_s, as_is.made_s / (workers or 1))
    apart_s, swapped = training_s, measured("swapped")
    if workers != 0 and swapped is not None:
        apart_s -= swapped.step_s - swapped.load_s - cached.step_s
    if way.workers == 0:
        return apart_s + alone.step_s
    # Starting workers takes a part of the loader's time; the rest is spent on batches.
    making_s = alone.made_s / way.workers if way.workers and alone.made_s else alone.step_s
    wanted = cached.cpu_s / cached.step_s + (alone.cpu_s - alone.trainer_s) / making_s
    longer = max(0.0, wanted / cpus - 1) + _slower(workers, training_s, measured)
    return max(alone.step_s, apart_s + takes_s) + min(apart_s, making_s) * longer


def _takes_s(alone: StepParts, workers: int | None) -> float:
    """Return how long the training thread takes (s) to receive a batch that is ready.

    That is at least its CPU time. A thread of the worker also hands each tensor over, and must be
    woken for that: a step of the loader alone is longer than making a batch by that much.
    """
    if not workers or not alone.made_s:
        return alone.trainer_s
    return max(alone.trainer_s, alone.step_s - alone.made_s / workers)


def _slower(workers: int | None, training_s: float, measured: Measured) -> float:
    """Return the share by which computing slows down beside other computing; 0 if unknown."""
    if workers:
        alone, together = measured("only"), measured("as_is")
        overlap = 0.0 if together is None else min(1.0, training_s / together.step_s)
    else:
        alone, together = measured("only@workers-1"), measured("only@workers-2")
        overlap = 1.0
    if alone is None or together is None or not alone.made_s or not overlap:
        return 0.0
    return min(1.0, max(0.0, (together.made_s / alone.made_s - 1) / overlap))
