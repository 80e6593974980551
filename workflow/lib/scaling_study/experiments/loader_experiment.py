"""Experiments on a launch's data loader: waiting for batches, and interference with training.

In every block each variant of the script takes a window: as it is, with batches from memory, with
the loader alone, with other ways to load. One cohort of processes switches between most of them,
because two starts of one launch may differ by more than the effect. Variants that running processes
cannot switch to have a cohort of their own. All cohorts are stopped between their windows, because
a loader's threads never rest. If the loader's files are known, the script also takes a window with
all of them in memory, and one with none.
"""

import glob
import itertools
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from msgspec import structs

from scaling_study.common.topology import parse_cpu_list
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config import efforts
from scaling_study.experiments import loader_model, sampling
from scaling_study.experiments.conditions import Added, Condition, Variant, mean_step_s, window_of
from scaling_study.experiments.experiment import CohortPlan, Experiment, Outcome
from scaling_study.experiments.loader_model import AS_IS, VARIANTS
from scaling_study.host import page_cache
from scaling_study.launch.axes import ranks
from scaling_study.member import files
from scaling_study.member.loader_substitutes import NEW, NOTHING
from scaling_study.records import experiment as records
from scaling_study.records.readback import Loader, Readback
from scaling_study.runner import cohort, headroom, member_processes, resolve, windows
from scaling_study.runner.cohort import WindowSettings
from scaling_study.runner.jobs import Job

MOSTLY = 0.5
"""Files are loaded again after a window without them if this part was in memory before."""
MOST_FILES = 100_000
"""At most this many files are examined."""
COLD_PART = 0.5
"""A window without files in memory lasts this part of a pass: later reads may find them there."""
FEWEST_COLD = 8
"""Fewest steps of such a window, without those on batches that were ready before."""
CODE = (".py", ".pyc", ".so", ".pth", ".zip")
"""Names of files that Python opens itself."""

NOTED = Variant("noted", "the files that it opens", change=("files_noted",))
"""A start of the script that lists the files that its loader opens."""
OF_FILES = ("warm", "cold")
"""Variants whose windows begin with the loader's files in memory, and with none of them."""


