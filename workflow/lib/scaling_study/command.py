"""The command ``torch-scaling-study``: Snakemake with this workflow, in the working directory."""

import os
import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import NoReturn

from scaling_study import one_command
from scaling_study.common.storage import PROJECT

SNAKEMAKE = [
    *("snakemake", "--snakefile", str(PROJECT / "Snakefile")),
    *("--workflow-profile", str(PROJECT / "profiles/default"), "--cores", "all"),
]
VERBOSE = {"-v", "--verbose"}

HELP = f"""\
usage: torch-scaling-study [options] -- COMMAND
       torch-scaling-study CONFIG [-v] [snakemake's options and targets]

COMMAND is the program as you type it, as in: python train.py --seed {{}}. Here {{}} is
the number of a process: 0, 1, 2, ... Its config is written into the working directory (train.yaml).
  --minutes 15           time of the race between launches, with its confirmation
  --more                 go on with the race, for so many minutes more
  --processes 1,2,4,8    how many at once; by default a grid of this machine
  --one-model            how soon is one model done?, in place of how many per hour
  --set KEY=VALUE        any key of the config, as in --set measure.windows=2
  --name NAME            of the study and its files
  --dry-run              check all, and run nothing

CONFIG is a study's file. config/quick.yaml and the other configs in {PROJECT / "config"}
need no file in the working directory. All other options are Snakemake's: --dry-run, --cores 64, …
Short for: {shlex.join(SNAKEMAKE)} … --configfile CONFIG

Results are in results/<study>/ and reports/<study>.html of the working directory.
-v, --verbose shows Snakemake's own output."""


def main() -> None:
    """Replace this process by Snakemake, or print the help or the version."""
    if "--" in sys.argv:
        at = sys.argv.index("--")
        given = one_command.options(sys.argv[1:at])
        _run(one_command.prepare(sys.argv[at + 1 :], given))
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
    _run([*options, "--configfile", config])


def _run(options: list[str]) -> NoReturn:
    # -P: no file in the user's folder shadows a module of Snakemake.
    words = [sys.executable, "-P", "-m", *SNAKEMAKE, *options]
    sys.stdout.flush()
    os.execv(sys.executable, words)  # noqa: S606 (no shell is wanted)


if __name__ == "__main__":
    main()
