"""What a study is asked to do: the config, checked completely before anything runs."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from scaling_study.common import placeholders
from scaling_study.common.named_files import require_file, require_folder, require_path
from scaling_study.common.problems import (
    MASK,
    ConfigError,
    Problem,
    found,
    may_be_secret,
    nearest_number,
    nearest_word,
    read_distinct,
    read_each,
    shorten,
    wrong,
)
from scaling_study.config.config_confirm import (
    CONFIRMED_SHARE,
    LEAST_RACE_S,
    Confirm,
    read_confirm,
)
from scaling_study.config.config_feed import FEED, read_feed
from scaling_study.config.config_launches import Launches
from scaling_study.config.config_machines import (
    CURRENCY,
    MACHINES,
    NodeKind,
    read_currency,
    read_machines,
)
from scaling_study.config.config_parameters import (
    PARAMETERS,
    declared,
    read_parameters,
    read_text,
)
from scaling_study.config.config_schema import (
    MISSING,
    Allowed,
    Context,
    Section,
    Unit,
    must_exist,
    problems_of,
)
from scaling_study.config.config_search import Search, read_search
from scaling_study.config.config_why import TARGETS, Why, read_targets, read_why
from scaling_study.launch.axes.axis_table import AXES
from scaling_study.launch.axes.build import INTERPRETER, read_interpreter
from scaling_study.member.iterations import MARK

# A study's name is a folder, a file and part of a web address; it may not hide or look like an
# option.
STUDY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
STUDY_ALLOWED = "1 to 64 letters (a-z, A-Z), digits, _, - and ., a letter or digit first"
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Far above any machine; a larger count is a slip of the keyboard.
MOST_PROCESSES = 10_000
COUNT = f"a whole number from 1 to {MOST_PROCESSES}"
SCRIPT = "the path of a Python file, relative to workload.cwd"
MODULE = "the name of a module, such as mypkg.train, or null"
MODULE_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
CWD = "the path of a folder, relative to the working directory, or null"
PYTHON = f"{INTERPRETER}, or null"
INPUTS = "a list of paths of files and folders"
ARGUMENTS = 'a list of texts and numbers, such as ["--seed", "{member}"]'
VARIABLES = "a section of variable names with a text or number each"
PASSED = "a list of names of variables, such as [API_KEY]"


def _read_study(value: str) -> str:
    if not STUDY_NAME.fullmatch(value):
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", value).lstrip("_.-")[:64]
        raise wrong(value, "is not a study name", STUDY_ALLOWED, plain or None)
    return value


def _read_python(value: str | None, info: ValidationInfo) -> str | None:
    return value and read_interpreter(value, PYTHON, files=must_exist(info))


def _read_cwd(value: str | None, info: ValidationInfo) -> str | None:
    if value is not None and must_exist(info):
        require_folder(str(Path(value).expanduser()), CWD)
    return value


def _cwd(info: ValidationInfo) -> str:
    """Return the folder in which the workload runs, as far as it is known already."""
    return str(Path(info.data.get("cwd") or "").expanduser())


def _read_module(value: str | None) -> str | None:
    if value is not None and not MODULE_NAME.fullmatch(value):
        path = re.sub(r"\.py$", "", value).replace("/", ".").strip(".")
        raise wrong(value, "is no name of a module", MODULE, path if value != path else None)
    return value


def _read_script(value: str | None, info: ValidationInfo) -> str | None:
    module = info.data.get("module")
    if value is None and "module" in info.data and module is None:
        raise ConfigError([Problem((), "", MISSING, f"{SCRIPT}, or workload.module")])
    if value is not None and module is not None:
        raise wrong(value, "stands beside workload.module", "one of both")
    if value is not None and must_exist(info):
        require_file(value, SCRIPT, _cwd(info))
    return value


def _read_inputs(value: object, info: ValidationInfo) -> tuple[str, ...]:
    def read(item: object) -> str:
        if not isinstance(item, str):
            raise wrong(item, found(item), "a path")
        if must_exist(info):
            require_path(item, "a file or a folder", _cwd(info))
        return item

    return read_distinct(value, read, INPUTS)


def _read_arguments(value: object, info: ValidationInfo) -> tuple[str, ...]:
    parameters = info.data.get("parameters")  # none where these are mistaken
    pool = info.data.get("pool")
    known = [placeholders.N if pool else placeholders.MEMBER, *(parameters or {})]

    def read(_: object, item: object) -> str:
        text = read_text(item)
        name = placeholders.unknown(text, known)
        if name and parameters is not None:
            nearest = nearest_word(name, known)
            raise wrong(
                item,
                f"{{{name}}} stands for nothing",
                f"{', '.join(f'{{{one}}}' for one in known)}, and what workload.parameters "
                f"declares; {{{{{name}}}}} passes the text {{{name}}}",
                f"{{{nearest}}}" if nearest else None,
            )
        return text

    if not isinstance(value, list | tuple):
        nearest = str(value.split()) if isinstance(value, str) else None
        raise wrong(value, found(value), ARGUMENTS, nearest)
    texts = tuple(read_each(enumerate(value), read))
    if pool and placeholders.N not in {name for text in texts for name in placeholders.names(text)}:
        allowed = f"with workload.pool, {{{placeholders.N}}} for the number of processes that train"
        raise wrong(value, "has no {n}", allowed, '["--jobs", "{n}"]')
    return texts


def _read_variable_name(name: object, item: object) -> str:
    owners = {variable: axis for axis, one in AXES.items() for variable in one.variables}
    if not isinstance(name, str) or not VARIABLE_NAME.fullmatch(name):
        raise wrong(item, "is not a variable name", "letters, digits and _, no digit first")
    if name in owners:
        raise wrong(
            item,
            f"belongs to the axis {owners[name]}",
            "variables that no axis sets",
            f"launches.baseline.{owners[name]}",
        )
    return name


def _read_variables(value: object) -> dict[str, str]:
    def read(name: object, item: object) -> tuple[str, str]:
        variable = _read_variable_name(name, item)
        if may_be_secret(variable):
            raise wrong(
                item,
                "may be a secret, and plan, records and report show values of workload.env",
                "such a variable in your shell, and its name in workload.pass_env",
                f"pass_env: [{variable}]",
            )
        return variable, read_text(item)

    if not isinstance(value, Mapping):
        raise wrong(value, found(value), VARIABLES)
    return dict(read_each(value.items(), read))


def _read_passed(value: object, info: ValidationInfo) -> tuple[str, ...]:
    def read(item: object) -> str:
        name = _read_variable_name(item, item)
        if must_exist(info) and name not in os.environ:
            raise wrong(item, "is not set in this shell", "a variable that is set: export it first")
        return name

    return read_distinct(value, read, PASSED)


def _read_processes(value: object) -> Literal["auto"] | tuple[int, ...]:
    def read(item: object) -> int:
        if isinstance(item, bool) or not isinstance(item, int):
            raise wrong(item, found(item), COUNT, nearest_number(item))
        if not 1 <= item <= MOST_PROCESSES:
            raise wrong(item, "is not allowed", COUNT)
        return item

    if value == "auto":
        return "auto"
    if isinstance(value, str):
        raise wrong(value, "is not a known word", PROCESSES, nearest_word(value, ["auto"]))
    counts = read_distinct(value, read, PROCESSES)
    if not counts:
        raise wrong(value, "is empty", PROCESSES, "auto")
    return counts


PROCESSES = f"auto, or a list of counts, each {COUNT}"


STEP = "optimizer, mark, {every: k} with a whole number from 1, or {optimizer: the name of a class}"
STEP_KEYS = ("every", "optimizer")


def _read_step(value: object) -> str | dict[str, int | str]:
    if isinstance(value, str):
        if value not in {"optimizer", "mark"}:
            nearest = nearest_word(value, ["optimizer", "mark"])
            raise wrong(value, "is not a known word", STEP, nearest)
        return value
    if not isinstance(value, Mapping) or len(value) != 1:
        raise wrong(value, found(value), STEP)
    ((key, item),) = value.items()
    if key not in STEP_KEYS:
        raise wrong(key, "is not a known key", STEP, nearest_word(key, STEP_KEYS))
    if key == "every":
        if isinstance(item, bool) or not isinstance(item, int) or item < 1:
            raise wrong(item, found(item), "a whole number from 1", nearest_number(item))
        return {"every": item}
    if not isinstance(item, str) or not item.isidentifier():
        raise wrong(item, found(item), "the name of an optimizer's class, such as AdamW")
    return {"optimizer": item}


LOADER = "module:Class, as in __main__:Batches for a class of the script itself, or null"
LOADER_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def _read_loader(value: str | None) -> str | None:
    if value is not None and not LOADER_NAME.fullmatch(value):
        raise wrong(value, "names no class", LOADER)
    return value


SAMPLES = "a number above 0, the name of a parameter, mark, or null"


def _read_samples(value: object, info: ValidationInfo) -> int | float | str | None:
    if value is None:
        return None
    known = info.data.get("parameters", {})
    if isinstance(value, str):
        if value == MARK and value in known:
            raise wrong(value, "is what the script marks, and a parameter", "one of both")
        if value != MARK and value not in known:
            raise wrong(value, "is no parameter", SAMPLES, nearest_word(value, [*known, MARK]))
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise wrong(value, found(value), SAMPLES)
    return value


STEPS = "auto, a whole number from 1, or null"


def _read_steps(value: object) -> Literal["auto"] | int | None:
    if value is None or value == "auto":
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        nearest = nearest_number(value) or nearest_word(value, ["auto"])
        raise wrong(value, found(value), STEPS, nearest)
    if value < 1:
        raise wrong(value, "is not allowed", STEPS)
    return value


class Workload(Section):
    """The training script that is measured."""

    python: Annotated[StrictStr | None, AfterValidator(_read_python), Allowed(PYTHON)] = None
    """The interpreter that runs the script, in all launches; by default the study's own."""

    cwd: Annotated[StrictStr | None, AfterValidator(_read_cwd), Allowed(CWD)] = None
    """The folder in which the script runs: relative paths of the script start there."""

    module: Annotated[StrictStr | None, AfterValidator(_read_module), Allowed(MODULE)] = None
    """In place of a script: the module that `python -m` runs."""

    script: Annotated[StrictStr | None, AfterValidator(_read_script), Allowed(SCRIPT)] = Field(
        default=None, validate_default=True
    )
    """The training script, unmodified; required without `module`."""

    parameters: Annotated[
        Mapping[str, str | int | float], PlainValidator(read_parameters), Allowed(PARAMETERS)
    ] = {}
    """Axes of this study's own, each with its default: `launches` gives them further values."""

    pool: StrictBool = False
    """The script starts the processes that train itself, `{n}` of them: it runs as a whole."""

    args: Annotated[Sequence[str], PlainValidator(_read_arguments), Allowed(ARGUMENTS)] = Field(
        default=(), validate_default=True
    )
    """Its arguments, with parameters in braces; `{member}` is the slot number (0, 1, …)."""

    env: Annotated[Mapping[str, str], PlainValidator(_read_variables), Allowed(VARIABLES)] = {}
    """Variables for members alone; those that an axis sets are refused."""

    pass_env: Annotated[Sequence[str], PlainValidator(_read_passed), Allowed(PASSED)] = ()
    """Names of variables that members get from your shell, such as keys: no file holds a value."""

    step: Annotated[
        Literal["optimizer", "mark"] | Mapping[str, int | str],
        PlainValidator(_read_step),
        Allowed(STEP),
    ] = "optimizer"
    """What ends an iteration: a round of the script's optimizers, or its `scaling_study.mark()`."""

    steps_per_model: Annotated[
        Literal["auto"] | int | None, PlainValidator(_read_steps), Allowed(STEPS), Unit("steps")
    ] = "auto"
    """Steps that train one model (`auto`: as many as the script does; null: compare steps only)."""

    samples_per_step: Annotated[
        int | float | str | None, PlainValidator(_read_samples), Allowed(SAMPLES), Unit("samples")
    ] = None
    """What a step processes (mark: as the script says); launches are compared by equal work."""

    samples_per_epoch: Annotated[
        Annotated[StrictInt, Field(ge=1)] | None,
        Allowed("a whole number, at least 1, or null"),
        Unit("samples"),
    ] = None
    """Samples of an epoch: with it the report tells the time per epoch; needs samples_per_step."""

    loader: Annotated[str | None, AfterValidator(_read_loader), Allowed(LOADER)] = None
    """A class of loaders that no library here has; its `__iter__` makes iterators over batches."""

    inputs: Annotated[Sequence[str], PlainValidator(_read_inputs), Allowed(INPUTS)] = ()
    """Further files and folders, such as data: their change, in size or time, measures anew."""

    @model_validator(mode="after")
    def _check_parameters(self) -> Self:
        used = {
            name for text in [*self.args, *self.env.values()] for name in placeholders.names(text)
        }
        problems = [
            Problem(
                ("parameters", name),
                shorten(default),
                "is used by no argument and no variable",
                f"{{{name}}} in workload.args or workload.env",
            )
            for name, default in self.parameters.items()
            if name not in used
        ]
        if problems:
            raise ConfigError(problems)
        return self


