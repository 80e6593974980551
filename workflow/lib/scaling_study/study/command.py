"""The command ``torch-scaling-study``: Snakemake with this workflow, in the working directory.

The words after ``--`` are a command as it is typed, for which a config is written:
``torch-scaling-study --minutes 30 -- python train.py --seed {}``
"""

import argparse
import json
import math
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NoReturn

import yaml

from scaling_study.common.placeholders import MEMBER, N
from scaling_study.common.problems import nearest_file, nearest_word
from scaling_study.common.storage import PROJECT
from scaling_study.common.topology import Topology
from scaling_study.config import work
from scaling_study.config.config_file import merged
from scaling_study.host.system import read_topology

SNAKEMAKE = [
    *("snakemake", "--snakefile", str(PROJECT / "Snakefile")),
    *("--workflow-profile", str(PROJECT / "profiles/default"), "--cores", "all"),
]
VERBOSE = {"-v", "--verbose"}
Section = dict[str, object]
PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
UNBUFFERED = "-u"
"""The only option of Python that changes nothing that is measured."""
SLOT = "{}"
MINUTES = 15
BASELINE: Section = {"intra_op": 1}
CHANGES: Section = {
    "intra_op": [2],
    "allocator": ["glibc-large-thresholds", "mimalloc"],
    "blas": ["mkl", "openblas"],
}
"""Launches of a study of any command; the report says what is not installed."""
CHANGES_OF_STEPS: Section = {"optimizer_kernel": ["fused"], "gc": ["frozen"]}
"""Further ones where Python runs a script."""
OF_ALL = ("intra_op", "allocator", "blas")
"""Changes that reach all processes of a program, however they are started."""
COMMENTS = {
    "  python": "the interpreter of your command",
    "  script": "runs as it is",
    "  args": "{member} is 0, 1, 2, … for each process",
    "  command": "whole runs of it are counted; {member} is 0, 1, 2, … for each process",
    "processes": "or counts, such as [1, 2, 4, 8]",
    "launches": "beside the default one and today's; each change alone, the race combines them",
    "search": "race and confirmation together",
    "measure": "of each start and process count; the race takes more starts instead",
    "profile": "or quick: operators and flamegraphs, some four minutes; or full",
    "why": "experiments on today's launch and the recommended one: some minutes; or off",
}
"""What a config says about its keys. They are the beginnings of its lines."""
PROCESSES = f"{{{N}}}"
VARIABLE = re.compile(r"[A-Za-z_]\w*=")
SHEBANG = re.compile(rb"#!\s*(?:\S*/env\s+)?(\S*python[\d.]*)\s*\n")
BEFORE = {"conda", "env", "ionice", "nice", "nohup", "numactl", "poetry", "taskset", "time", "uv"}
"""Programs that start another one. If they start this command, it finds the script."""
NAME = re.compile(r"[^A-Za-z0-9_-]+")
USAGE = "torch-scaling-study [options] -- COMMAND"

HELP = f"""\
usage: {USAGE}
       torch-scaling-study CONFIG [-v] [snakemake's options and targets]

COMMAND is the program as you type it, as in: python train.py --seed {{}}. Here {{}} is
the number of a process: 0, 1, 2, ... Its config is written into the working directory (train.yaml).
  --minutes 15           time of the race between launches, with its confirmation
  --more                 go on with the race, for so many minutes more
  --processes 1,2,4,8    how many at once; by default a grid of this machine
  --one-model            how soon is one model done?, in place of how many per hour
  --set KEY=VALUE        any key of the config, as in --set measure.windows=2
  --name NAME            of the study and its files
  --dry-run              check all, say what would be measured, and run nothing

CONFIG is a study's file. config/quick.yaml and the other configs in {PROJECT / "config"}
need no file in the working directory. All other options are Snakemake's: --dry-run, --cores 64, …
Short for: {shlex.join(SNAKEMAKE)} … --configfile CONFIG

Results are in results/<study>/ and reports/<study>.html of the working directory.
-v, --verbose shows Snakemake's own output."""


def main() -> None:
    """Replace this process by Snakemake, or print the help or the version."""
    if "--" in sys.argv:
        at = sys.argv.index("--")
        given = read_options(sys.argv[1:at])
        files = prepare(sys.argv[at + 1 :], given)
        if given.dry_run:
            config, *further = files
            _run("scaling_study", "check", config, *(["--changes", *further] if further else []))
        verbose = ["--logger-study-verbose"] if given.verbose else []
        _run(*SNAKEMAKE, *verbose, "--configfile", *files)
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
    options = ["--logger-study-verbose" if option in VERBOSE else option for option in options]
    _run(*SNAKEMAKE, *options, "--configfile", config)


