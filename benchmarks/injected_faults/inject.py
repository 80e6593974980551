"""Inject a fault into a training script, then run the script as ``python SCRIPT ARGS`` would.

    python inject.py KIND --seconds 0.006 [--folder FOLDER] [--control] -- SCRIPT ARGS...

Each fault takes about so many seconds of a step. With ``--control`` its code runs without what
makes it slow. The harness starts a script that ends again in the same process, so this may run
several times there: the fault is injected once, since a patch upon a patch doubles it.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

import loader_faults
import step_faults
from step_faults import Asked

KINDS = {one.__name__: one for one in (*step_faults.KINDS, *loader_faults.KINDS)}


def main() -> None:
    """Inject the fault, and run the script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--seconds", type=float, default=0.0, help="of a step, about")
    parser.add_argument("--folder", type=Path, default=Path(), help="of files that members share")
    parser.add_argument("--control", action="store_true", help="without what makes it slow")
    at = sys.argv.index("--")
    options = parser.parse_args(sys.argv[1:at])
    if options.kind not in step_faults.INJECTED:
        step_faults.INJECTED.add(options.kind)
        KINDS[options.kind](Asked(options.seconds, options.folder, options.control))
    sys.argv = sys.argv[at + 1 :]
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
