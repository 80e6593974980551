"""Measure the machine's own ladder, or take the one that is kept; the rule ``fingerprint``."""

import argparse
import logging
import shutil
from pathlib import Path

from scaling_study.common import job_process, storage
from scaling_study.experimenting import fingerprint
from scaling_study.probing import probe

log = logging.getLogger("fingerprint")


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--code", required=True, help="digest of what measures")
    parser.add_argument("--kept", type=Path, required=True, help="folder of all fingerprints")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    job_process.prepare("fingerprint", options.log)
    machine = probe.read_machine().to_dict()
    kept = fingerprint.kept(machine, options.kept, options.code)
    if not kept.exists():
        found = fingerprint.measure(machine)
        storage.write_json(options.output, found)
        if fingerprint.quiet(found):
            kept.parent.mkdir(parents=True, exist_ok=True)
            storage.write_json(kept, found)
        else:
            log.info("other programs took CPU: it is used here, and not kept for later")
        return
    log.info("this machine's is known: %s", kept)
    shutil.copyfile(kept, options.output)


if __name__ == "__main__":
    main()
