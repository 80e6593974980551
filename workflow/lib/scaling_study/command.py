"""The command ``torch-scaling-study``: Snakemake with this workflow, in the working directory."""

import os
import shlex
import sys
from importlib import metadata
from pathlib import Path

from scaling_study.common.project import PROJECT

SNAKEMAKE = [
    *("snakemake", "--snakefile", str(PROJECT / "Snakefile")),
    *("--workflow-profile", str(PROJECT / "profiles/default"), "--cores", "all"),
]
VERBOSE = {"-v", "--verbose"}

HELP = f"""\
usage: torch-scaling-study CONFIG [-v] [snakemake's options and targets]

Run the study of a config: results/<study>/ and reports/<study>.html in the working directory.
config/quick.yaml and the other configs in {PROJECT / "config"} need no file in it.
-v, --verbose shows Snakemake's own output. All other options are Snakemake's: --dry-run,
--cores 64, --directory FOLDER, …
Short for: {shlex.join(SNAKEMAKE)} … --configfile CONFIG"""


def main() -> None:
    """Replace this process by Snakemake, or print the help or the version."""
    config, options = "".join(sys.argv[1:2]), sys.argv[2:]
    if config in {"-h", "--help"}:
        print(HELP)
        return
    if config == "--version":
        print(f"torch-scaling-study {metadata.version('torch-scaling-study')}")
        return
    if not Path(config).is_file():
        shipped = PROJECT / config
        if shipped.parent != PROJECT / "config" or not shipped.is_file():
            sys.exit(f"{config}: no such file\n\n{HELP}" if config else HELP)
        config = str(shipped)
    options = ["--logger-study-verbose" if one in VERBOSE else one for one in options]
    # -P: no file in the user's folder shadows a module of Snakemake.
    words = ["-P", "-m", *SNAKEMAKE, *options, "--configfile", config]
    os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 (no shell is wanted)


if __name__ == "__main__":
    main()
