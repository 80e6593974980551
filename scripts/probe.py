"""Describe this machine; the rule ``probe`` runs this."""

import argparse
from pathlib import Path

from scaling_study.common import file_errors, storage
from scaling_study.probing import allocation, named_machine, probe


def main() -> None:
    """Parse the command line and write machine.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", help="CPUs that the config says it has; None where it does not")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    allocation.require_whole_node()
    machine = probe.read_machine().to_dict()
    named_machine.require_cores(machine, None if options.cores == "None" else int(options.cores))
    storage.write_json(options.output, machine)


if __name__ == "__main__":
    with file_errors.told("probe"):
        main()
