"""What wrapper scripts share: fault once in a process, then run the real workload script.

A wrapper is a script like any other: ``wrapper.py [OPTIONS] -- SCRIPT ARGS...``. The harness starts
a script that ends again in the same process, so a wrapper runs several times there.
"""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

_injected: set[str] = set()


def options_of(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, list[str]]:
    """Split a wrapper's own options from the command that it runs."""
    arguments = sys.argv[1:]
    at = arguments.index("--")
    return parser.parse_args(arguments[:at]), arguments[at + 1 :]


def once(name: str, fault: Callable[[], None]) -> None:
    """Fault, unless that was done in this process already: a patch upon a patch doubles it."""
    if name not in _injected:
        _injected.add(name)
        fault()


def before_each_step(call: Callable[..., None]) -> None:
    """Have torch call something before each optimizer's step."""
    from torch.optim import optimizer  # noqa: PLC0415 (torch is the member's to import)

    optimizer.register_optimizer_step_pre_hook(call)


def before_each_batch(call: Callable[[Any], None]) -> None:
    """Have something called, in the process that reads it, before each batch of a map-style loader.

    It gets torch's object that reads from the data set.
    """
    from torch.utils.data._utils import fetch  # noqa: PLC0415 (torch is the member's to import)

    inner = fetch._MapDatasetFetcher.fetch  # noqa: SLF001 (what every map-style loader calls)

    def fetched(fetcher: Any, indices: Any) -> Any:
        call(fetcher)
        return inner(fetcher, indices)

    fetch._MapDatasetFetcher.fetch = fetched  # noqa: SLF001


def work(seconds: float) -> None:
    """Use this much CPU time, however long that takes."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def run(command: list[str]) -> None:
    """Run the real script as ``python SCRIPT ARGS`` would."""
    sys.argv = command
    sys.path.insert(0, str(Path(command[0]).resolve().parent))
    runpy.run_path(command[0], run_name="__main__")
