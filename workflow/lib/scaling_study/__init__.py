"""Measure how PyTorch training on CPUs scales when many processes share one machine."""


def mark(samples: int = 0) -> None:
    """Mark the end of a step, in a training script that has no torch optimizer.

    Outside a study this does nothing. Inside one, a member's harness replaces this function before
    the script starts. A call then ends a step if the config has ``workload.step: mark``.

    Args:
        samples: samples that this process has processed in the step, used if the config has
            ``workload.samples_per_step: mark``. In a script with an optimizer, whose own step ends
            the step, call this before it.
    """


def asked() -> int:
    """Return the number that asks a kernel for work (``kernels.decode``); outside a study, 0."""
    return 0
