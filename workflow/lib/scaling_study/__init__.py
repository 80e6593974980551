"""Measure how PyTorch training on CPUs scales when many processes share one machine."""


def mark(samples: int = 0) -> None:
    """Mark the end of a step, in a training script that has no torch optimizer.

    Outside a study this does nothing. Inside one, a member's harness replaces this function before
    the script starts. The call then ends a step if the config has ``workload.step: mark``.

    Args:
        samples: number of samples that the step has processed in this process. They are used if
            the config has ``workload.samples_per_step: mark``, in a script with an optimizer too;
            there, call this before the optimizer's step, which ends the step.
    """


def asked() -> int:
    """Return the coordinator's order to a kernel, as ``kernels`` encodes it; outside a study, 0."""
    return 0
