"""The config of a study, checked completely before anything runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from scaling_study.common.problems import ConfigError, Problem, nearest_word, shorten, wrong
from scaling_study.config.launches import Launch, Launches
from scaling_study.config.mistakes import validate
from scaling_study.config.section import (
    Counts,
    Effort,
    Seconds,
    Section,
    Steps,
    Targets,
    allowed,
    or_off,
    unit,
)
from scaling_study.config.workload import Workload
from scaling_study.launch.axes.axis_table import AXES
from scaling_study.member.iterations import MARK

LEAST_RACE_S = 60  # of a budget, without its confirmation
CONFIRMED_SHARE = 1 / 3  # of a budget, unless `confirm` sets a time
SETTLE_S, SETTLED_SHARE = 0.2, 0.2
"""Steps that begin within this time from a window's start do not count, since members that are
released together begin in step; in short windows, this share of the shortest time."""
CHOICE = "machine"
"""The key on the command line that chooses which of `machines` a run measures."""


def _or_words(key: str, kind: object, words: Mapping[str, object]) -> BeforeValidator:
    """Return a validator that reads a word as the section that sets its value under a key.

    Args:
        key: A key of the section.
        kind: The type of all that is allowed.
        words: The value of each word.
    """

    def read(value: object) -> object:
        word = or_off(value)
        return {key: words[word]} if isinstance(word, str) and word in words else value

    return BeforeValidator(read, json_schema_input_type=kind)


_EFFORTS = {"quick": "quick", "full": "full", "off": "off"}


def _read_window(window_s: tuple[float, float]) -> tuple[float, float]:
    shortest_s, longest_s = window_s
    if longest_s < shortest_s:
        raise wrong([*window_s], "has the longer time first", "the shorter time first")
    return window_s


class Search(Section):
    """Measures all launches at all counts, or lets them race for the best within a time."""

    budget_minutes: Annotated[
        # A shorter race ends before anything is known; more than a week is a slip of the keyboard.
        Annotated[float, Field(ge=3, le=10_080)] | None, unit("minutes")
    ] = None
    """Time for the race between the launches and the confirmation together; `search: grid` (or
    null) measures every launch at every count."""

    tolerance: Annotated[float, Field(gt=0, le=0.2)] = 0.02
    """Differences in throughput below this share count as ties."""

    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.9
    """The race stops early once its choice is within `tolerance` with this probability."""

    nodes: Annotated[int, Field(ge=1, le=64)] = 1
    """Nodes of a cluster, of one kind, that measure launches side by side in each round."""


class Measure(Section):
    """Length and number of the measurements."""

    replicates: Annotated[int, Field(ge=1, le=1000), unit("cohorts")] = 3
    """Fresh cohorts of each launch: the statistical unit."""

    windows: Annotated[int, Field(ge=1, le=1000), unit("windows")] = 3
    """Windows per point and replicate."""

    steps: Steps = 20
    """A window ends when its members have done these steps, within the times of `window_s`."""

    window_s: Annotated[
        tuple[Seconds, Seconds],
        Field(strict=False),
        AfterValidator(_read_window),
        allowed("two numbers above 0, at most 3600, the shortest time first"),
    ] = (1.0, 10.0)
    """Shortest and longest time of a window, such as `[1, 10]`."""

    warmup_steps: Annotated[int, Field(ge=0), unit("steps")] = 10
    """Steps of each member before the first window."""

    retries: Annotated[int, Field(ge=0, le=100), unit("windows")] = 2
    """An invalid window is taken again at most this often."""

    timeout_s: Annotated[float, Field(gt=0)] = 300.0
    """A cohort that is not ready after this time has failed, and a member that ends no step for
    this long is hung; members with long steps get more time."""

    isolated: bool = False
    """A fresh cohort for each point, instead of one for all process counts."""

    @property
    def shortest_s(self) -> float:
        """The shortest time of a window."""
        return self.window_s[0]

    @property
    def longest_s(self) -> float:
        """The longest time of a window."""
        return self.window_s[1]

    @property
    def settle_s(self) -> float:
        """The time from a window's start within which steps that begin do not count."""
        return min(SETTLE_S, SETTLED_SHARE * self.shortest_s)


# Shorter rounds show no process's start; more than a day is a slip of the keyboard.
Rounds = Annotated[float, Field(ge=10, le=86_400)]


class Confirm(Section):
    """The recommended launch and the default one, run as a user would run them."""

    seconds: Annotated[
        Rounds | None,
        BeforeValidator(
            lambda value: None if or_off(value) == "off" else value,
            json_schema_input_type=Rounds | Literal["off", False] | None,
        ),
        allowed("a number from 10 to 86400, or off", unit="s"),
    ] = 300.0
    """Time of all rounds together, by default at most a third of a race's budget;
    `confirm: off` runs none, and the report only predicts."""