class LoaderExperiment(Experiment):
    """The experiments on one launch's loader."""

    kind = "data_loader"
    _effort: efforts.LoaderEffort

    def __init__(self, job: Job, path: Path, builds: Path) -> None:
        name = job.plan.data_loader
        effort = name, efforts.LOADER_EFFORTS[name]
        super().__init__(job, self.kind, path, builds=builds, effort=effort)
        self._in_ranks = ranks.processes(self._axes) > 1
        self._ended: set[str] = set()

    def run(self, n: int) -> None:
        """Measure all variants at a process count, and complete the record file."""
        self._n = n
        self._run(AS_IS, beside=efforts.LIVING)

    def _first(self, heading: records.Heading, _: resolve.Resolved | None) -> records.LoaderHead:
        return records.LoaderHead(
            **structs.asdict(heading), schema_version=3, blocks=self._effort.blocks
        )

    def _measure(self, planned: CohortPlan, _: list[records.Record], stack: ExitStack) -> Outcome:
        self._left.clear()
        self._begin()
        members, report = self._start_alone(planned, stack)
        loaders = report.loaders
        if not loaders:
            return "skipped", (
                "the script has taken no batch from a loader that is known here: name its class"
                " as workload.loader: module:Class"
            )
        as_is, cached, swapped, *others = (_condition(variant, members) for variant in VARIANTS)
        self._watch(members)
        step_s = mean_step_s([self._train(as_is)]) or 0.0
        self._settle(efforts.SETTLE_S, as_is, cached, swapped)
        paths, cold = self._files(), self._cold(loaders, step_s)
        conditions = [as_is, cached, swapped]
        for condition in others:
            name = condition.variant.name
            if (reason := self._unfit(name, paths, cold)) is not None:
                self._leave(condition.variant, reason)
            elif name in OF_FILES:
                variant = replace(condition.variant, timing=cold if name == "cold" else None)
                around = partial(_placed, name, paths)
                conditions.append(replace(condition, variant=variant, around=around))
            else:
                conditions.append(condition)
        self._take_all(conditions, self._effort.blocks)
        if len(loaders) == 1 and not self._in_ranks:
            self._sweep(members, report, planned.resolved)
        return "complete", None

    def _take_all(self, conditions: Sequence[Condition], blocks: int) -> None:
        shuffle = random.Random(f"{self._seed} {len(conditions)}")  # noqa: S311 (no secret)
        self._blocks.run(conditions, blocks, shuffle)

    def _unfit(self, name: str, paths: Sequence[Path], cold: WindowSettings | None) -> str | None:
        """Return why a variant cannot be measured; None if it can."""
        if name in OF_FILES and not paths:
            return "no file of the loader is known: name them as workload.inputs"
        if name == "cold" and cold is None:
            return "a pass over the data is too short: its files would be back in memory at once"
        if name == "only" and self._in_ranks:
            return "ranks train together, and take their batches at different times alone"
        return None

    def _leave(self, variant: Variant, reason: str) -> None:
        """Record that a variant is not measured, and why."""
        name, title = variant.name, variant.title
        self._log.info("%s is left out: %s", title, reason)
        self._left.append(records.VariantLeftOut(variant=name, title=title, reason=reason))

    def _cold(self, loaders: Sequence[Loader], step_s: float) -> WindowSettings | None:
        """Return a window that ends before files come back; None if a pass is too short for one.

        If no loader's length is known, the window lasts as long as others, and ``resident_after``
        records what share of the files came back.
        """
        timing = window_of(self._effort)
        passes = [loader.batches for loader in loaders if loader.batches is not None]
        if not passes:
            return timing
        ready = max(loader.ready for loader in loaders)
        most = COLD_PART * min(passes) / self._n
        if most < ready + FEWEST_COLD:
            return None
        longest_s = min(timing.longest_s, most * step_s)
        return replace(
            timing,
            shortest_s=min(timing.shortest_s, longest_s),
            longest_s=longest_s,
            settle_s=min(max(timing.settle_s, ready * step_s), longest_s / 2),
        )

    def _settle(self, for_s: float, *conditions: Condition) -> None:
        """Let stopped members train in each of these ways in turn, before they are measured."""
        until = time.monotonic() + for_s
        for condition in itertools.cycle(conditions):
            if time.monotonic() >= until:
                return
            self._train(condition)

    def _train(self, condition: Condition) -> records.ExperimentWindow:
        """Let stopped members train for a window that is not recorded."""
        window = windows.WindowPlan(0, 0, self._n)
        return condition.attempt(window, 0, window_of(self._effort))

    def _members(self, variant: Variant, stack: ExitStack) -> cohort.Cohort | None:
        """Return the members of a variant, started if it has its own; None if there can be none."""
        try:
            planned = self._plan(variant, self._n)
            return self._cohorts.get(variant.of) or self._start_alone(planned, stack)[0]
        except UnavailableError as error:
            reason = error.reason
        except member_processes.FailedError as error:
            reason = str(error)
        self._leave(variant, reason)
        return None

    def _files(self) -> list[Path]:
        """Return the loader's files: those that the config names, and those that the loader opens.

        Files of the same kind beside an opened one count too, because they are read later.
        """
        with ExitStack() as stack:
            self._members(NOTED, stack)
            opened = {
                Path(line)
                for noted in self._folder.rglob(f"{files.OPENED}*")
                for line in noted.read_text(errors="surrogateescape").splitlines()
                if not line.endswith(CODE)
            }
        kinds = {(path.parent, path.suffix) for path in opened if path.is_file()}
        named = map(Path, self._job.plan.workload.inputs)
        paths = {
            *(file for path in named for file in (path, *path.rglob("*"))),
            *(file for parent, suffix in kinds for file in parent.glob(f"*{glob.escape(suffix)}")),
        }
        return sorted(file for file in paths if file.is_file())[:MOST_FILES]

    def _watch(self, members: cohort.Cohort) -> None:
        """Sample the use of the machine while the script trains as it is."""
        cpus = frozenset(self._topology.cpu_ids)
        looks: list[records.UseReading] = []

        def look(threads: Mapping[int, tuple[int, int]]) -> None:
            with suppress(OSError):  # a member has just ended
                looks.append(sampling.look_at_machine(cpus, threads))

        members.thaw()
        members.watch(self._n, sampling.USE_LOOKS, sampling.USE_EVERY_S, look)
        members.freeze()
        self._write(
            records.Use(cpus=len(cpus), shared_bytes=headroom.read_shared_bytes(), looks=looks)
        )

    # ---- other ways to load

    def _sweep(self, members: cohort.Cohort, report: Readback, resolved: resolve.Resolved) -> None:
        """Let the loader alone load in other ways, and the script train with the best of them."""
        bound = resolved.slots[0].cpus
        usable = len(self._topology.cpus) / self._n  # a process's part of the machine
        cpus = usable if bound is None else len(parse_cpu_list(bound))
        loader = (report.loaders or [])[0]
        now, others = loader_model.now(loader), loader_model.ways(loader, cpus)
        alone: dict[str, Condition] = {}
        with ExitStack() as stack:
            for way in others:
                variant = loader_model.variant(way, NOTHING)
                if way.name in self._ended:
                    self._leave(variant, "a member ended when it was asked to load so")
                elif reason := (report.impossible or {}).get(way.change or ""):
                    self._leave(variant, reason)
                elif (other := self._members(variant, stack)) is not None:
                    alone[way.name] = _condition(variant, other)
            if not alone:
                return
            apart = [way for way in others if way.name in alone and not way.as_fast]
            for way in apart:
                self._begin_way(way, alone[way.name], efforts.BEGIN_S)
            self._take_all([alone[way.name] for way in apart], efforts.ALONE_BLOCKS)
            measured = partial(_step_parts, self._journal.read())
            steps_s = {
                way.name: loader_model.predicted_s(way, now, cpus, measured)
                for way in (now, *others)
            }
            known = [way for way in (now, *others) if steps_s[way.name] is not None]
            self._write(records.Ways(cpus=cpus, ways=known))
            best = [way for way in known if way.name in alone]
            best.sort(key=lambda way: steps_s[way.name] or 0.0)
            for way in best[: self._effort.ways]:  # in turns with the script as it is
                trains = _condition(loader_model.variant(way, NEW), alone[way.name].cohort)
                switched = trains.cohort is members
                self._begin_way(way, trains, efforts.BEGIN_S if switched else efforts.SETTLE_S)
                self._take_all([_condition(AS_IS, members), trains], self._effort.blocks)

    def _begin_way(self, way: records.Way, condition: Condition, for_s: float) -> None:
        """Switch members to another loading mode; record the mode if one dies.

        Raises:
            MemberEndedError: a member died or hung.
        """
        try:
            self._settle(for_s, condition)
        except member_processes.MemberEndedError:
            self._ended.add(way.name)
            raise