class Measure(Section):
    """How long and how often is measured."""

    replicates: Annotated[StrictInt, Field(ge=1, le=1000), Unit("cohorts")] = 3
    """Fresh cohorts of each launch: the statistical unit."""

    windows: Annotated[StrictInt, Field(ge=1, le=1000), Unit("windows")] = 3
    """Windows per point and replicate."""

    steps: Annotated[StrictInt, Field(ge=1), Unit("steps")] = 20
    """A window ends when each member in it has done these steps, within the next bounds."""

    shortest_s: Annotated[StrictFloat, Field(gt=0, le=3600, allow_inf_nan=False)] = 1.0
    """A window lasts at least this long."""

    longest_s: Annotated[StrictFloat, Field(gt=0, le=3600, allow_inf_nan=False)] = Field(
        default=10.0, validate_default=True
    )
    """A window lasts at most this long."""

    settle_s: Annotated[StrictFloat, Field(ge=0, le=3600, allow_inf_nan=False)] = Field(
        default=0.2, validate_default=True
    )
    """Steps that begin before this time of a window do not count."""

    warmup_steps: Annotated[StrictInt, Field(ge=0), Unit("steps")] = 10
    """Steps of each member before the first window."""

    retakes: Annotated[StrictInt, Field(ge=0, le=100), Unit("windows")] = 2
    """An invalid window is taken again at most this often."""

    start_timeout_s: Annotated[StrictFloat, Field(gt=0, allow_inf_nan=False)] = 300.0
    """A cohort that is not ready for its first window after this has failed."""

    hang_timeout_s: Annotated[StrictFloat, Field(gt=0, allow_inf_nan=False)] = 300.0
    """A member without the end of a step for this long is hung; longer if its steps are longer."""

    isolated: StrictBool = False
    """A fresh cohort for each point, instead of one for the whole ladder."""

    @field_validator("longest_s")
    @classmethod
    def _check_longest(cls, longest_s: float, info: ValidationInfo) -> float:
        shortest_s = info.data.get("shortest_s")
        if shortest_s is not None and longest_s < shortest_s:
            raise wrong(longest_s, "is below shortest_s", f"at least shortest_s, {shortest_s}")
        return longest_s

    @field_validator("settle_s")
    @classmethod
    def _check_settle(cls, settle_s: float, info: ValidationInfo) -> float:
        longest_s = info.data.get("longest_s")
        if longest_s is not None and settle_s >= longest_s:
            raise wrong(settle_s, "leaves no step to count", f"below longest_s, {longest_s}")
        return settle_s


