"""Plant: every DataLoader gets worker processes, as guides advise, and has no CPUs for them.

With ``--busy`` seconds of CPU time for each batch, so that the workers have something to do.
"""

import argparse
import time
from typing import Any

import real_workload


def plant(workers: int, seconds: float) -> None:
    """Give every loader workers, and every batch work."""
    from torch.utils.data import DataLoader  # noqa: PLC0415 (torch is the member's to import)
    from torch.utils.data._utils import fetch  # noqa: PLC0415

    make, inner = DataLoader.__init__, fetch._MapDatasetFetcher.fetch  # noqa: SLF001

    def with_workers(loader: Any, *args: Any, **options: Any) -> None:
        make(loader, *args, **{**options, "num_workers": workers})

    def busy(fetcher: Any, indices: Any) -> Any:
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass
        return inner(fetcher, indices)

    DataLoader.__init__ = with_workers
    fetch._MapDatasetFetcher.fetch = busy  # noqa: SLF001


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--workers", type=int, required=True, help="processes for each loader")
parser.add_argument("--busy", type=float, default=0.0, help="CPU time of each batch in s")
options, command = real_workload.options_of(parser)
real_workload.once("loader_workers", lambda: plant(options.workers, options.busy))
real_workload.run(command)
