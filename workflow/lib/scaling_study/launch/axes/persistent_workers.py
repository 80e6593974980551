"""Whether a loader's workers live on between epochs."""

from scaling_study.launch.axes.axis import Axis
from scaling_study.launch.axes.living import loaders, the_one


def apply(value: str) -> None:
    """Set it for every torch DataLoader that has workers."""
    from scaling_study.member.after_torch import change_arguments

    def change(given: dict[str, object]) -> None:
        if given.get("num_workers"):
            given["persistent_workers"] = value == "keep"

    change_arguments(change)


def observe() -> str:
    """Return whether those of all loaders that live do."""
    found = {
        "keep" if one.persistent_workers else "restart" for one in loaders() if one.num_workers
    }
    return the_one(found, "no torch DataLoader with workers lives")


AXIS = Axis(
    "whether loader workers live on between epochs",
    {
        "script": "as the script says",
        "keep": "they live on",
        "restart": "each epoch starts new ones",
    },
    order=190,  # before the number of workers, as for prefetch
    apply=apply,
    lines=lambda value: f"loader = DataLoader(..., persistent_workers={value == 'keep'})",
    observe=observe,
)
