"""Check a config and say what would be measured on this machine; nothing is run.

It reads the config as nothing but data. Snakemake, which reads it before the workflow does, says of
a mistake in its YAML neither the line nor what it is. The rule ``plan`` runs this too, with a plan
that is made already.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from scaling_study.common import file_errors
from scaling_study.common.problems import ConfigError
from scaling_study.common.storage import write_json
from scaling_study.common.unavailable import UnavailableError
from scaling_study.configuring.config import load_config
from scaling_study.configuring.config_file import read_config, shipped
from scaling_study.configuring.todays import look
from scaling_study.importing.import_config import is_import
from scaling_study.importing.imported import load_import, outline
from scaling_study.measuring import resolve
from scaling_study.planning import ladder
from scaling_study.planning.estimate import describe, estimate
from scaling_study.planning.plan import make_plan
from scaling_study.probing import limits, system
from scaling_study.searching import forecast

# What argparse exits with on a wrong command line; a wrong config is no different.
WRONG_INPUT = 2


def check(config: Path) -> tuple[str, dict[str, Any]]:
    """Return the description of a study, and its plan as JSON can hold it.

    Raises:
        ConfigError: with every mistake found.
        UnavailableError: the workload cannot start here.
    """
    mapping = shipped(read_config(config))
    if isinstance(mapping, dict) and is_import(mapping):
        study = load_import(mapping)
        return outline(study), study.to_dict()
    plan = make_plan(load_config(mapping), look(os.environ, limits.read_memory_policy()))
    runs_in = resolve.check_workload(plan.workload.model_dump())
    topology = system.read_topology().restricted(limits.read_allowed_cpus())
    quota_cpus = limits.read_quota_cpus()
    counts = ladder.resolve(plan.processes, topology, quota_cpus)
    race = forecast.describe(plan.to_dict(), topology, quota_cpus)
    text = describe(plan, counts, estimate(plan, counts), race)
    return f"{text}\n  runs in {runs_in}", plan.to_dict()


def main() -> int:
    """Parse the command line, check, and report mistakes without a traceback."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path, help="a study's YAML file")
    parser.add_argument("output", type=Path, nargs="?", help="plan.json to write")
    options = parser.parse_args()
    try:
        text, plan = check(options.config)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT
    except UnavailableError as error:
        print(f"{error.reason}\n  What helps: {error.remedy}", file=sys.stderr)
        return WRONG_INPUT
    print(text)
    if options.output:
        write_json(options.output, plan)
    return 0


if "snakemake" in globals():
    job = globals()["snakemake"]
    with file_errors.told("plan"):
        write_json(Path(job.output[0]), json.loads(job.params.plan))
elif __name__ == "__main__":
    with file_errors.told("plan"):
        sys.exit(main())
