"""The `workload` section of a config: the training script, and how it is called."""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeAlias, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, model_validator
from typing_extensions import TypedDict

from scaling_study.common import placeholders
from scaling_study.common.problems import (
    ConfigError,
    Problem,
    may_be_secret,
    nearest_word,
    require_file,
    require_folder,
    require_path,
    shorten,
    wrong,
)
from scaling_study.config.mistakes import MISSING
from scaling_study.config.section import (
    PARAMETERS,
    Items,
    Parameter,
    ParameterName,
    Section,
    Steps,
    Text,
    Variable,
    allowed,
    must_exist,
    unit,
)
from scaling_study.launch.axes.launcher import INTERPRETER, read_interpreter
from scaling_study.member.iterations import MARK

T = TypeVar("T")

SCRIPT = "the path of a Python file, relative to workload.cwd"
COMMAND = 'the words of a command, such as ["bash", "train.sh", "{member}"]'
FOLDER = "the path of a folder, relative to the working directory"
MODULE = "the name of a module, such as mypkg.train"
LOADER = "module:Class, as in __main__:Batches for a class of the script itself"
OPTIMIZER = "the name of an optimizer's class, such as AdamW"
VARIABLES = "names of variables (letters, digits and _, no digit first)"
STEP = (
    "auto, optimizer, mark, backward, run, {every: a whole number from 1}, or"
    " {optimizer: a class's name}"
)
AUTO: Final = "auto"
RUN: Final = "run"
"""Steps: those that one observed start shows; whole runs of the program."""


def _read_public(name: str) -> str:
    if may_be_secret(name):
        raise wrong(
            name,
            "may be a secret, and plan, records and report show values of workload.env",
            "such a variable in your shell, and its name in workload.pass_env",
            f"pass_env: [{name}]",
        )
    return name


def _read_passed(name: str, info: ValidationInfo) -> str:
    if must_exist(info) and name not in os.environ:
        raise wrong(name, "is not set in this shell", "a variable that is set: export it first")
    return name


def _read_python(value: str, info: ValidationInfo) -> str:
    return read_interpreter(value, f"{INTERPRETER}, or null", files=must_exist(info))


def _read_cwd(value: str, info: ValidationInfo) -> str:
    if must_exist(info):
        require_folder(str(Path(value).expanduser()), "")
    return value


def _cwd(info: ValidationInfo) -> str:
    """Return the folder in which the workload runs; empty if it is the working directory."""
    cwd = info.data.get("cwd")
    return str(Path(cwd).expanduser()) if cwd else ""


def _read_script(value: str | None, info: ValidationInfo) -> str | None:
    others = [name for name in ("module", "command") if info.data.get(name)]
    if value is None and not others and {"module", "command"} <= info.data.keys():
        right = f"{SCRIPT}, or workload.module, or workload.command"
        raise ConfigError([Problem((), "", MISSING, right)])
    if len(others) + (value is not None) > 1:
        raise wrong(value or others[-1], f"stands beside workload.{others[0]}", "one of both")
    if value is not None and must_exist(info):
        require_file(value, SCRIPT, _cwd(info))
    return value


def _read_input(value: str, info: ValidationInfo) -> str:
    if must_exist(info):
        require_path(value, "a file or a folder", _cwd(info))
    return value


def _read_argument(text: str, info: ValidationInfo) -> str:
    parameters = info.data.get("parameters")  # None if they have mistakes
    known = [placeholders.MEMBER, placeholders.N, *(parameters or {})]
    name = next((name for name in placeholders.names(text) if name not in known), None)
    if name and parameters is not None:
        nearest = nearest_word(name, known)
        raise wrong(
            text,
            f"{{{name}}} stands for nothing",
            f"{', '.join(f'{{{one}}}' for one in known)}, and what workload.parameters "
            f"declares; {{{{{name}}}}} passes the text {{{name}}}",
            nearest and f"{{{nearest}}}",
        )
    return text


Arguments = Annotated[
    tuple[Annotated[Text, AfterValidator(_read_argument)], ...], Field(strict=False)
]


