"""A study as its rules see it: its plan, its files, and the dependencies of each job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.common.quantities import format_count
from scaling_study.config import plan
from scaling_study.config.config import choose_machines
from scaling_study.config.efforts import EFFORTS, LOADER_EFFORTS
from scaling_study.confirm import confirm
from scaling_study.experiments import experiment, microbenchmarks
from scaling_study.runner import jobs, journal, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scaling_study.config.config import Config, NodeKind
    from scaling_study.config.import_config import ImportConfig
    from scaling_study.config.launches import Found
    from scaling_study.search.rounds import Decided

    Wildcards = Mapping[str, str]
    """Snakemake's wildcards of one job: the values of a path's variable parts, by name."""

OPERATOR_GROUPS = "workflow/lib/scaling_study/profiling/operator_groups.yaml"
BUILDS = "results/.builds"  # no study can have this name
KEPT_MICROBENCHMARKS = "results/.microbenchmarks"
STAGE = ("-P", "-m", "scaling_study")
"""Words between an interpreter and a stage."""

DEPENDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "measure": ((), ()),
    "confirm": (confirm.MODULES, ("confirm",)),
    "profile": (("profiling/profile_launch",), ("profile",)),
    "why": (experiment.MODULES, ("why",)),
    "loader_experiment": (experiment.MODULES, ("data_loader",)),
}
"""Modules and sections of the plan that the jobs of a rule depend on, besides measuring's own."""


class StudyFiles:
    """The files that every study has. A study of saved tables has no others.

    Attributes:
        results: results/<study>.
        report: the HTML file.
        so_far: that of a study that was stopped.
        machines: kinds of node by the names that the config gives them; none for this machine.
        chosen: the names of the machines that this run measures.
        here: the folder of a machine, with {machine} for its name; `results` if none has a name.
        records: record files of all launches; none in a race, whose rounds decide them.
        kept: files with results, or with the reason why there are none.
    """

    def __init__(self, name: str) -> None:
        self.results = f"results/{name}"
        self.report = f"reports/{name}.html"
        self.so_far = f"reports/{name}-so-far.html"
        self.machines: Mapping[str, NodeKind] = {}
        self.chosen: tuple[str, ...] = ()
        self.raced = False
        self.here = self.results
        self.planned = ""
        self.records: list[str] = []
        self.kept: list[str] = []

    def of_chosen(self, paths: str | Iterable[str]) -> list[str]:
        """Return each path once for each machine of this run, with the machine's name in it."""
        paths = [paths] if isinstance(paths, str) else paths
        return [str(p).replace("{machine}", name) for p in paths for name in self.chosen or ("",)]

    def lacking(self, paths: Iterable[str]) -> dict[Path, str]:
        """Return the record files that lack results, with reasons (`journal.Journal.finish`)."""
        marks = {Path(path): journal.mark_of(Path(path)) for path in paths}
        return {path: mark.read_text() for path, mark in marks.items() if mark.exists()}

    @property
    def stopped(self) -> list[Path]:
        """Files which record that the default launch's script ended before its first step."""
        paths = self.of_chosen(f"{self.here}/measure/{measure.STOPPED}")
        return [path for path in map(Path, paths) if path.exists()]


class ImportedStudy(StudyFiles):
    """A study of saved tables, in which nothing is measured."""

    def __init__(self, study: ImportConfig) -> None:
        super().__init__(study.study)
        self.study = study
        self.targets = [self.report]


