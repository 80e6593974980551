"""Plant: every DataLoader gets worker processes, as guides advise, and has no CPUs for them."""

import argparse
from typing import Any

import real_workload


def plant(workers: int) -> None:
    """Give every loader workers."""
    from torch.utils.data import DataLoader  # noqa: PLC0415 (torch is the member's to import)

    make = DataLoader.__init__

    def with_workers(loader: Any, *args: Any, **options: Any) -> None:
        make(loader, *args, **{**options, "num_workers": workers})

    DataLoader.__init__ = with_workers


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--workers", type=int, required=True, help="processes for each loader")
options, command = real_workload.options_of(parser)
real_workload.once("loader_workers", lambda: plant(options.workers))
real_workload.run(command)
