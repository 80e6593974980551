"""What the loader costs: waiting for it, and its getting in the way of training.

A step as it is consists of four parts. *Waiting* is the time in the loader's `__next__`. *Training*
is the step with batches from memory. *Interference* is what that takes longer while the loader does
all that it does, where each of its batches is taken and swapped for one from memory. The rest is
shown: that batches are new ones, and what else these do not account for. Shares are ratios of means
over the same blocks (`ratios`).

The comparison of fetching and preparing is that of Mohan et al. 2021 (Analyzing and Mitigating Data
Stalls in DNN Training, VLDB 14(5)): a script whose files are in memory prepares only; what it takes
longer without them is fetching.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from scaling_study.experiments import loader_model
from scaling_study.records.codec import plain
from scaling_study.stats import ratios

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scaling_study.analysis.experiment_runs import LoaderRun
    from scaling_study.records.experiment import Look, Use, Ways
    from scaling_study.stats.interval import Interval
    from scaling_study.stats.intervals import Floats

Json = dict[str, Any]
Booleans = NDArray[np.bool_]

COLD, WARM = 0.1, 0.9
"""Files of which more is in memory were not dropped; files of which less is do not fit there. Where
that much is back at its end, a window without them was not one for long."""

SHOWN = ("kind", "workers", "threads", "settable", "by_row", "ready")
"""Of a loader's fields."""


def data_loader(runs: Sequence[LoaderRun]) -> Json:
    """Say what a launch's loader costs.

    Args:
        runs: Of one machine, at least one.

    Returns:
        The machine's entry of analysis/data_loader.json, without the machine: `status`, `reason`,
        `launch`, `label`, `n`, `cached`; `variants` (their steps and rates), `parts` (waiting,
        training, interference and rest: in s, and as shares of a step), `fetching` and `preparing`
        (s), `most` (what the loader and training could give), `ways` (other ways to load, predicted
        and measured), `neighbours`, `disk_bytes_per_s`, `use`, `left_out`.
    """
    head, ends = runs[0].head, [run.end for run in runs if run.end]
    reports = [run.readbacks["as_is"].cached for run in runs if "as_is" in run.readbacks]
    windows = pd.concat([run.windows for run in runs], ignore_index=True)
    measured = not windows.empty and "as_is" in set(windows["variant"])
    status, reason = "ok", None
    if not measured:
        status = ends[0].status if ends else "failed"
        reason = next((end.reason for end in ends if end.reason), "no valid window")
        windows = pd.DataFrame(columns=["variant", "replicate", "block"])
    case = _Case(windows)
    return {
        "status": status,
        "reason": reason,
        **{name: getattr(head, name) for name in ("launch", "label", "n", "effort")},
        "replicates": len(runs),
        "cached": next((one for one in reports if one), None),
        "invalid": sum(run.invalid for run in runs),
        "left_out": [plain(one) for one in (runs[0].end.left_out if runs[0].end else ())],
        "use": next((use(run.use) for run in runs if run.use), None) if measured else None,
        "variants": case.variants(head.n),
        "parts": case.parts(),
        **case.stalls(),
        "most": case.most(head.n),
        "ways": case.other_ways(next((run.ways for run in runs if run.ways), None)),
        "neighbours": case.neighbours(),
        "disk_bytes_per_s": case.disk_reads(),
    }


def use(seen: Use) -> Json | None:
    """CPU time, disks, network and memory while the script trained as it is.

    Returns:
        `cpus` that the study may use, the size of /dev/shm (`shared_bytes`), and `spans` between
        two looks: `at_s` of its middle, CPUs used by `trainers`, `threads`, `workers` and `others`,
        bytes a second of `disk` and `network`, the part of the time in which something waited for a
        CPU or a disk (`stalled_cpu`, `stalled_io`), and bytes of `memory_left` and `shared_left`.
        None without two looks.
    """
    spans = [_span(*pair, seen.looks[0].at_s) for pair in itertools.pairwise(seen.looks)]
    if not spans:
        return None
    return {"cpus": seen.cpus, "shared_bytes": seen.shared_bytes, "spans": spans}