class Study(StudyFiles):
    """A study that is measured.

    Args:
        config: the checked config.
        shell: what was found in the user's shell.
        choice: value of `--config machine=…`.
        observed: what one observed start has shown, if there was one.

    Raises:
        ConfigError: the plan or the choice has a mistake.
        OSError: a file of the workload cannot be read.
    """

    def __init__(
        self,
        config: Config,
        shell: Found,
        choice: object = None,
        observed: plan.Observed | None = None,
    ) -> None:
        super().__init__(config.study)
        self.plan = plan.make_plan(config, shell, observed)
        self.content = self.plan.to_dict()
        self.launches = self.plan.by_id
        self._files = jobs.digest(jobs.harness_digest(), jobs.workload_digest(self.plan.workload))
        self.machines = config.machines
        self.chosen = choose_machines(config.machines, choice)
        self.raced = self.plan.search.budget_minutes is not None
        self.planned = f"{self.results}/{'searched' if self.raced else 'plan'}.json"
        if self.machines:
            self.here = f"{self.results}/machines/{{machine}}"
        suffix = "-{machine}" if self.machines else ""
        self.launch_script = f"{self.results}/launch/recommended{suffix}.sh"
        self._figure = f"{self.results}/figures/{{name}}{suffix}.svg"
        self.compared = f"{self.results}/analysis/machines.json"
        # It exists once a machine is analysed.
        self.provenance = f"{self.here}/analysis/provenance.json"
        self._name_jobs_files()
        kinds = {
            name: kind.model_dump(exclude_defaults=True) for name, kind in self.machines.items()
        }
        self.compare_words = [
            *(*STAGE, "compare", "--study-folder", self.results, "--output", self.compared),
            *("--machines", json.dumps(kinds)),
        ]
        self.render_words = [
            *(*STAGE, "render", "--study-folder", self.results, "--report", self.report),
            *("--plan", self.planned),
            *(("--compared", self.compared) if self.machines else ()),
        ]

    def _name_jobs_files(self) -> None:
        """Name the files that jobs make, except the records of a race, which its rounds decide."""
        study_plan, here = self.plan, self.here
        self.records = [
            f"{here}/measure/{launch}/{replicate}.jsonl"
            for launch in ([] if self.raced else self.launches)
            for replicate in range(study_plan.measure.replicates)
        ]
        self.confirmed = (
            [] if study_plan.confirm.seconds is None else [f"{here}/confirm/rounds.jsonl"]
        )
        self.profiles = [f"{here}/profile/{launch}" for launch in study_plan.profiled]
        self.explained = why_records(here, study_plan)
        self.loader = loader_records(here, study_plan)
        self.kept = [*self.records, *self.confirmed, *self.profiles, *self.explained, *self.loader]
        self.kept += [f"{here}/tables/points.parquet"]
        self.kept += [f"{self.results}/rounds/0.json"] if self.raced else []
        # All by name: Snakemake does not make a deleted file anew while files made from it exist.
        scripts = self.of_chosen(self.launch_script)
        plan_file = f"{self.results}/plan.json"
        self.targets = [self.report, *scripts, plan_file, *self.of_chosen(self.kept)]

    def figures(self, name: str) -> list[str]:
        """Return the files of a figure of the report: one for each machine."""
        return self.of_chosen(self._figure.replace("{name}", name))

    # What a job reads and depends on.

    def job(self, kind: str) -> Callable[[Wildcards], str]:
        """Return the parameter `job` of a rule: a function that returns a job's dependencies.

        They are one JSON text, since Snakemake processes every parameter of every job. Files count
        by their content: a changed file means new measurements, a new time stamp does not. A job
        finds out itself which launch is recommended.

        Args:
            kind: one of `DEPENDS`.
        """
        modules, sections = DEPENDS[kind]
        default = self.plan.default if kind == "confirm" else ""
        parts = jobs.job_sections(self.plan, *sections)
        files = self._files
        if modules:
            files = jobs.digest(files, jobs.harness_digest(*modules))

        def job(wildcards: Wildcards) -> str:
            launch = self.launches.get(wildcards.get("launch", default))
            return jobs.job_text(parts, launch, files)

        return job

    def builds(self, wildcards: Wildcards) -> list[str]:
        """Return the files of built environments that a launch needs; all if it is not known."""
        launch = self.launches.get(wildcards.get("launch", ""))
        builds = {
            str(entry.axes["build"]) for entry in ([launch] if launch else self.launches.values())
        }
        return [
            f"{BUILDS}/{Path(build).stem}.txt" for build in sorted(builds) if build.endswith(".txt")
        ]

    @property
    def any_builds(self) -> Callable[[Wildcards], list[str]] | list[str]:
        """`builds`, or an empty list: Snakemake would call a function for each launch."""
        return self.builds if self.builds({}) else []

    def known_before(self, wildcards: Wildcards) -> list[str]:
        """Return the files that define the launch: the plan of a race, or the recommendation."""
        if wildcards["launch"] in self.launches:
            return [self.planned] if self.raced else []
        here = self.here.replace("{machine}", wildcards.get("machine", ""))
        return [self.planned, f"{here}/analysis/recommendation.json"]

    def order(self, wildcards: Wildcards) -> int:
        """Return a measurement's priority: replicate by replicate, each in an order of its own."""
        launch = wildcards["launch"]
        return plan.priority(self.plan, self.launches[launch], int(wildcards["replicate"]))

    def others_compared(self) -> list[str]:
        """Return digests of the provenance of the machines that this run leaves out."""
        left_out = sorted(set(self.machines) - set(self.chosen))
        paths = [Path(self.provenance.replace("{machine}", name)) for name in left_out]
        return [jobs.digest(path.read_text()) for path in paths if path.exists()]

    def cores(self, wildcards: Wildcards) -> int | None:
        """Return the number of CPUs that the config gives for a named machine."""
        return self.machines[wildcards["machine"]].cores if self.machines else None

    @property
    def node_resources(self) -> dict[str, Callable[[Wildcards], str | int | None]]:
        """Resources to request from a cluster for a machine, under the names of SLURM's plugin.

        A resource that no machine sets is left to the profile. If only some machines set it, the
        others get the site's default.
        """
        words = {
            "partition": "slurm_partition", "account": "slurm_account", "qos": "qos",
            "constraint": "constraint", "cores": "cpus_per_task",
        }  # fmt: skip
        kinds = self.machines

        def asked(key: str) -> Callable[[Wildcards], str | int | None]:
            # A negative value requests no number of CPUs: the job gets all of the node.
            least = -1 if key == "cores" else None
            return lambda wildcards: getattr(kinds[wildcards["machine"]], key) or least

        return {
            word: asked(key)
            for key, word in words.items()
            if any(getattr(kind, key) for kind in kinds.values())
        }

    # A race.

    @property
    def rounds(self) -> Sequence[int]:
        """Numbers of the rounds that a race may have."""
        from scaling_study.search import rounds  # noqa: PLC0415 (it loads pandas)

        return range(rounds.most(60 * (self.plan.search.budget_minutes or 0)))

    def is_over(self, number: int) -> bool:
        """Return whether a decided round has nothing to measure, so that the race is over."""
        from scaling_study.search import rounds  # noqa: PLC0415 (it loads pandas)

        return not rounds.read(Path(self.results, f"rounds/{number}.json")).batches

    def decided(self) -> list[Decided]:
        """Return all rounds that are decided, in order."""
        from scaling_study.search import rounds  # noqa: PLC0415 (it loads pandas)

        return rounds.decided(Path(self.results))

    def best_so_far(self) -> str:
        """Return the label and process count of a race's best point so far; empty without one."""
        decided = self.decided()
        choice = decided[-1].choice if decided else None
        if choice is None:
            return ""
        raced = (launch for decision in decided for launch in decision.launches)
        launches = self.launches | {launch.id: launch for launch in raced}
        label = launches[choice.launch].label
        return f"{label}, {format_count(choice.n, 'process', 'processes')}"

    def measured(self, number: int) -> list[str]:
        """Return one file for each node; they exist once all nodes have measured a round."""
        nodes = range(self.plan.search.nodes)
        return [f"{self.results}/rounds/{number}-{node}.done" for node in nodes]

    def round_before(self, wildcards: Wildcards) -> list[str]:
        """Return the files of the round before: it is measured before this one is decided."""
        number = int(wildcards["round"])
        return self.measured(number - 1) if number else []


