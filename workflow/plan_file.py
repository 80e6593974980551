"""The rule ``plan``: a plan may be longer than a command line, so Snakemake hands it over."""

import json
from pathlib import Path

from scaling_study.common import file_errors
from scaling_study.records.codec import write_file

job = globals()["snakemake"]
with file_errors.told("plan"):
    write_file(Path(job.output[0]), json.loads(job.params.plan))
