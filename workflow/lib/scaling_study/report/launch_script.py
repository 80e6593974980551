"""The script that starts what a study recommends, without Snakemake and without the harness.

It is plain bash around ``bind.py``, and meant to be read and copied. All values are quoted with
``shlex.quote``; what only informs stands in comments, on one line each.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

from scaling_study.common import placeholders
from scaling_study.common.printable import printable
from scaling_study.common.quantities import (
    format_count,
    format_estimate,
    format_number,
    format_percent,
    format_probability,
    known,
)
from scaling_study.config.work import marks, parameters_of, program
from scaling_study.launch.axes import ranks
from scaling_study.launch.launchers.launcher_table import LAUNCHERS
from scaling_study.member.program import name
from scaling_study.runner.environment import LIBRARY_FOLDER, activated
from scaling_study.runner.switch_script import command, reused_command, switched

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

COLUMNS = 96

# torch takes the inter-op count from a call only. The rest is what `python script.py` does.
MARK = "\0"
"""Stands for the member's number while a word is quoted: no argument can hold it."""

# A script that marks its steps imports this package, which other builds may not have.
MARK_ENVIRONMENT = (
    f'  --env PYTHONPATH={shlex.quote(str(LIBRARY_FOLDER))}"${{PYTHONPATH:+:$PYTHONPATH}}"'
)

# A group's processes end with its model: what they have joined cannot be joined again.
NO_REUSE = """\
echo "--reuse is not for ranks: each model has a group of its own" >&2
    exit 2
    """

NOTHING = """\
#!/usr/bin/env bash
# Study {study} has nothing to recommend.
echo {message} >&2
exit 1
"""

SCRIPT = """\
#!/usr/bin/env bash
# Start {script_text} {times} with the launch that study {study} recommends.
#
#   launch    {label}
#   measured  {measured}
#   sureness  {sureness}
#
# usage: bash recommended.sh [LOGS]
#   Starts the members once. Fails if a member fails. Ctrl-C stops them all.
#   LOGS  folder for the members' output, one file each; default: a new folder in this one
#
#        bash recommended.sh --queue [--reuse] MODELS [LOGS]
#   Trains a list of models, {at_once}: when one has ended, the next one starts.
#   --reuse  each process trains one model after the other: Python and torch start once. A model
#           finds what the ones before it left in the process (random state, settings); one that
#           fails so is trained again in a process of its own
#   MODELS  a file with the script's arguments for one model on each line, quoted as for a shell;
#           lines that begin with # are comments
#   LOGS    folder for output and progress; default: MODELS with .logs at its end
#   The same command goes on after an interruption, and trains failed models again. The last line
#   says models/hour.
{note}set -euo pipefail
{needed}
# One small program sets CPUs, memory policy and environment, and becomes the member; another one
# works through a list of models.
bind=({bind})
queue=({queue})
command=({command})
reused=({reused})

# Of the caller's environment only these pass; whatever else a member gets is set here.
kept=({kept})
environment=({environment})
for name in "${{kept[@]}}"; do environment+=(--keep-env "$name"); done

# Of each member: its CPUs ('' is not bound) and its memory policy.
cpus=({cpus})
policies=({policies})

if [[ ${{1-}} == -* && $1 != --queue ]]; then
  sed -n '/^# usage/,/^[^#]/s/^#//p' "$0"
  [[ $1 == -h || $1 == --help ]]
  exit
fi
if [[ ${{1-}} == --queue ]]; then
  shift
  if [[ ${{1-}} == --reuse ]]; then
    {refused}shift
    queue+=(--reuse)
    command=("${{reused[@]}}")
  fi
  list=${{1:?--queue needs the file of the models}}
  models=$(realpath -- "$list")
  logs=$(realpath -m -- "${{2:-$list.logs}}")
  slots=()
  for slot in "${{!cpus[@]}}"; do slots+=(--slot "${{cpus[slot]}}" "${{policies[slot]}}"); done
  cd -- {folder}
  exec "${{queue[@]}}" --models "$models" --logs "$logs" "${{slots[@]}}" -- \\
    "${{bind[@]}}" "${{environment[@]}}" -- "${{command[@]}}"
fi

logs=${{1:-$PWD/recommended-$(date +%Y%m%d-%H%M%S)-$$}}
mkdir -p -- "$logs"
logs=$(cd -- "$logs" && pwd)
cd -- {folder}

members=()
stop() {{
  trap '' INT TERM
  echo "stopping ${{#members[@]}} members" >&2
  for signal in TERM KILL; do
    for member in "${{members[@]}}"; do
      kill -s "$signal" -- "-$member" 2>/dev/null || true
    done
    sleep 1  # a second to end by themselves
  done
}}
trap 'stop; exit 130' INT
trap 'stop; exit 143' TERM

set -m  # a process group for each member: its own child processes are stopped with it
for slot in "${{!cpus[@]}}"; do
  "${{bind[@]}}" ${{cpus[slot]:+--cpus "${{cpus[slot]}}"}} --mempolicy "${{policies[slot]}}" \\
    "${{environment[@]}}" --die-with "$$" -- \\
    {started} \\
    </dev/null >"$logs/member-$slot.log" 2>&1 &
  members+=("$!")
done
echo "started ${{#members[@]}} members; their output is in $logs"

failed=0
for slot in "${{!members[@]}}"; do
  wait "${{members[slot]}}" || {{
    echo "member $slot failed with status $?; see $logs/member-$slot.log" >&2
    failed=1
  }}
done
exit "$failed"
"""


