"""Measure how PyTorch training on CPUs scales when many processes share one machine."""


def mark() -> None:
    """Mark the end of a step, in a training script that has no torch optimizer.

    Outside a study this does nothing. Inside one, a member's harness puts its own step function
    in this place before the script starts, and the config says ``workload.step: mark``.
    """


def asked() -> int:
    """Return what the coordinator asks of a kernel (see ``kernels``); outside a study, 0."""
    return 0
