"""What the loader costs a launch: by waiting, and by getting in the way.

In every randomised block each variant of one script takes a window: as it is, with batches from
memory, with nobody who trains, with other ways to load. Most are what one cohort of processes is
asked for in turn, since two starts of one launch may differ by more than what is looked for. What
cannot be asked of running processes has a cohort of its own, which is stopped while another one's
window lasts: a loader's threads never rest. Where the loader's files are known, the script also
takes a window with all of them in memory, and one with none.
"""

from __future__ import annotations

import glob
import itertools
import logging
import random
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling_study.common.topology import parse_cpu_list
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config.efforts import ALONE_BLOCKS, BEGIN_S, DOSES, FEEDS, LIVING, SETTLE_S
from scaling_study.experiments import conditions, loader_model, machine_use
from scaling_study.experiments.experiment import DONE_BEFORE, Experiment
from scaling_study.experiments.experiment_windows import Taker, key, mean_step_s, window_of
from scaling_study.experiments.loader_model import TITLES
from scaling_study.host import page_cache, probe
from scaling_study.launch.axes import ranks
from scaling_study.member import loader_request, loader_substitutes, synthetic_load
from scaling_study.member.loader_request import Ask
from scaling_study.records.codec import plain
from scaling_study.runner import capacity, cohort, resolve, windows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scaling_study.runner.cohort import WindowSettings
    from scaling_study.runner.measure import Job

SCHEMA_VERSION = 2

MOSTLY = 0.5
"""Files of which this part was in memory are put back there."""
MOST_FILES = 100_000
"""More files than this are not looked at one by one."""
COLD_PART = 0.5
"""Of a pass over the data, without its files in memory: what is read later may be there again."""
FEWEST_COLD = 8
"""Steps of such a window, after those on batches that were made before."""
CODE = (".py", ".pyc", ".so", ".pth", ".zip")
"""Names of files that Python opens itself."""
log = logging.getLogger("feed")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant of the script.

    Attributes:
        name: in records.
        title: for a person.
        changes: the changes inside its members that make it (see ``changes``).
        of: the variant whose members these are; empty for members of its own.
        asked: the number that members are told, if any. It is an ``Ask.code``, a loader beside's
            time between batches (ns), or a neighbour's dose.
        files: what becomes of the loader's files before each window: they stay, are loaded into
            memory, or dropped from there.
        timing: of its windows, where it is another one.
    """

    name: str
    title: str
    changes: tuple[str, ...] = ()
    of: str = ""
    asked: int | None = None
    files: str = "stay"
    timing: WindowSettings | None = None


def _of(other: Variant, name: str, code: int | None = None, files: str = "stay") -> Variant:
    """Return a variant of the same members as another one's."""
    code = other.asked if code is None else code
    return Variant(name, TITLES[name], of=other.name, asked=code, files=files)


NEW, FROM_MEMORY, SWAPPED, NOTHING = (
    Ask(gives).code
    for gives in (
        loader_request.NEW,
        loader_request.FROM_MEMORY,
        loader_request.SWAPPED,
        loader_request.NOTHING,
    )
)
AS_IS = Variant("as_is", TITLES["as_is"], ("loader_switched",), asked=NEW)
BESIDE = Variant("beside", TITLES["beside"], ("loader_beside",))
COLD = _of(AS_IS, "cold", files="dropped")
VARIANTS = (
    AS_IS,
    _of(AS_IS, "cached", FROM_MEMORY),
    _of(AS_IS, "swapped", SWAPPED),
    BESIDE,
    _of(BESIDE, "still", 0),
    _of(AS_IS, "only", NOTHING),
    _of(AS_IS, "warm", files="loaded"),
    COLD,
)
NOTED = Variant("noted", "the files that it opens", ("files_noted",))


def alone(way: loader_model.Way) -> Variant:
    """Return the variant in which the loader is alone, and loads in another way."""
    ask = way.asked._replace(gives=loader_request.NOTHING)
    title = f"the loader alone, {way.title}"
    if way.elsewhere:
        return Variant(way.alone, title, (*AS_IS.changes, str(way.change)), asked=ask.code)
    return Variant(way.alone, title, of=AS_IS.name, asked=ask.code)


