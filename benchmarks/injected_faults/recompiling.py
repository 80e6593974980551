"""Fault: something in every few steps is compiled for inputs of another shape each time."""

import argparse
from itertools import count

import real_workload

# Each compiled shape is compared with all that follow: the compiler forgets them now and then.
KEPT = 32


def inject(every: int, *, same: bool) -> None:
    """Before every so many optimizer's steps, have torch compile a small function anew."""
    import torch  # noqa: PLC0415 (the member's to import)

    torch._dynamo.config.recompile_limit = 2 * KEPT  # noqa: SLF001
    steps = count()

    def mean(values: torch.Tensor) -> torch.Tensor:
        return (values * 2 + 1).relu().mean()

    compiled = torch.compile(mean, backend="eager", dynamic=False)

    def compile_one(*_: object) -> None:
        number, rest = divmod(next(steps), every)
        if rest:
            return
        if not same and number % KEPT == 0:
            torch._dynamo.reset()  # noqa: SLF001
        compiled(torch.ones(1 if same else 2 + number % KEPT))

    real_workload.before_each_step(compile_one)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--every", type=int, required=True, help="steps")
parser.add_argument("--same", action="store_true", help="all inputs have one shape")
options, command = real_workload.options_of(parser)
real_workload.once("recompiling", lambda: inject(options.every, same=options.same))
real_workload.run(command)