def _read_profiled_counts(value: object) -> Literal["ends"] | tuple[int, ...]:
    if value == "ends":
        return "ends"
    if isinstance(value, str):
        raise wrong(value, "is not a known word", PROFILED_COUNTS, nearest_word(value, ["ends"]))
    counts = _read_processes(value)
    return () if counts == "auto" else counts


PROFILED_COUNTS = f"ends, or a list of counts, each {COUNT}"


class Profile(Section):
    """Where the time of a step goes: profiles of single members, apart from all measuring."""

    launches: Annotated[Sequence[str], PlainValidator(read_targets), Allowed(TARGETS)] = (
        "baseline",
        "default",
        "recommended",
    )
    """Which launches are profiled; a label is the plan's name of a launch, such as `intra_op 1`."""

    processes: Annotated[
        Literal["ends"] | Sequence[int],
        PlainValidator(_read_profiled_counts),
        Allowed(PROFILED_COUNTS),
    ] = "ends"
    """At which counts of the ladder; `ends` takes its lowest and its highest."""

    operators: StrictBool = True
    """torch's profiler for a few steps of one member."""

    stacks: StrictBool = True
    """Stacks of members in turn, sampled by py-spy with native frames: for flamegraphs."""

    calls: StrictBool = False
    """cProfile for a few steps of one member: exact call counts, at a high price."""

    steps: Annotated[StrictInt, Field(ge=1, le=200), Unit("steps")] = 5
    """Steps that an operator profile and a cProfile cover."""

    rate_hz: Annotated[StrictInt, Field(ge=1, le=1000), Unit("samples/s")] = 3
    """Stack samples in a second. With native frames each stops the member for some 15 ms."""

    samples: Annotated[StrictInt, Field(ge=1, le=100_000), Unit("samples")] = 300
    """Stack samples of each point, of up to four members in turn; fewer than 300 are coarse."""

    unprofiled_s: Annotated[StrictFloat, Field(gt=0, le=3600, allow_inf_nan=False)] = 1.5
    """Windows without a profiler, before and after each profile, last at least this long."""