def _span(one: Look, other: Look, began_s: float) -> Json:
    took_s = other.at_s - one.at_s

    def rate(name: str) -> float | None:
        before, after = getattr(one, name), getattr(other, name)
        return None if before is None or after is None else max(0.0, (after - before) / took_s)

    used = {name: rate(f"{name}_s") or 0.0 for name in ("trainers", "threads", "workers")}
    busy = rate("busy_s") or 0.0
    return {
        "at_s": (one.at_s + other.at_s) / 2 - began_s,
        **used,
        "others": max(0.0, busy - sum(used.values())),
        "disk": rate("disk_bytes"),
        "network": rate("network_bytes"),
        "stalled_cpu": rate("stalled_cpu_s"),
        "stalled_io": rate("stalled_io_s"),
        "memory_left": other.memory_left_bytes,
        "shared_left": other.shared_left_bytes,
    }


class _Case:
    """Times per step by variant, in blocks that all of them share."""

    def __init__(self, windows: pd.DataFrame) -> None:
        self._windows = windows
        self._measured = set(windows["variant"])
        self._blocks = pd.MultiIndex.from_frame(
            windows[["replicate", "block"]].drop_duplicates().sort_values(["replicate", "block"])
        )
        replicates = self._blocks.get_level_values("replicate")
        self._replicates = replicates.to_numpy(dtype=np.int64)
        enough = len(set(self._replicates)) >= ratios.ENOUGH_REPLICATES
        self._units: ratios.Units = "replicates" if enough else "blocks"

    def column(self, variant: str, name: str = "step_s") -> Floats:
        """One value per block, NaN where the variant has none."""
        if variant not in self._measured:
            return np.full(len(self._blocks), np.nan)
        own = self._windows[self._windows["variant"] == variant]
        means = own.groupby(["replicate", "block"])[name].mean().reindex(self._blocks)
        return means.to_numpy(dtype=np.float64)

    def ratio(self, over: Floats, under: Floats) -> Interval | None:
        """Mean over mean, with its interval."""
        return ratios.ratio_of_means(ratios.pair(over, under, self._replicates, self._units))

    def variants(self, n: int) -> list[Json]:
        """Step, CPU time and rate of each variant."""
        step = self.column("as_is")
        return [
            {
                "variant": name,
                "step_s": _dict(self.ratio(own, np.ones_like(step))),
                "against": _dict(self.ratio(own, step)),
                "cpu_s": self.cpu_s(name),
                "per_s": n / ratios.mean(own),
            }
            for name in loader_model.TITLES
            if name in self._measured
            for own in [self.column(name)]
        ]

    def parts(self) -> list[Json]:
        """Waiting, training, interference and the rest of a step, as far as they are known."""
        step = self.column("as_is")
        found = {"waiting": self.column("as_is", "load_s_per_step")}
        if "cached" in self._measured:
            found["training"] = self.column("cached")
            if "swapped" in self._measured:
                swapped = self.column("swapped") - self.column("swapped", "load_s_per_step")
                found["interference"] = swapped - found["training"]
            found["rest"] = step - np.sum(list(found.values()), axis=0)
        return [
            {"part": name, "s": ratios.mean(part), "share": _dict(self.ratio(part, step))}
            for name, part in found.items()
            if "as_is" in self._measured
        ]

    def stalls(self) -> dict[str, Json | None]:
        """How long fetching and preparing take (s), of steps without files in memory, and with."""
        cold = self._held("cold", "resident_before", lambda share: share <= COLD)
        cold = np.where(self.column("cold", "resident_after") < WARM, cold, np.nan)
        warm = self._held("warm", "resident_before", lambda share: share >= WARM)
        ones = np.ones_like(warm)
        return {
            "fetching": _dict(self.ratio(cold - warm, ones)),
            "preparing": _dict(self.ratio(warm - self.column("cached"), ones)),
        }

    def most(self, n: int) -> dict[str, float]:
        """What the loader and training could give, each alone (1/s)."""
        return {
            name: n / ratios.mean(self.column(variant))
            for name, variant in (("loader", "only"), ("training", "cached"))
            if variant in self._measured
        }

    def other_ways(self, known: Ways | None) -> list[Json]:
        """What a step should take with other ways to load, and what it took.

        Returns:
            A row for each, as it is first: `name` (empty), `title`, `axes` (of a launch that loads
            so), `predicted_s`, `loader_s` (a batch with nobody who trains), and, where the script
            was run so, `measured_s` and `gain` (against the script as it is).
        """
        if known is None:
            return []
        return [
            {
                "name": way.name,
                "title": way.title,
                "axes": way.axes,
                "loader_s": self.step_s(way.alone),
                "predicted_s": loader_model.predicted_s(way, known.ways[0], known.cpus, self.seen),
                "measured_s": self.step_s(way.trains),
                "gain": _dict(self.ratio(self.column("as_is"), self.column(way.trains))),
            }
            for way in known.ways
        ]

    def disk_reads(self) -> dict[str, float]:
        """What the machine read from disks (bytes/s), by variant: as it is, and with files cold."""
        found = {
            name: ratios.mean(self.column(name, "disk_bytes_per_s")) for name in ("as_is", "cold")
        }
        return {name: read for name, read in found.items() if not np.isnan(read)}

    def neighbours(self) -> list[Json]:
        """What work beside training from memory does to it.

        Returns:
            An entry for each kind of it: `kind`, `title`, and `doses`, each with the `dose`, the
            `cpus` that it used, the step over that beside none (`ratio`), and the `spread` of
            steps.
        """
        return [
            {"kind": kind, "title": title, "doses": self._doses(kind)}
            for kind, title in loader_model.NEIGHBOURS.items()
            if kind in self._measured
        ]

    def _doses(self, kind: str) -> list[Json]:
        own = self._windows[self._windows["variant"] == kind]
        used = own["user_s_per_step"] + own["system_s_per_step"]
        trainer = own["trainer_user_s_per_step"] + own["trainer_system_s_per_step"]
        own = own.assign(cpus=(used - trainer) / own["step_s"])
        means = own.groupby(["replicate", "block", "dose"])[["step_s", "cpus", "spread"]].mean()
        alone = means.xs(0.0, level="dose")["step_s"]
        found = []
        for dose in sorted(own["dose"].unique()):
            there = means.xs(dose, level="dose")
            both = there.join(alone.rename("alone"), how="inner")
            starts = both.index.get_level_values("replicate").to_numpy(dtype=np.int64)
            steps, zero = both["step_s"].to_numpy(), both["alone"].to_numpy()
            pairs = ratios.pair(steps, zero, starts, self._units)
            found.append(
                {
                    "dose": float(dose),
                    "cpus": float(there["cpus"].mean()),
                    "spread": float(there["spread"].mean()),
                    "ratio": _dict(ratios.ratio_of_means(pairs)),
                }
            )
        return found

    def seen(self, variant: str) -> loader_model.Seen | None:
        """What a step of a variant takes; None where it was not measured."""
        if (step_s := self.step_s(variant)) is None:
            return None

        def mean(*columns: str) -> float:
            means = [ratios.mean(self.column(variant, one)) for one in columns]
            return float(np.nansum(means))

        return loader_model.Seen(
            step_s=step_s,
            load_s=mean("load_s_per_step"),
            cpu_s=mean("user_s_per_step", "system_s_per_step"),
            trainer_s=mean("trainer_user_s_per_step", "trainer_system_s_per_step"),
            made_s=mean("loader_made_s_per_step"),
        )

    def step_s(self, variant: str) -> float | None:
        """Mean step of a variant; None where it was not measured."""
        return _or_none(ratios.mean(self.column(variant)))

    def cpu_s(self, variant: str) -> float | None:
        """Its mean CPU time."""
        parts = (self.column(variant, f"{kind}_s_per_step") for kind in ("user", "system"))
        return _or_none(ratios.mean(np.sum(list(parts), axis=0)))

    def _held(self, variant: str, name: str, holds: Callable[[Floats], Booleans]) -> Floats:
        """A variant's steps, in blocks in which its files were where they should be."""
        return np.where(holds(self.column(variant, name)), self.column(variant), np.nan)


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value


def _dict(estimate: Interval | None) -> Json | None:
    return None if estimate is None or np.isnan(estimate.value) else estimate.to_dict()