def _step_parts(before: Sequence[records.Record], name: str) -> loader_model.StepParts | None:
    """Return the measured times of a variant's step; None without any."""
    taken = [
        record
        for record in before
        if isinstance(record, records.ExperimentWindow) and record.name == name and record.valid
    ]
    if (step_s := mean_step_s(taken)) is None:
        return None
    members = [member for window in taken for member in window.members]
    counted = sum(len(member.step_us) for member in members)
    active = sum(member.steps_active for member in members)

    def total(*names: str) -> float:
        return sum(getattr(member, name) or 0.0 for member in members for name in names)

    return loader_model.StepParts(
        step_s=step_s,
        load_s=total("load_s") / counted,
        cpu_s=total("cpu_user_s", "cpu_system_s") / active,
        trainer_s=total("trainer_user_s", "trainer_system_s") / active,
        made_s=total("loader_made_s") / counted,
    )


def _condition(variant: Variant, members: cohort.Cohort) -> Condition:
    """Return a variant as the blocks take it."""
    return Condition("data_loader", variant, members, members.size, frozen=True)


@contextmanager
def _placed(name: str, paths: Sequence[Path]) -> Iterator[Added]:
    """Put the loader's files into memory, or out of it, for a window."""
    there = page_cache.resident_share(paths) or 0.0
    if name == "warm":
        page_cache.load(paths)
    else:
        page_cache.drop(paths)
    shares = {"resident_before": page_cache.resident_share(paths)}
    yield shares
    shares["resident_after"] = page_cache.resident_share(paths)
    if name == "cold" and there >= MOSTLY:
        page_cache.load(paths)  # the next variant is to find them where they were
