"""Plant: every batch of a DataLoader takes longer to fetch, as from storage far away.

The delay is where the data set is read, so whoever gets a batch from elsewhere does not pay it.
"""

import argparse
import time
from typing import Any

import real_workload


def plant(seconds: float) -> None:
    """Delay the fetching of every batch, by sleeping."""
    from torch.utils.data._utils import fetch  # noqa: PLC0415 (torch is the member's to import)

    inner = fetch._MapDatasetFetcher.fetch  # noqa: SLF001 (what every map-style loader calls)

    def delayed(fetcher: Any, indices: Any) -> Any:
        time.sleep(seconds)
        return inner(fetcher, indices)

    fetch._MapDatasetFetcher.fetch = delayed  # noqa: SLF001


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seconds", type=float, required=True, help="delay of each batch")
options, command = real_workload.options_of(parser)
real_workload.once("slow_loader", lambda: plant(options.seconds))
real_workload.run(command)