class Profile(Section):
    """Profiles of single members, taken apart from measurements: where a step's time goes."""

    effort: Effort = "full"
    """Steps and samples of the profiles; `profile: quick` and `profile: off` need no section."""

    launches: Targets = ("baseline", "default", "recommended")
    """The launches to profile; a label is the name of one in the plan, such as `intra_op 1`."""

    processes: Literal["ends"] | Counts = "ends"
    """The process counts of the profiles; `ends` takes the lowest and the highest."""


class Why(Section):
    """Why training does not scale further: experiments on single launches."""

    effort: Effort = "quick"
    """Effort of the experiments; `why: quick`, `why: full` and `why: off` need no section."""

    launches: Targets = ("today", "recommended")
    """The launches to explain; a label is the name of one in the plan, such as `intra_op 1`."""


# A machine's name is a folder, a part of file names and of links in the report. It begins with a
# letter, since Snakemake reads `--config machine=64` as a number.
MachineName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,31}$")]
# As sbatch(1) reads them. A dash at the beginning would be another option of sbatch's.
SLURM_NAME = "letters, digits and . _ + @ -"
SlurmName = Annotated[str, allowed(SLURM_NAME, pattern=r"^[A-Za-z0-9_.+@][A-Za-z0-9_.+@-]*$")]


class NodeKind(Section):
    """One kind of node: its SLURM options and its size."""

    partition: Annotated[
        str,
        allowed(
            f"names, separated by commas: {SLURM_NAME}",
            pattern=r"^[A-Za-z0-9_.+@][A-Za-z0-9_.+@-]*(,[A-Za-z0-9_.+@-]+)*$",
        ),
    ] = ""
    """SLURM's partition; without it, the profile's or the site's default."""

    account: SlurmName = ""
    """SLURM's account that is charged; without it, the profile's or the user's default."""

    qos: SlurmName = ""
    """SLURM's quality of service; without it, the profile's or the user's default."""

    constraint: Annotated[
        str,
        allowed(
            "names of features, with the operators of sbatch's --constraint, without spaces",
            pattern=r"^[A-Za-z0-9_.+@&|!*,()\[\]][A-Za-z0-9_.+@&|!*,()\[\]-]*$",
        ),
    ] = ""
    """Features that the site has given to nodes of this kind, and to no others."""

    cores: Annotated[Annotated[int, Field(ge=1, le=10_000)] | None, unit("CPUs")] = None
    """CPUs of a node, as SLURM counts them: a node with another number is refused."""


def choose_machines(machines: Mapping[str, NodeKind], choice: object) -> tuple[str, ...]:
    """Return the names of the machines that a run measures: the chosen one, or all of them.

    Args:
        machines: kinds of node in the config, by name.
        choice: value of `--config machine=…`; None without it.

    Raises:
        ConfigError: there is no machine of this name.
    """
    if choice is None:
        return tuple(machines)
    if isinstance(choice, str) and choice in machines:
        return (choice,)
    what = "chooses one of machines, and the config names none"
    if machines:
        what = "is no machine of the config"
    right, nearest = ", ".join(machines) or "a section machines", nearest_word(choice, machines)
    raise ConfigError([Problem((CHOICE,), shorten(choice), what, right, nearest)])


class Named(Section):
    """The keys that every study has."""

    # Names a folder, a file and part of a web address; may not be hidden or look like an option.
    study: Annotated[
        str,
        allowed(
            "1 to 64 letters (a-z, A-Z), digits, _, - and ., a letter or digit first",
            pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
        ),
    ]
    """Name of the study, of its folder in results/ and of its report."""

    description: str = ""
    """A text about the study, in the report."""