def why_records(folder: Path | str, study_plan: plan.Plan) -> list[str]:
    """Return the records of the experiments on launches, in a study's folder or a machine's."""
    return [
        f"{folder}/why/{target}/{replicate}.jsonl"
        for target in study_plan.explained
        for replicate in range(EFFORTS[study_plan.why.effort].replicates)
    ]


def loader_records(folder: Path | str, study_plan: plan.Plan) -> list[str]:
    """Return the records of the experiments on the data loader, likewise."""
    effort = LOADER_EFFORTS.get(study_plan.data_loader)
    replicates = range(effort.replicates if effort else 0)
    return [f"{folder}/data_loader/{replicate}.jsonl" for replicate in replicates]


def microbenchmarks_digest() -> str:
    """Return a digest of the code that measures a machine's parts."""
    return jobs.harness_digest(*microbenchmarks.MODULES)


def code(root: Path) -> list[str]:
    """Return the files that analyses and reports are made with.

    Args:
        root: the project's folder.
    """
    package = root / "workflow/lib/scaling_study"
    return [*sorted(map(str, package.rglob("*.py"))), str(root / OPERATOR_GROUPS)]


def templates(root: Path) -> list[str]:
    """Return the files in workflow/report, from which reports are made."""
    return sorted(map(str, (root / "workflow/report").iterdir()))
