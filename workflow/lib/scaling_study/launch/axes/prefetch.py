"""Batches that each worker of a loader prepares ahead."""

from scaling_study.launch.axes.axis import Axis
from scaling_study.launch.axes.living import loaders, the_one
from scaling_study.launch.axes.values import COUNT


def apply(value: int) -> None:
    """Set it for every torch DataLoader that has workers."""
    from scaling_study.member.after_torch import change_arguments

    def change(given: dict[str, object]) -> None:
        if given.get("num_workers"):
            given["prefetch_factor"] = value

    change_arguments(change)


def observe() -> "int | str":
    """Return the number of all loaders that live and have workers."""
    found = {one.prefetch_factor or 0 for one in loaders() if one.num_workers}
    return the_one(found, "no torch DataLoader with workers lives")


AXIS = Axis(
    "batches that each loader worker prepares ahead",
    {"script": "as the script says"},
    COUNT,
    # Before the number of workers: its wrapper is the outer one, so this one sees what it set.
    order=180,
    apply=apply,
    lines="loader = DataLoader(..., prefetch_factor={})".format,
    observe=observe,
)
