"""Plant: every batch of a DataLoader takes longer to fetch, as from storage far away.

With ``--busy`` the CPU works meanwhile, as for samples that must be decoded. The delay is where the
data set is read, so whoever gets a batch from elsewhere does not pay it.
"""

from __future__ import annotations

import argparse
import functools
import time
from typing import TYPE_CHECKING, Any

import real_workload

if TYPE_CHECKING:
    from collections.abc import Callable


def plant(delay: Callable[[], None]) -> None:
    """Delay the fetching of every batch."""
    from torch.utils.data._utils import fetch  # noqa: PLC0415 (torch is the member's to import)

    inner = fetch._MapDatasetFetcher.fetch  # noqa: SLF001 (what every map-style loader calls)

    def delayed(fetcher: Any, indices: Any) -> Any:
        delay()
        return inner(fetcher, indices)

    fetch._MapDatasetFetcher.fetch = delayed  # noqa: SLF001


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seconds", type=float, required=True, help="delay of each batch")
parser.add_argument("--busy", action="store_true", help="by working, not by sleeping")
options, command = real_workload.options_of(parser)
delay = functools.partial(real_workload.work if options.busy else time.sleep, options.seconds)
real_workload.once("slow_loader", lambda: plant(delay))
real_workload.run(command)
