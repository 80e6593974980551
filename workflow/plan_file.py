"""The rule ``plan``: a plan may be longer than a command line, so Snakemake hands it over."""

import json
from pathlib import Path

from scaling_study.common import file_errors
from scaling_study.common.storage import write_json

job = globals()["snakemake"]
with file_errors.told("plan"):
    write_json(Path(job.output[0]), json.loads(job.params.plan))
