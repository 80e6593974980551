"""Measure how PyTorch training on CPUs scales when many processes share one machine."""


def mark(samples: int = 0) -> None:
    """Mark the end of a step, in a training script that has no torch optimizer.

    Outside a study this does nothing. Inside one, a member's harness puts its own function in this
    place before the script starts. It ends a step where the config says ``workload.step: mark``.

    Args:
        samples: what the step has processed, in this process; counted in a script with an
            optimizer, too, and used where the config says ``workload.samples_per_step: mark``.
            Called before the optimizer's step, which ends the step, they belong to it.
    """


def asked() -> int:
    """Return what the coordinator asks of a kernel (see ``kernels``); outside a study, 0."""
    return 0
