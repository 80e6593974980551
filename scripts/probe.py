"""Describe this machine; the rule ``probe`` runs this."""

import argparse
from pathlib import Path

from scaling_study.common import storage
from scaling_study.probing import probe


def main() -> None:
    """Parse the command line and write machine.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    storage.write_json(options.output, probe.read_machine().to_dict())


if __name__ == "__main__":
    main()
