"""Fault: every step computes the exponential of squares so small that they are denormal numbers.

So do second moments of gradients that have all but vanished, or states that have decayed. With
``--normal`` the same operations get ordinary numbers. Which operations denormals slow down differs
between CPUs; MKL's exponential, which torch calls, has a slower path for them on all of them.
"""

import argparse
from typing import Any

import real_workload

SIZE = 1 << 14  # stays in an L2 cache
DENORMAL = 5e-20  # its square is below float's smallest normal number, 1.2e-38
NORMAL = 5e-2


def inject(value: float, calls: int) -> None:
    """Before each optimizer's step, compute the exponentials."""
    import torch  # noqa: PLC0415 (the member's to import)

    generator = torch.Generator().manual_seed(1)
    state = value * (1 + torch.rand(SIZE, generator=generator))
    square, gate = torch.empty(SIZE), torch.empty(SIZE)

    def compute_gate(*_: Any) -> None:
        for _call in range(calls):
            # Made anew each time: who flushes denormals never gets one.
            torch.mul(state, state, out=square)
            torch.exp(square, out=gate)

    real_workload.before_each_step(compute_gate)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--calls", type=int, required=True, help="how often in a step")
parser.add_argument("--normal", action="store_true", help="ordinary numbers instead")
options, command = real_workload.options_of(parser)
start = NORMAL if options.normal else DENORMAL
real_workload.once("denormals", lambda: inject(start, options.calls))
real_workload.run(command)
