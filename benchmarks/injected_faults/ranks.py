"""Fault: of a group of ranks one is slow, or the exchange of gradients takes long."""

import argparse
import os
import time
from typing import Any

import real_workload


def slow_exchange(seconds: float) -> None:
    """Let the exchange of each bucket of gradients take so much longer."""
    from torch import distributed  # noqa: PLC0415 (torch is the member's to import)
    from torch.nn.parallel import DistributedDataParallel  # noqa: PLC0415

    make = DistributedDataParallel.__init__

    def exchange(_: object, bucket: Any) -> Any:
        gradients = bucket.buffer()
        work = distributed.all_reduce(gradients, async_op=True)

        def late(_: object) -> Any:
            time.sleep(seconds)
            return gradients.div_(distributed.get_world_size())

        return work.get_future().then(late)

    exchange.__annotations__.clear()  # torch compares them with classes, and these are texts

    def __init__(model: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 (the replaced one's)
        make(model, *args, **kwargs)
        model.register_comm_hook(None, exchange)

    DistributedDataParallel.__init__ = __init__


def slow_rank(seconds: float) -> None:
    """Have rank 1 compute something of its own before each step."""

    def compute(*_: object) -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass

    if os.environ["RANK"] == "1":
        real_workload.before_each_step(compute)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--exchange", type=float, default=0.0, help="s for each bucket of gradients")
parser.add_argument("--slow", type=float, default=0.0, help="s for each step of rank 1")
options, command = real_workload.options_of(parser)
if options.exchange:
    real_workload.once("exchange", lambda: slow_exchange(options.exchange))
if options.slow:
    real_workload.once("slow", lambda: slow_rank(options.slow))
real_workload.run(command)