def _run(*module: str) -> NoReturn:
    # -P: no file in the user's folder shadows a module of Snakemake.
    words = [sys.executable, "-P", "-m", *module]
    sys.stdout.flush()
    os.execv(sys.executable, words)  # noqa: S606 (no shell is wanted)


class _Parser(argparse.ArgumentParser):
    """Says a mistake in a line, with the nearest option."""

    def error(self, message: str) -> NoReturn:
        """End with the mistake."""
        wrong = message.removeprefix("unrecognized arguments: ").split()[0]
        near = nearest_word(wrong, self._option_string_actions) if wrong != message else ""
        also = f"; did you mean {near}?" if near else ""
        self.exit(2, f"{message}{also}\n{self.format_usage()}")


def read_options(words: Sequence[str]) -> argparse.Namespace:
    """Return the options before ``--``; a mistake ends the program with a line that names it."""
    parser = _Parser(usage=USAGE, allow_abbrev=False, add_help=False)
    parser.add_argument("--minutes", type=float, metavar="15")
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--processes", metavar="1,2,4,8")
    parser.add_argument("--one-model", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--name")
    parser.add_argument("--dry-run", "-n", action="store_true")
    parser.add_argument("--verbose", "-v", action="store_true")
    options = parser.parse_args(words)
    for text in options.set:
        key, equals, _ = text.partition("=")
        if not (key and equals):
            parser.error(f"--set {text}: no value; allowed: KEY=VALUE, as in measure.windows=2")
    return options


def workload(words: Sequence[str]) -> tuple[Section, str]:
    """Return the config's section ``workload`` for a command, and the study's name.

    Args:
        words: the command as it is typed in a shell; ``{}`` stands for the number of a process.

    Raises:
        SystemExit: there is no such program, or no such script.
    """
    first, *rest = (word.replace(SLOT, f"{{{MEMBER}}}") for word in words)
    if VARIABLE.match(first):
        raise SystemExit(
            f"{first}: variables belong before torch-scaling-study, as in: {first}"
            " torch-scaling-study -- python train.py"
        )
    program = shutil.which(first)
    if program is None:
        raise SystemExit(f"{first}: no such program on PATH")
    if first.endswith(".py") and (line := SHEBANG.match(Path(program).read_bytes())):
        return workload([line[1].decode(), *words])
    rest = rest[1:] if rest[:1] == [UNBUFFERED] else rest
    if PYTHON.fullmatch(Path(first).name) and rest:
        program = work.behind_shim(program)
        if rest[0] == "-m" and rest[1:]:
            return {"python": program, "module": rest[1], "args": rest[2:]}, _study_name(rest[1])
        if not rest[0].startswith("-"):
            if not Path(rest[0]).is_file():
                near = nearest_file(rest[0])
                also = f"; did you mean {near}?" if near else ""
                raise SystemExit(f"{rest[0]}: no such file{also}")
            name = _study_name(Path(rest[0]).stem)
            return {"python": program, "script": rest[0], "args": rest[1:]}, name
    script = next((word for word in rest if Path(word).suffix), first)
    return {"command": [first, *rest]}, _study_name(Path(script).stem)


def _study_name(text: str) -> str:
    name = NAME.sub("-", text).strip("-")
    return name if name[:1].isalpha() else f"study-{name}".rstrip("-")


def changes(options: argparse.Namespace, before: float | None) -> Section:
    """Return the sections of a config that options set.

    Args:
        options: the options.
        before: the budget of the study so far (min); None if there is none.
    """
    sections: Section = {}
    minutes = options.minutes
    if options.more:
        minutes = (before or 0.0) + (minutes or MINUTES)
    if minutes is not None:
        sections["search"] = {"budget_minutes": minutes}
    if options.processes is not None:
        sections["processes"] = yaml.safe_load(f"[{options.processes}]")
    if options.one_model:
        sections["objective"] = "one_model"
    for text in options.set:
        key, _, value = text.partition("=")
        *outer, last = key.split(".")
        section = sections
        for name in outer:
            section = section.setdefault(name, {})  # type: ignore[assignment]
        section[last] = yaml.safe_load(value)
    return sections


def placements(machine: Topology) -> list[str]:
    """Return the placements that may differ from each other on a machine."""
    usable = machine.restricted(os.sched_getaffinity(0))
    parts = {"spread": usable.domains("l3"), "fast_cores": usable.kinds}
    return ["cores", *(word for word, several in parts.items() if len(several) > 1)]


def text_of(name: str, section: Section, changed: Section, typed: str) -> str:
    """Return the text of a config, with a comment on each line that people change."""
    singles = {**CHANGES, "placement": placements(read_topology())}
    if "command" not in section:
        singles |= CHANGES_OF_STEPS
    if PROCESSES in str(section):  # the program starts them itself, so nothing else reaches each
        singles = {axis: singles[axis] for axis in OF_ALL}
    sections: Section = {
        "study": name,
        "workload": section,
        "processes": "auto",
        "launches": {"baseline": BASELINE, "one_change": singles},
        "search": {"budget_minutes": MINUTES},
        "measure": {"windows": 1},
        "profile": "off",
        "why": "quick",
    }
    body = yaml.dump(
        merged(sections, changed), Dumper=_Dumper, default_flow_style=None, sort_keys=False,
        width=math.inf, allow_unicode=True,
    )  # fmt: skip
    lines = [
        f"# Written by: {typed}",
        f"# Change what you like; `torch-scaling-study {name}.yaml` goes on with it.",
        f"# Every key: {PROJECT / 'config/README.md'}",
    ]
    for line in body.split("\n"):
        comment = COMMENTS.get(line.partition(":")[0])
        lines.append(f"{line}  # {comment}" if comment else line)
    return "\n".join(lines)


class _Dumper(yaml.SafeDumper):
    """Writes a text with line breaks in one line, behind which there is room for a comment."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style='"' if "\n" in text else None
    ),
)


def prepare(typed: Sequence[str], options: argparse.Namespace) -> list[str]:
    """Write a command's config, or find it; return it, and a file with further options.

    Args:
        typed: the words after ``--``.
        options: the options before it.

    Raises:
        SystemExit: there is no command, no such program, or a config of another one.
    """
    if not typed:
        raise SystemExit("no command after --; as in: torch-scaling-study -- python train.py {}")
    section, name = workload(typed)
    name = options.name or name
    path, plan = Path(f"{name}.yaml"), Path(f"results/{name}/plan.json")
    before = json.loads(plan.read_text())["search"]["budget_minutes"] if plan.exists() else None
    changed = changes(options, before)
    there, files = path.exists(), [str(path)]
    if there:
        held = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(held, dict) or not _same(held.get("workload"), section):
            raise SystemExit(
                f"{path} is the config of another command. Go on with it: torch-scaling-study"
                f" {path}. Or give this study a name: --name {name}-2"
            )
        if changed:  # keys of a later file come before those of an earlier one
            beside = plan.with_name("options.yaml")
            beside.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(yaml.safe_dump(changed), encoding="utf-8")
            files.append(str(beside))
    else:
        line = shlex.join(["torch-scaling-study", "--", *typed])
        path.write_text(text_of(name, section, changed, line), encoding="utf-8")
    # Copies of a script are compared when one start is observed; nothing looks into a command.
    same = "command" in section and not any(SLOT in word for word in typed)
    print("\n".join(_said(name, section, path, there=there, same=same)))
    return files


def _same(held: object, section: Section) -> bool:
    """Return whether a config's workload runs this command; further keys do not matter."""
    return isinstance(held, Mapping) and all(held.get(key) == section[key] for key in section)


def _said(name: str, section: Section, path: Path, *, there: bool, same: bool) -> list[str]:
    """Return what was inferred, in lines that say what to type to change it."""
    program = "-m " + str(section["module"]) if "module" in section else section.get("script", "")
    args = section.get("args") or section.get("command")
    shown = shlex.join(map(str, args)) if isinstance(args, list) else ""
    lines = [
        f"study {name} (--name): {section.get('python', '')} {program} {shown}".replace("  ", " "),
        f"  in {Path.cwd()}; {{{MEMBER}}} is the number of a process: 0, 1, 2, ...",
    ]
    if str(args[0] if isinstance(args, list) and args else "") in BEFORE and "command" in section:
        lines.append(
            "  whole runs of it are counted; steps are counted if it starts torch-scaling-study:"
            f" {shown.partition(' python ')[0]} torch-scaling-study -- python ..."
        )
    if same:
        lines.append(
            f"  all processes get the same arguments: put {SLOT} where they should differ (a seed,"
            " a file that they write)"
        )
    kept = "goes on with" if there else "writes"
    lines.append(
        f"  {kept} {path}: change what you like there; --minutes, --processes 1,2,4 and --set"
        " KEY=VALUE do it here"
    )
    return lines


if __name__ == "__main__":
    main()
