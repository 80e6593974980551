"""Fault: every step writes a checkpoint of its own and waits until the disk has it (fsync(2)).

With ``--buffered`` it is written as well, but nobody waits for the disk.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import real_workload

CHECKPOINT = bytes(1 << 20)


def inject(path: Path, *, buffered: bool) -> None:
    """Before each optimizer's step, write the checkpoint."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)

    def save(*_: Any) -> None:
        os.pwrite(file, CHECKPOINT, 0)
        if not buffered:
            os.fsync(file)

    real_workload.before_each_step(save)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--folder", type=Path, required=True, help="where the files are")
parser.add_argument("--buffered", action="store_true", help="do not wait for the disk")
options, command = real_workload.options_of(parser)
checkpoint = options.folder / f"checkpoint-{os.getpid()}"
real_workload.once("sync_file", lambda: inject(checkpoint, buffered=options.buffered))
real_workload.run(command)
