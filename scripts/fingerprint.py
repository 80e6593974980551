"""Measure the machine's own ladder, or take the one that is kept; the rule ``fingerprint``."""

import argparse
import logging
from pathlib import Path

from scaling_study.common import file_errors, storage
from scaling_study.experimenting import fingerprint
from scaling_study.measuring import job_process
from scaling_study.probing import probe

log = logging.getLogger("fingerprint")


def take(folder: Path, code: str, output: Path) -> None:
    """Measure this machine's ladder, or copy the one that is kept."""
    machine = probe.read_machine().to_dict()
    kept = fingerprint.kept(machine, folder, code)
    if kept.exists():
        log.info("this machine's is known: %s", kept)
        storage.write_json(output, storage.read_json(kept))
        return
    found = fingerprint.measure(machine, output.parent)
    storage.write_json(output, found)
    if fingerprint.quiet(found):
        storage.write_json(kept, found)
    else:
        log.info("other programs took CPU: it is used here, and not kept for later")


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--code", required=True, help="digest of what measures")
    parser.add_argument("--kept", type=Path, required=True, help="folder of all fingerprints")
    parser.add_argument("--probed", type=Path, nargs="?", help="machine.json of the named machine")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    with job_process.prepared("fingerprint", options.log, options.probed):
        take(options.kept, options.code, options.output)


if __name__ == "__main__":
    with file_errors.told("fingerprint", reads="results/.fingerprints"):
        main()
