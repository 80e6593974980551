"""Check a config, write its plan and say what would be measured on this machine.

The rule ``plan`` runs this too, with a plan that is made already.
"""

import argparse
import json
import sys
from pathlib import Path

from scaling_study.common.problems import ConfigError
from scaling_study.common.storage import write_json
from scaling_study.configuring.config import load_config
from scaling_study.configuring.config_file import read_config
from scaling_study.planning import ladder
from scaling_study.planning.estimate import describe, estimate
from scaling_study.planning.plan import make_plan
from scaling_study.probing import limits, system

# What argparse exits with on a wrong command line; a wrong config is no different.
WRONG_INPUT = 2


def write_plan(config: Path, output: Path) -> str:
    """Write plan.json and return the description of the study."""
    plan = make_plan(load_config(read_config(config)))
    write_json(output, plan.to_dict())
    topology = system.read_topology().restricted(limits.read_allowed_cpus())
    counts = ladder.resolve(plan.processes, topology, limits.read_quota_cpus())
    return describe(plan, counts, estimate(plan, counts))


def main() -> int:
    """Parse the command line, plan, and report mistakes without a traceback."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path, help="a study's YAML file")
    parser.add_argument("output", type=Path, help="plan.json to write")
    options = parser.parse_args()
    try:
        print(write_plan(options.config, options.output))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT
    return 0


if "snakemake" in globals():
    job = globals()["snakemake"]
    write_json(Path(job.output[0]), json.loads(job.params.plan))
elif __name__ == "__main__":
    sys.exit(main())