def trains(way: loader_model.Way) -> Variant:
    """Return the variant in which the script trains, and loads in another way."""
    title, code = f"as it is, {way.title}", way.asked.code
    return replace(alone(way), name=way.trains, title=title, asked=code)


def _files_unfit(variant: Variant, files: Sequence[Path]) -> str | None:
    """Say why files cannot be put where a variant has them; None where they can or may stay."""
    if variant.files != "stay" and not files:
        return "no file of the loader is known: name them as workload.inputs"
    if variant.files == "dropped" and variant.timing is None:
        return "a pass over the data is too short: its files would be back in memory at once"
    return None


class Feed(Experiment):
    """The running of one job."""

    def __init__(self, job: Job, path: Path, builds: Path) -> None:
        super().__init__("feed", job, "feed", path, builds=builds, effort=job.plan["feed"])
        self._effort = FEEDS[self._effort_name]
        self._timing = window_of(self._effort)
        self._taker = Taker(self._journal, self._timing)
        self._left: list[Json] = []
        self._windows: list[Json] = []
        self._impossible: Mapping[str, str] = {}
        self._ended: set[str] = set()

    def leave_out(self, reason: str) -> None:
        """Leave a file that says why nothing was measured."""
        self._journal.restart()
        self._journal.write(self._head(None))
        self._end("skipped", reason)

    def run(self, n: int) -> None:
        """Measure all variants at a process count, and leave a whole record file."""
        began = time.perf_counter()
        self._n = n
        try:
            resolved = self._resolve({}, *AS_IS.changes)
            capacity.check([resolved.need] * LIVING)
            status, reason = self._attempt(
                lambda folder, stack: self._measure(resolved, folder, stack), ""
            )
        except UnavailableError as error:
            self._journal.restart()
            self._journal.write(self._head(None))
            self._end("skipped", error.reason, error.remedy)
            return
        if status == DONE_BEFORE:
            log.info("all of it was done by an interrupted run")
            self._journal.finish()
            return
        self._end(status, reason, None, time.perf_counter() - began)

    def _end(self, *what: Any) -> None:
        self._close(*what, left_out=self._left)

    def _head(self, resolved: resolve.Resolved | None) -> Json:
        return self._heading(SCHEMA_VERSION, resolved) | {"blocks": self._effort.blocks}

    def _measure(
        self, resolved: resolve.Resolved, folder: Path, stack: ExitStack
    ) -> tuple[str, str | None]:
        self._left.clear()
        self._taker = Taker(self._journal, self._timing)
        head = self._head(resolved)
        records = self._journal.resume(head)
        if records and records[-1]["kind"] == "end":
            return DONE_BEFORE, None
        if records:
            log.info("goes on after %d records of an interrupted run", len(records))
        else:
            self._journal.write(head)
        self._windows = [record for record in records if record["kind"] == "window"]
        self._taker.done = set(map(key, self._windows))
        one, attestation = self._start(AS_IS, resolved, folder, stack)
        if isinstance(attestation, str):
            return "failed", attestation
        seen = attestation["members"][0]["loaders"]
        if not seen:
            return "skipped", (
                "the script has taken no batch from a loader that is known here: name its class"
                " as workload.loader: module:Class"
            )
        one.freeze()
        self._watch(one)
        # The rate of the script as it is, at which its loader goes on beside.
        every_ns = round(1e9 * (mean_step_s([self._untold(one, NEW)]) or 0.0))
        self._settle(one, SETTLE_S, NEW, FROM_MEMORY, SWAPPED)
        beside = self._start_beside(seen, every_ns, folder, stack)
        own = {AS_IS.name: one} | ({} if beside is None else {BESIDE.name: beside})
        files = self._files(folder)
        cold = self._cold_window(seen, every_ns / 1e9)
        known = {
            BESIDE.name: replace(BESIDE, asked=every_ns),
            COLD.name: replace(COLD, timing=cold),
        }
        variants = []
        for each in (known.get(one.name, one) for one in VARIANTS):
            reason = _files_unfit(each, files)
            if each.asked == NOTHING and self._in_ranks:
                reason = "ranks train together, and take their batches at different times alone"
            if reason is not None:
                self._leave_out(each, reason)
            elif (each.of or each.name) in own:
                variants.append(each)
        cohorts = {each.name: own[each.of or each.name] for each in variants}
        self._take_all(variants, cohorts, files, self._effort.blocks)
        if len(seen) == 1 and not self._in_ranks:
            self._impossible = attestation["members"][0]["impossible"]
            self._sweep(one, seen[0], self._cpus(resolved), folder)
        self._neighbours(folder)
        return "complete", None

    @property
    def _in_ranks(self) -> bool:
        return ranks.processes(self._job.launch["axes"]) > 1

    def _cold_window(
        self, seen: Sequence[Mapping[str, Any]], step_s: float
    ) -> WindowSettings | None:
        """Return a window that ends before files come back; None where a pass is too short for one.

        Where no loader says how long a pass is, it lasts as long as others, and what comes back is
        looked at (``resident_after``).
        """
        passes = [one["batches"] for one in seen if one["batches"] is not None]
        if not passes:
            return self._timing
        ready = max(one["ready"] for one in seen)
        most = COLD_PART * min(passes) / self._n
        if most < ready + FEWEST_COLD:
            return None
        longest_s = min(self._timing.longest_s, most * step_s)
        return replace(
            self._timing,
            shortest_s=min(self._timing.shortest_s, longest_s),
            longest_s=longest_s,
            settle_s=min(max(self._timing.settle_s, ready * step_s), longest_s / 2),
        )

    def _settle(self, one: cohort.Cohort, for_s: float, *codes: int) -> None:
        """Let stopped members go on, in turn on what is asked, before they are measured."""
        until = time.monotonic() + for_s
        for code in itertools.cycle(codes):
            if time.monotonic() >= until:
                return
            self._untold(one, code)

    def _untold(self, one: cohort.Cohort, code: int) -> Json:
        """Take a window of stopped members of which no record is left."""
        one.tell(one.alive, code)
        one.thaw()
        record = plain(one.take(windows.Window(0, 0, self._n), self._timing))
        one.freeze()
        return record

    def _start_beside(
        self, seen: Sequence[Mapping[str, Any]], every_ns: int, folder: Path, stack: ExitStack
    ) -> cohort.Cohort | None:
        """Start members whose loader goes on beside, at a rate; None where there are none."""
        if all(one["workers"] == 0 for one in seen):
            self._leave_out(BESIDE, "the loader has no workers or threads that could go on beside")
            return None
        other = self._started(BESIDE, folder, stack)
        if other is not None:
            self._settle(other, SETTLE_S, every_ns)
        return other

    def _start(
        self, variant: Variant, resolved: resolve.Resolved, folder: Path, stack: ExitStack
    ) -> conditions.Started:
        arm = conditions.Arm(variant.name, self._job.launch["axes"], {}, resolved)
        (started,) = self._starter.start([arm], folder, stack, beside=self._n)
        if not isinstance(started[1], str):
            self._journal.write(started[1])
        return started

    def _leave_out(self, variant: Variant, reason: str) -> None:
        log.info("%s is left out: %s", variant.title, reason)
        self._left.append({"variant": variant.name, "title": variant.title, "reason": reason})

    def _files(self, folder: Path) -> list[Path]:
        """Return the loader's files: those that the config names, and those it is seen to open.

        Beside a file that was opened lie others like it, which are read later.
        """
        named = [Path(one) for one in self._job.plan["workload"].get("inputs", ())]
        opened = filter(Path.is_file, self._opened(folder))
        kinds = {(path.parent, path.suffix) for path in opened}
        found = {
            *(file for path in named for file in (path.rglob("*") if path.is_dir() else [path])),
            *(file for parent, suffix in kinds for file in parent.glob(f"*{glob.escape(suffix)}")),
        }
        return sorted(file for file in found if file.is_file())[:MOST_FILES]

    def _opened(self, folder: Path) -> set[Path]:
        """Return the files that a start of the script is seen to open."""
        with ExitStack() as own:
            self._started(NOTED, folder, own)
            return {
                Path(line)
                for noted in folder.rglob(f"{loader_substitutes.OPENED}*")
                for line in noted.read_text(errors="surrogateescape").splitlines()
                if not line.endswith(CODE)
            }

    def _take_all(
        self,
        variants: Sequence[Variant],
        cohorts: Mapping[str, cohort.Cohort],
        files: Sequence[Path],
        blocks: int,
    ) -> None:
        """Take a window of each variant in every block, in an order of its own."""
        shuffle = random.Random(f"{self._seed} {len(variants)}")  # noqa: S311 (an experiment's)
        for block in range(blocks):
            log.info("block %d of %d, %d variants", block + 1, blocks, len(variants))
            for variant in shuffle.sample(variants, len(variants)):
                self._take(variant, cohorts[variant.name], files)
            self._taker.block += 1

    def _cpus(self, resolved: resolve.Resolved) -> float:
        """Return how many CPUs a process has: those of its slot, or its part of the machine."""
        own = resolved.slots[0]["cpus"]
        if own is not None:
            return len(parse_cpu_list(own))
        return len(probe.usable_topology(self._machine).cpus) / self._n

    def _sweep(
        self, one: cohort.Cohort, loader: Mapping[str, Any], cpus: float, folder: Path
    ) -> None:
        """Let the loader alone load in other ways, and the script train with the best of them."""
        now, others = loader_model.now(loader), loader_model.ways(loader, cpus)
        with ExitStack() as own:
            tried = {way.name: self._can(way, one, folder, own) for way in others}
            there = {name: other for name, other in tried.items() if other is not None}
            if not there:
                return
            apart = [way for way in others if way.name in there and not way.as_fast]
            for way in apart:
                self._begin(way, there[way.name], BEGIN_S, alone(way))
            cohorts = {way.alone: there[way.name] for way in apart}
            self._take_all([alone(way) for way in apart], cohorts, (), ALONE_BLOCKS)
            steps_s = {
                way.name: s
                for way in (now, *others)
                if (s := loader_model.predicted_s(way, now, cpus, self._seen)) is not None
            }
            known = [way for way in (now, *others) if way.name in steps_s]
            ways = [asdict(way) for way in known]
            self._journal.write({"kind": "ways", "cpus": cpus, "ways": ways})
            best = sorted(
                (way for way in others if way.name in there and way.name in steps_s),
                key=lambda way: steps_s[way.name],
            )
            for way in best[: self._effort.ways]:
                self._compare(one, there[way.name], way)

    def _can(
        self, way: loader_model.Way, one: cohort.Cohort, folder: Path, stack: ExitStack
    ) -> cohort.Cohort | None:
        """Return the members that can load in another way; None where none can."""
        variant = alone(way)
        if way.name in self._ended:
            self._leave_out(variant, "a member ended when it was asked to load so")
            return None
        if way.elsewhere:
            return self._started(variant, folder, stack)
        try:
            self._resolve(way.axes, *AS_IS.changes)
        except UnavailableError as error:
            self._leave_out(variant, error.reason)
            return None
        reason = self._impossible.get(way.change or "")
        if reason is not None:
            self._leave_out(variant, reason)
            return None
        return one

    def _begin(
        self, way: loader_model.Way, one: cohort.Cohort, for_s: float, variant: Variant
    ) -> None:
        """Let members begin to load in another way; note where they end of it.

        Raises:
            MemberEndedError: a member died or hung.
        """
        try:
            self._settle(one, for_s, variant.asked or 0)
        except cohort.MemberEndedError:
            self._ended.add(way.name)
            raise

    def _watch(self, one: cohort.Cohort) -> None:
        """Look at what the machine is used for while the script trains as it is."""
        watcher = machine_use.Watcher(frozenset(probe.usable_topology(self._machine).cpu_ids))
        one.tell(one.alive, NEW)
        one.thaw()
        one.watch(self._n, machine_use.LOOKS, machine_use.EVERY_S, watcher.look)
        one.freeze()
        self._journal.write(watcher.record())

    def _neighbours(self, folder: Path) -> None:
        """Let the script train from memory beside loaders' work and foreign load, at every dose."""
        if not self._effort.neighbours:
            return
        for kind, title in loader_model.NEIGHBOURS.items():
            variant = Variant(kind, title, ("cached_batches", kind))
            with ExitStack() as own:
                other = self._started(variant, folder, own)
                if other is None:
                    continue
                self._settle(other, SETTLE_S, 0)
                shuffle = random.Random(f"{self._seed} {kind}")  # noqa: S311 (an experiment's)
                for block in range(self._effort.neighbours):
                    log.info("%s, block %d of %d", title, block + 1, self._effort.neighbours)
                    for dose in shuffle.sample(DOSES, len(DOSES)):
                        there = replace(variant, asked=round(synthetic_load.WHOLE * dose))
                        self._take(there, other, (), dose)
                    self._taker.block += 1

    def _compare(self, one: cohort.Cohort, other: cohort.Cohort, way: loader_model.Way) -> None:
        """Let the script train in another way, in turns with the script as it is."""
        variant = trains(way)
        self._begin(way, other, BEGIN_S if other is one else SETTLE_S, variant)
        pair = {AS_IS.name: one, variant.name: other}
        self._take_all([AS_IS, variant], pair, (), self._effort.blocks)

    def _seen(self, name: str) -> loader_model.Seen | None:
        """Return what a step of a variant takes, as far as it was measured."""
        taken = [one for one in self._windows if one["name"] == name and one["valid"]]
        if (step_s := mean_step_s(taken)) is None:
            return None
        members = [member for window in taken for member in window["members"]]
        counted = sum(len(member["step_us"]) for member in members)
        active = sum(member["steps_active"] for member in members)

        def total(*names: str) -> float:
            return sum(float(member[name]) for member in members for name in names)

        return loader_model.Seen(
            step_s=step_s,
            load_s=total("load_s") / counted,
            cpu_s=total("cpu_user_s", "cpu_system_s") / active,
            trainer_s=total("trainer_user_s", "trainer_system_s") / active,
            made_s=total("loader_made_s") / counted,
        )

    def _started(self, variant: Variant, folder: Path, stack: ExitStack) -> cohort.Cohort | None:
        """Start a variant and stop it; None where it cannot be."""
        try:
            other, shows = self._start(variant, self._resolve({}, *variant.changes), folder, stack)
        except UnavailableError as error:
            self._leave_out(variant, error.reason)
            return None
        if isinstance(shows, str):
            self._leave_out(variant, shows)
            self._write_events(variant.name, other.events)
            return None
        other.freeze()
        return other

    def _take(
        self,
        variant: Variant,
        one: cohort.Cohort,
        files: Sequence[Path],
        dose: float | None = None,
    ) -> None:
        labels = {
            "experiment": "feed", "name": variant.name, "dose": dose, "count": None,
            "rate_share": None,
        }  # fmt: skip

        @contextmanager
        def prepared() -> Iterator[Json]:
            """Put the files where they belong, and let the members go on for the window."""
            shares: Json = {}
            there = page_cache.resident_share(files) if variant.files == "dropped" else None
            if variant.files == "loaded":
                page_cache.load(files)
            elif variant.files == "dropped":
                page_cache.drop(files)
            if variant.files != "stay":
                shares["resident_before"] = page_cache.resident_share(files)
            if variant.asked is not None:
                one.tell(one.alive, variant.asked)
            one.thaw()
            yield shares
            one.freeze()
            if variant.files != "stay":
                shares["resident_after"] = page_cache.resident_share(files)
            if there is not None and there >= MOSTLY:
                page_cache.load(files)  # the next variant is to find them where they were

        record = self._taker.take(one, self._n, labels, prepared, timing=variant.timing)
        if record is not None:
            self._windows.append(record)
