"""The script that starts what a study recommends, without Snakemake and without the harness.

``workflow/report/launch.sh.j2`` is plain bash around ``bind.py``, meant to be read and copied. All
values are quoted with ``shlex.quote``. Texts that only inform are comments of one line each.
"""

import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import jinja2

from scaling_study.common import placeholders
from scaling_study.common.printable import printable
from scaling_study.common.quantities import format_count, format_estimate, format_number, known
from scaling_study.common.storage import TEMPLATES
from scaling_study.config import work
from scaling_study.config.plan import Plan
from scaling_study.config.workload import Workload
from scaling_study.launch.axes import ranks
from scaling_study.launch.axes.launcher import LAUNCHERS, interpreter
from scaling_study.queues import bind, model_queue
from scaling_study.records.analysis import Confirmation, Recommendation, Recommended
from scaling_study.report.words import confirmed_amount, sureness
from scaling_study.runner.environment import INHERITED, LIBRARY_FOLDER, activated
from scaling_study.runner.switch_script import command, served_command, switched

BINDER = [sys.executable, "-P", str(bind.__file__)]
QUEUE = [sys.executable, "-P", str(model_queue.__file__)]
"""``-P`` keeps this package's folder, with modules named like common ones, off the path."""
SWITCHES, IMPORTS, ARRAY_JOB = BESIDE = (".switches.py", ".imports.json", ".sbatch")
"""Ends of the names of the files beside a launch script: the code that applies the launch's
switches in a process, the imports before a model is forked, and the array job for several nodes."""
COLUMNS, ROW = 76, 8
"""An array longer than this many characters is written in lines of this many words."""
MARK = "\0"
"""Stands for the member's number while a word is quoted; no argument can contain it."""

SBATCH = ("partition", "account", "qos", "constraint")
"""Keys of a kind of node that are options of sbatch."""


def render_launch_script(
    recommendation: Recommendation,
    confirmation: Confirmation,
    plan: Plan,
    script: Path,
    builds: Path,
) -> str:
    """Write the launch script of one machine's recommendation.

    Args:
        recommendation: the machine's.
        confirmation: the machine's.
        plan: plan.json.
        script: path of the launch script; files with its name and ends in `BESIDE` lie beside it.
        builds: folder of the environments that were made from requirements.

    Returns:
        The text of a bash script. If nothing is recommended, the script prints why and fails.
    """
    launch = recommendation.recommended
    if launch is None:
        message = f"nothing to recommend: {one_line(recommendation.reason)}"
        return _template("nothing.sh.j2").render(study=plan.study, message=message)
    workload, axes = plan.workload, launch.axes
    python = interpreter(str(axes.get("build", "default")), builds) or work.interpreter(workload)
    words, passed = work.program(workload), workload.pass_env
    switches = script.with_suffix(SWITCHES).absolute() if switched(axes) else None
    variables, before = _environment(
        launch.requested_env, mark=work.marks(workload), built=activated(python, {})
    )
    group = ranks.asked(axes)
    server = workload.forks and group is None
    return _template("launch.sh.j2").render(
        script=work.name(workload),
        plan=plan,
        launch=launch,
        slots=launch.slots[: 1 if workload.starts_processes else launch.n],
        measured=confirmed_amount(confirmation) or _measured(launch),
        sureness=sureness(recommendation),
        note=LAUNCHERS[str(axes["launcher"])].note,
        bind=BINDER,
        queue=QUEUE,
        command=command(work.python_of(workload, python), words, switches),
        server=served_command(python, words, switches) if server else [],
        start=confirmation.start,
        imports=str(script.with_suffix(IMPORTS).absolute()),
        ranks=group,
        arguments=_arguments(workload, launch),
        needed=passed,
        kept=[
            key for key in (*INHERITED, *passed) if launch.requested_env.get(key, "") is not None
        ],
        variables=variables,
        before=before,
        folder=work.folder(workload),
    )


def render_array_job(study: str, script: Path, kind: str, options: Mapping[str, object]) -> str:
    """Write the array job of SLURM in which several nodes of a kind train one list of models.

    Args:
        study: name of the study.
        script: the launch script of the kind.
        kind: its name in the config; empty for the study's only machine.
        options: the kind's section of the config; only its keys in `SBATCH` count.
    """
    return _template("queue.sbatch.j2").render(
        study=study,
        of=f" of kind {kind}" if kind else "",
        name=script.with_suffix(ARRAY_JOB).name,
        script=str(script),
        share=f"{kind or 'node'}-",
        options=[f"--{name}={options[name]}" for name in SBATCH if options.get(name)],
    )


def _template(file: str) -> jinja2.Template:
    """Return a template of a bash script: its filters quote, and nothing is escaped as HTML."""
    environment = jinja2.Environment(  # noqa: S701 (bash: filters quote)
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        comment_start_string="{##",  # bash has ${#array[@]}
    )
    environment.filters.update(sh=shlex.quote, line=one_line, words=_words, count=format_count)
    return environment.get_template(file)


def _arguments(workload: Workload, launch: Recommended) -> Iterable[str]:
    """Yield the script's arguments as words of bash; the member's number is a variable."""
    values = work.parameters_of(workload, launch.axes)
    if workload.starts_processes:
        values[placeholders.N] = launch.n
    for argument in work.arguments(workload):
        marked = placeholders.fill(str(argument), {**values, placeholders.MEMBER: MARK})
        pieces = [shlex.quote(piece) if piece else "" for piece in marked.split(MARK)]
        yield '"$slot"'.join(pieces) or "''"


def _measured(launch: Recommended) -> str:
    """Return the throughput that the study found."""
    text = f"{format_estimate(launch.steps_per_s, launch.low, launch.high)} steps/s"
    models = launch.models_per_hour
    return f"{text}, {format_number(models)} models/hour" if known(models) else text


def _environment(
    values: Mapping[str, str | None], *, mark: bool, built: Mapping[str, str]
) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return the variables of members, None for those left out, and paths before the caller's."""
    variables, before = {**built, **values}, {}
    if "PATH" in built and "PATH" not in values:
        del variables["PATH"]
        before["PATH"] = built["PATH"]
    if mark:  # such a script imports this package, which other builds may not have
        path = values.get("PYTHONPATH")
        if path:
            variables["PYTHONPATH"] = f"{LIBRARY_FOLDER}{os.pathsep}{path}"
        else:
            before["PYTHONPATH"] = str(LIBRARY_FOLDER)
    return variables, before


def _words(values: Iterable[str]) -> str:
    """Quote the words of a bash array, over several lines where there are many."""
    words = [shlex.quote(value) for value in values]
    line = " ".join(words)
    if len(line) <= COLUMNS:
        return line
    rows = [" ".join(words[at : at + ROW]) for at in range(0, len(words), ROW)]
    return "".join(f"\n  {row}" for row in rows) + "\n"


def one_line(text: object) -> str:
    """Return a text on one line, for a comment, which a line break would end."""
    return " ".join(printable(text).split())