class Config(Section):
    """A study: one file, one folder of results, one report."""

    study: Annotated[StrictStr, AfterValidator(_read_study), Allowed(STUDY_ALLOWED)]
    """The study's name: of its folder in results/ and of its report."""

    description: Annotated[StrictStr, Allowed("text")] = ""
    """What the study is about, in the report."""

    seed: Annotated[StrictInt, Field(ge=0, le=2**32 - 1)] = 1
    """Decides the order of launches and windows, and the draws behind probabilities."""

    objective: Literal["models_per_hour", "one_model"] = "models_per_hour"
    """What is looked for: most models in an hour, or the least time from start to end of one."""

    workload: Workload
    """What is measured."""

    processes: Annotated[
        Literal["auto"] | Sequence[int], PlainValidator(_read_processes), Allowed(PROCESSES)
    ] = "auto"
    """The ladder; `auto` takes 1, powers of two, and counts around each boundary of the machine."""

    launches: Launches = Launches()
    """Which launches are measured beside the default one and the repeat of the baseline."""

    search: Annotated[Search, BeforeValidator(read_search)] = Search()
    """Whether everything is measured, or what may be best within a time."""

    measure: Measure = Measure()
    """How long and how often is measured."""

    confirm: Annotated[Confirm, BeforeValidator(read_confirm)] = Confirm()
    """How long the recommended launch is run as a user would run it."""

    profile: Profile = Profile()
    """Where the time goes."""

    why: Annotated[Why, BeforeValidator(read_why)] = Why()
    """Why it does not scale further."""

    feed: Annotated[Literal["quick", "full", "off"], BeforeValidator(read_feed), Allowed(FEED)] = (
        "off"
    )
    """What the recommended launch's data loader costs, by waiting and by getting in the way."""

    currency: Annotated[StrictStr, AfterValidator(read_currency), Allowed(CURRENCY)] = ""
    """What prices of machines are in, as the report writes it."""

    machines: Annotated[
        Mapping[str, NodeKind], PlainValidator(read_machines), Allowed(MACHINES)
    ] = {}
    """Kinds of node that are measured one by one and compared; without it, the machine itself."""

    @model_validator(mode="after")
    def _check_samples(self) -> Self:
        name = self.workload.samples_per_step
        if name is None and self.workload.samples_per_epoch is not None:
            raise ConfigError(
                [
                    Problem(
                        ("workload", "samples_per_epoch"),
                        shorten(self.workload.samples_per_epoch),
                        "says nothing without workload.samples_per_step",
                        "only beside workload.samples_per_step",
                    )
                ]
            )
        if not isinstance(name, str) or name == MARK:
            return self
        expansion = self.launches.expanded(self.workload.parameters)
        wrong_ones = {
            str(value): value
            for launch in expansion.kept
            if not isinstance(value := launch.axes[name], int | float) or value <= 0
        }
        if wrong_ones:
            raise ConfigError(
                [
                    Problem(
                        ("workload", "samples_per_step"),
                        shorten(name),
                        f"has the value {shorten(value)}",
                        "a parameter whose values are numbers above 0",
                    )
                    for value in wrong_ones.values()
                ]
            )
        return self

    @model_validator(mode="after")
    def _check_pool(self) -> Self:
        if not self.workload.pool:
            return self
        launches = self.launches.expanded(self.workload.parameters).kept
        allowed = [
            name
            for name, axis in AXES.items()
            if name == "shell" or (axis.of_environment and name != "launcher")
        ]
        names = {
            name
            for launch in launches
            for name, value in launch.axes.items()
            if name in AXES and name not in allowed and value != AXES[name].default
        }
        if names:
            raise ConfigError(
                Problem(
                    ("launches",),
                    name,
                    "changes single processes, and with workload.pool the script starts these",
                    f"axes of the environment: {', '.join(allowed)}",
                )
                for name in sorted(names)
            )
        return self

    @model_validator(mode="after")
    def _check_search(self) -> Self:
        minutes = self.search.budget_minutes
        raced = minutes is not None
        idle = list(self.launches.idle_exclusions(self.workload.parameters, raced=raced))
        if idle:
            raise ConfigError(ConfigError(idle).under("launches"))
        if self.machines and raced:
            raise ConfigError(
                [
                    Problem(
                        ("search",),
                        f"{{budget_minutes: {minutes:g}}}",
                        "races on one machine, and this study names machines",
                        "search: grid, or no machines",
                    )
                ]
            )
        return self if minutes is None else self._share_budget(60 * minutes)

    def _share_budget(self, budget_s: float) -> Self:
        """Leave the race time beside its confirmation."""
        seconds = self.confirm.seconds
        if seconds is None:
            return self
        if "seconds" not in self.confirm.model_fields_set:
            shared = Confirm(seconds=min(seconds, CONFIRMED_SHARE * budget_s))
            return self.model_copy(update={"confirm": shared})
        if seconds > budget_s - LEAST_RACE_S:
            raise ConfigError(
                [
                    Problem(
                        ("confirm", "seconds"),
                        f"{seconds:g}",
                        f"leaves the race no time: search.budget_minutes is {budget_s / 60:g},"
                        " the confirmation included",
                        f"at most {budget_s - LEAST_RACE_S:g}, or a larger budget",
                    )
                ]
            )
        return self


def load_config(mapping: object) -> Config:
    """Check a config, and complete it with the defaults.

    Files that it names are looked up relative to the working directory.

    Args:
        mapping: What YAML gives for the whole file.

    Raises:
        ConfigError: With every mistake found.
    """
    if not isinstance(mapping, Mapping):
        allowed = f"a section with the keys {', '.join(Config.model_fields)}"
        raise ConfigError([_masked(Problem((), shorten(mapping), found(mapping), allowed))])
    try:
        return Config.model_validate(mapping, context=Context(parameters=declared(mapping)))
    except ValidationError as error:
        raise ConfigError(map(_masked, problems_of(error, Config))) from None


def _masked(problem: Problem) -> Problem:
    """Mask a value that may be a secret, wherever it slipped to."""
    if not any(map(may_be_secret, (*problem.loc, problem.value))):
        return problem
    # A slip such as {KEY=value} makes a name of both.
    loc = (re.sub("=.*", f"={MASK}", one) if isinstance(one, str) else one for one in problem.loc)
    return replace(problem, loc=tuple(loc), value=problem.value and MASK)