class Config(Named):
    """A study: one file, one folder of results, one report."""

    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 1
    """Decides the order of launches and windows, and the draws behind probabilities."""

    objective: Literal["models_per_hour", "one_model"] = "models_per_hour"
    """The goal: most models in an hour, or the least time from start to end of one model."""

    workload: Workload
    """The training script that is measured."""

    processes: Literal["auto"] | Annotated[Counts, Field(min_length=1)] = "auto"
    """`auto` takes 1, powers of two, and counts around each boundary of the machine."""

    launches: Launches = Launches()
    """The launches that are measured beside the default one and the repeat of the baseline."""

    search: Annotated[
        Search, _or_words("budget_minutes", Literal["grid"] | Search, {"grid": None})
    ] = Search()
    """Whether to measure everything, or to let launches race for the best within a time."""

    measure: Measure = Measure()
    """Length and number of the measurements."""

    confirm: Annotated[
        Confirm, _or_words("seconds", Literal["off", False] | Confirm, {"off": None})
    ] = Confirm()
    """Runs of the recommended launch as a user would start it."""

    profile: Annotated[Profile, _or_words("effort", Effort | Profile, _EFFORTS)] = Profile()
    """Profiles of single members."""

    why: Annotated[Why, _or_words("effort", Effort | Why, _EFFORTS)] = Why()
    """Why training does not scale further."""

    data_loader: Effort = "off"
    """Effort of experiments on the data loader of the recommended launch: waiting, contention."""

    machines: Annotated[
        Mapping[MachineName, NodeKind],
        allowed(
            "a section with a name for each kind of node (1 to 32 letters (a-z, A-Z), digits, _ and"
            " -, a letter first), and a section of the keys below for each"
        ),
    ] = Field(default={})
    """Kinds of node that are measured one by one and compared; without it, the machine itself."""

    @model_validator(mode="after")
    def _check_all(self) -> Self:
        expansion = self.launches.expanded(self.workload)
        raced = self.search.budget_minutes is not None
        contradictions = self.launches.contradictions(expansion, raced=raced)
        measured = [*self._samples(expansion.kept), *self._whole(expansion.kept)]
        if problems := [*measured, *contradictions, *self._race()]:
            raise ConfigError(problems)
        return self._share_budget()

    def _samples(self, launches: Sequence[Launch]) -> Iterator[Problem]:
        name, epoch = self.workload.samples_per_step, self.workload.samples_per_epoch
        if name is None and epoch is not None:
            what = "says nothing without workload.samples_per_step"
            right = "only beside workload.samples_per_step"
            yield Problem(("workload", "samples_per_epoch"), shorten(epoch), what, right)
        if not isinstance(name, str) or name == MARK:
            return
        for value in dict.fromkeys(launch.axes[name] for launch in launches):
            if not isinstance(value, int | float) or value <= 0:
                what = f"has the value {shorten(value)}"
                right = "a parameter whose values are numbers above 0"
                yield Problem(("workload", "samples_per_step"), shorten(name), what, right)

    def _whole(self, launches: Sequence[Launch]) -> Iterator[Problem]:
        """Yield a problem for each axis that a program which runs as a whole cannot have."""
        known, what = [*AXES], "starts members, and whole runs start as their user starts them"
        if self.workload.starts_processes:
            what = "changes single processes, and with {n} the program itself starts these"
            known = [n for n, axis in AXES.items() if n == "shell" or axis.of_environment]
        if self.workload.runs or self.workload.starts_processes:
            known.remove("launcher")
        for name in sorted(AXES.keys() - {*known}):
            if any(launch.axes[name] != AXES[name].default for launch in launches):
                yield Problem(("launches",), name, what, f"these axes: {', '.join(known)}")

    def _race(self) -> Iterator[Problem]:
        minutes, seconds = self.search.budget_minutes, self.confirm.seconds
        if minutes is None:
            return
        if self.machines:
            what = "races on one machine, and this study names machines"
            value, right = f"{{budget_minutes: {minutes:g}}}", "search: grid, or no machines"
            yield Problem(("search",), value, what, right)
        most_s = 60 * minutes - LEAST_RACE_S
        if "seconds" in self.confirm.model_fields_set and (seconds or 0) > most_s:
            what = f"leaves the race no time: search.budget_minutes is {minutes:g}, confirmation"
            right = f"at most {most_s:g}, or a larger budget"
            yield Problem(("confirm", "seconds"), f"{seconds:g}", f"{what} included", right)

    def _share_budget(self) -> Self:
        """Shorten a confirmation whose time the config does not set, to leave the race its time."""
        minutes, seconds = self.search.budget_minutes, self.confirm.seconds
        if minutes is None or seconds is None or "seconds" in self.confirm.model_fields_set:
            return self
        shared = Confirm(seconds=min(seconds, CONFIRMED_SHARE * 60 * minutes))
        return self.model_copy(update={"confirm": shared})


def load_config(content: object) -> Config:
    """Check a config, and complete it with the defaults.

    Files that it names are looked up relative to the working directory.

    Args:
        content: The whole file, as YAML reads it.

    Raises:
        ConfigError: With every mistake found.
    """
    names: set[str] = set()
    match content:
        case {"workload": {"parameters": {**parameters}}}:
            # Other names are refused later, and would break the messages on axes here.
            names = {one for one in parameters if isinstance(one, str) and one.isprintable()}
    return validate(Config, content, names - AXES.keys())
