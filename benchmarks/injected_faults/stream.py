"""Fault: every step copies more data than any cache holds, as element-wise operators do.

With ``--cached`` as many bytes are copied within the second-level cache. What is copied is told in
bytes, so it takes longer where memory is wanted by others as well.
"""

import argparse
from itertools import cycle, islice
from typing import Any

import real_workload

PART_BYTES = 1 << 20
ARRAY_BYTES = 64 << 20
CACHED_BYTES = 256 << 10


def inject(total_bytes: int, *, cached: bool) -> None:
    """Before each optimizer's step, copy so many bytes."""
    import torch  # noqa: PLC0415 (the script's to import first)

    part = CACHED_BYTES if cached else PART_BYTES
    size = part if cached else ARRAY_BYTES
    source, target = torch.ones(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8)
    parts = cycle(list(zip(target.split(part), source.split(part), strict=True)))

    def copy(*_: Any) -> None:
        for into, out_of in islice(parts, total_bytes // part):
            into.copy_(out_of)

    real_workload.before_each_step(copy)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bytes", type=int, required=True, help="copied in each step")
parser.add_argument("--cached", action="store_true", help="within the second-level cache")
options, command = real_workload.options_of(parser)
real_workload.once("stream", lambda: inject(options.bytes, cached=options.cached))
real_workload.run(command)