def render_launch_script(
    recommendation: Mapping[str, Any],
    plan: Mapping[str, Any],
    *,
    python: str,
    binder: Sequence[str],
    queue: Sequence[str],
    folder: str,
    kept: Sequence[str],
    switches_file: Path,
) -> str:
    """Write the launch script of one machine's recommendation.

    Args:
        recommendation: one machine's entry of analysis/recommendation.json.
        plan: plan.json.
        python: the interpreter of the launch's build.
        binder: the command line of ``bind.py``, to which its options are added.
        queue: the command line of ``model_queue.py``, likewise.
        folder: the folder in which the program runs.
        kept: names of the variables that members inherit.
        switches_file: the file that makes the launch's switches true (see ``switch_script``).

    Returns:
        The text of a bash script. Where nothing is recommended it says why and fails.
    """
    study = _one_line(plan["study"])
    if recommendation["status"] != "ok":
        message = f"nothing to recommend: {_one_line(recommendation['reason'])}"
        return NOTHING.format(study=study, message=shlex.quote(message))
    launch = recommendation["recommended"]
    workload = plan["workload"]
    slots = launch["slots"][: 1 if workload.get("pool") else launch["n"]]
    values = launch["requested_env"]
    words, passed = program(workload), workload["pass_env"]
    switches = switches_file if switched(launch["axes"]) else None
    own = parameters_of(workload, launch["axes"])
    if workload.get("pool"):
        own[placeholders.N] = launch["n"]
    return SCRIPT.format(
        script_text=_one_line(name(words)),
        times=format_count(len(slots), "time"),
        study=study,
        label=_one_line(launch["label"]),
        measured=_measured(launch),
        sureness=_sureness(recommendation),
        note=_launcher_note(launch["axes"]["launcher"]),
        at_once=f"{len(slots)} at once" if len(slots) > 1 else "one after the other",
        bind=_words(binder),
        queue=_words(queue),
        command=_words(command(python, words, switches)),
        reused=_words(reused_command(python, words, switches)),
        refused="" if ranks.asked(launch["axes"]) is None else NO_REUSE,
        started=" ".join(
            ['"${command[@]}"', *(_argument(str(argument), own) for argument in workload["args"])]
        ),
        needed="".join(f'\n: "${{{name}:?the script needs it}}"' for name in passed),
        kept=_words(name for name in (*kept, *passed) if values.get(name, "") is not None),
        environment=_environment(
            values,
            marks=marks(workload),
            group=ranks.asked(launch["axes"]),
            activated=activated(python, {}),
        ),
        cpus=_words(slot["cpus"] or "" for slot in slots),
        policies=_words(slot["policy"] for slot in slots),
        folder=shlex.quote(folder),
    )


def _argument(text: str, own: Mapping[str, Any]) -> str:
    """One argument as a word of bash, in which the member's number is a variable.

    Args:
        text: as the config has it.
        own: values of the study's own axes.
    """
    marked = placeholders.fill(text, {**own, placeholders.MEMBER: MARK})
    pieces = [shlex.quote(piece) if piece else "" for piece in marked.split(MARK)]
    return '"$slot"'.join(pieces) or "''"


def _launcher_note(launcher: str) -> str:
    """How the measured members were started, where this script does it otherwise."""
    return "".join(f"# {line}\n" for line in LAUNCHERS[launcher].note)


def _measured(launch: Mapping[str, Any]) -> str:
    """The throughput that the study found."""
    text = f"{format_estimate(launch['steps_per_s'], launch['low'], launch['high'])} steps/s"
    models = launch["models_per_hour"]
    return f"{text}, {format_number(models)} models/hour" if known(models) else text


def _sureness(recommendation: Mapping[str, Any]) -> str:
    """How sure it is that there is nothing better in the study."""
    probability = recommendation["recommended"]["probability_best"]
    if not known(probability):
        return "unknown: one replicate"
    return (
        f"{format_probability(probability)} probability that no launch of the study is more than "
        f"{format_percent(recommendation['tolerance'])} faster"
    )


def _environment(
    values: Mapping[str, str | None],
    *,
    marks: bool,
    group: int | None,
    activated: Mapping[str, str],
) -> str:
    """Options of bind.py, one a line; a variable without a value is not passed on."""
    own = {**activated, **values}
    if marks and (path := values.get("PYTHONPATH")):
        own["PYTHONPATH"] = f"{LIBRARY_FOLDER}{os.pathsep}{path}"
    if before := "PATH" in activated and "PATH" not in values:
        del own["PATH"]
    lines = [
        f"  --env {shlex.quote(f'{name}={value}')}"
        for name, value in sorted(own.items())
        if value is not None
    ]
    if before:
        lines.append(f'  --env PATH={shlex.quote(activated["PATH"])}:"$PATH"')
    if marks and not values.get("PYTHONPATH"):
        lines.append(MARK_ENVIRONMENT)
    if group is not None:
        lines.append(f"  --ranks {group}")
    return "".join(f"\n{line}" for line in lines) + ("\n" if lines else "")


def _words(values: Iterable[str]) -> str:
    """Quoted words of a bash array, over several lines where there are many."""
    words = [shlex.quote(value) for value in values]
    line = " ".join(words)
    if len(line) <= COLUMNS - 20:
        return line
    # Word by word: a quoted word may hold spaces, at which no line may break.
    lines: list[str] = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) >= COLUMNS:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else f"  {word}"
    return "\n" + "\n".join(lines) + "\n"


def _one_line(text: object) -> str:
    """Text for a comment: a line break in it would end the comment."""
    return " ".join(printable(text).split())