def _read_command(words: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    if words and must_exist(info):
        folder = Path(_cwd(info))
        if not shutil.which(words[0]) and not os.access(folder / words[0], os.X_OK):
            raise wrong(words[0], "is no program of PATH or workload.cwd", COMMAND)
    return words


def _read_samples(value: T, info: ValidationInfo) -> T:
    known = info.data.get("parameters", {})
    if isinstance(value, str) and value != MARK and value not in known:
        raise wrong(value, "is no parameter", nearest=nearest_word(value, [*known, MARK]))
    return value


class StepRule(TypedDict, total=False):
    """The steps of optimizers that end an iteration."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    every: Annotated[int, Field(ge=1)]
    optimizer: Annotated[str, allowed(OPTIMIZER, pattern=r"^[^\W\d]\w*$")]


Unit: TypeAlias = Literal["auto", "optimizer", "mark", "backward", "run"] | StepRule


def _read_step(value: T) -> T:
    if isinstance(value, Mapping) and len(value) != 1:
        raise wrong(value, f"has {len(value)} keys")
    return value


class Workload(Section):
    """The training script that is measured."""

    python: Annotated[str, AfterValidator(_read_python), allowed(INTERPRETER)] | None = None
    """The interpreter that runs the script, in all launches; by default the study's own
    if it has torch, else `python` of your shell."""

    cwd: Annotated[str, AfterValidator(_read_cwd), allowed(FOLDER)] | None = None
    """The folder in which the script runs: relative paths of the script start there."""

    parameters: Annotated[Mapping[ParameterName, Parameter], allowed(PARAMETERS)] = Field(
        default={}
    )
    """Axes that this study defines, each with its default; `launches` gives them further values."""

    module: Annotated[str, allowed(MODULE, pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*$")] | None = None
    """The module that `python -m` runs, in place of a script."""

    command: Annotated[Arguments, AfterValidator(_read_command), allowed(COMMAND)] = ()
    """Any program, in place of a script; it is measured as whole runs. Changes inside a Python
    process do not apply to it."""

    script: Annotated[
        str | None, AfterValidator(_read_script), allowed(SCRIPT), Field(validate_default=True)
    ] = None
    """The training script, unmodified; required without `module` and `command`."""

    args: Annotated[
        Arguments, allowed('a list of texts and numbers, such as ["--seed", "{member}"]')
    ] = ()
    """Arguments of the script, as they are written (3.10 stays 3.10), with parameters in braces;
    `{member}` is the slot (0, 1, …); `{n}` is the number of processes, if the script starts them.
    """

    env: Annotated[
        Mapping[Annotated[Variable, AfterValidator(_read_public)], Text],
        allowed(f"a section of {VARIABLES} with a text or number each"),
    ] = Field(default={})
    """Variables for members alone, as they are written; those that an axis sets are refused."""

    pass_env: Annotated[
        Items[Annotated[Variable, AfterValidator(_read_passed)]],
        allowed("a list of names of variables, such as [API_KEY]"),
    ] = ()
    """Names of variables that members get from your shell, such as keys; no file contains them."""

    step: Annotated[Unit, AfterValidator(_read_step), allowed(STEP)] = AUTO
    """Unit of work: a round of the script's optimizers, its `scaling_study.mark()`, a backward
    pass, or a whole run of the program; `auto` decides by one observed start."""

    steps_per_model: Annotated[Literal["auto"] | Steps | None, unit("steps")] = "auto"
    """Steps that train one model (`auto`: as many as the script does; null: compare steps only)."""

    samples_per_step: Annotated[
        Annotated[int, Field(gt=0)] | Annotated[float, Field(gt=0)] | str | None,
        AfterValidator(_read_samples),
        allowed("a number above 0, the name of a parameter, mark, or null", unit="samples"),
    ] = None
    """Samples in a step (mark: as the script counts); launches are compared by equal work."""

    samples_per_epoch: Annotated[Annotated[int, Field(ge=1)] | None, unit("samples")] = None
    """Samples of an epoch: the report then gives the time per epoch; needs samples_per_step."""

    loader: Annotated[str, allowed(LOADER, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] | None = None
    """Your own data-loader class, as `module:Class`. It is timed like torch's."""

    inputs: Annotated[
        Items[Annotated[str, AfterValidator(_read_input)]],
        allowed("a list of paths of files and folders"),
    ] = ()
    """Other files and folders, such as data; a new size or time of one repeats the study."""

    fresh_folder: bool = False
    """Each start of the script runs in a new folder, with links to what `cwd` holds, so
    that it finds no result of an earlier start. Paths that lead out of the folder must be absolute.
    """

    @property
    def runs(self) -> bool:
        """Whether whole runs of the program are measured, and no steps in it."""
        return self.step == RUN

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the config in which placeholders stand: the command, and the arguments."""
        return (*self.command, *self.args)

    @property
    def starts_processes(self) -> bool:
        """Whether the program itself starts n processes, as ``{n}`` tells it."""
        return any(placeholders.N in placeholders.names(text) for text in self.words)

    @property
    def pool(self) -> bool:
        """Whether steps are counted in processes that the program itself starts."""
        return self.starts_processes and not self.runs and self.step != AUTO

    @property
    def forks(self) -> bool:
        """Whether models may be forked: processes of Python that each train one."""
        return not (self.starts_processes or self.command)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        unit: Unit = RUN if self.command and self.step == AUTO else self.step
        if problems := [*self._unused(), *self._against(unit)]:
            raise ConfigError(problems)
        length = 1 if unit == RUN else self.steps_per_model
        return self.model_copy(update={"step": unit, "steps_per_model": length})

    def _unused(self) -> Iterator[Problem]:
        """Yield a problem for each parameter that nothing uses."""
        texts = [*self.words, *self.env.values()]
        used = {name for text in texts for name in placeholders.names(text)}
        what = "is used by no argument and no variable"
        for name in sorted(self.parameters.keys() - used):
            right = f"{{{name}}} in workload.args or workload.env"
            yield Problem(("parameters", name), shorten(self.parameters[name]), what, right)

    def _against(self, unit: object) -> Iterator[Problem]:
        """Yield a problem for each key that does not go with the unit of work."""
        if unit == RUN:
            what = "is about steps, and whole runs of the program are measured"
            said = {
                "steps_per_model": self.steps_per_model not in {AUTO, 1},
                "samples_per_step": self.samples_per_step == MARK,
                "loader": self.loader is not None,
            }
            for name in [name for name, wrong in said.items() if wrong]:
                yield Problem((name,), shorten(getattr(self, name)), what, "no such key here")
        elif self.command:
            what = "is no unit of a command, in which no steps are seen"
            yield Problem(("step",), shorten(unit), what, "run, or workload.script or module")
        elif self.pool and any(placeholders.MEMBER in placeholders.names(one) for one in self.args):
            what = "numbers processes of the study, and with {n} the program itself starts these"
            yield Problem(("args",), "{member}", what, "{n} alone, or workload.step: run")
