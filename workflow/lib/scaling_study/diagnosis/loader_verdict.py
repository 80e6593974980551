"""The cost of a data loader: training waits for it, and its work interferes with training.

A step consists of four parts. *Waiting* is the time in the loader's `__next__`. *Training* is the
step with batches from memory. *Interference* is the time that replaced batches add to that: the
loader makes each batch, and training uses one from memory instead. The remainder is shown, too.
Shares are ratios of means over the same blocks (`ratios`).

Fetching and preparing are compared as in Mohan et al. 2021 (Analyzing and Mitigating Data Stalls in
DNN Training, VLDB 14(5)): a script whose files are in memory only prepares; the time that it takes
longer with files on disk is fetching.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from msgspec import convert

from scaling_study.analysis.experiment_runs import LoaderRun
from scaling_study.diagnosis.case import arrange, or_none, units_of
from scaling_study.experiments import loader_model
from scaling_study.records import verdict
from scaling_study.records.experiment import Use, UseReading, Ways
from scaling_study.stats import ratios
from scaling_study.stats.interval import Floats, Interval

COLD, WARM = 0.1, 0.9
"""Files with more than `COLD` in memory were not dropped; with less than `WARM`, they do not fit. A
window that ends with `WARM` in memory again did not run without files for long."""


def data_loader(runs: Sequence[LoaderRun]) -> verdict.DataLoader:
    """Return the cost of a launch's loader.

    Args:
        runs: Runs on one machine, at least one.
    """
    head, ends = runs[0].head, [run.end for run in runs if run.end]
    reports = [run.readbacks["as_is"].cached for run in runs if "as_is" in run.readbacks]
    windows = pd.concat([run.windows for run in runs], ignore_index=True)
    measured = not windows.empty and "as_is" in set(windows["name"])
    status, reason = "ok", None
    if not measured:
        status = ends[0].status if ends else "failed"
        reason = next((end.reason for end in ends if end.reason), "no valid window")
        windows = pd.DataFrame(columns=["name", "n", "replicate", "block"])
    case = _Case(windows, head.n)
    fetching, preparing = case.stalls()
    return verdict.DataLoader(
        machine=head.machine_hash,
        status=status,
        reason=reason,
        **{name: getattr(head, name) for name in ("launch", "label", "n", "effort")},
        replicates=len(runs),
        cached=next((convert(report, verdict.Cached) for report in reports if report), None),
        invalid=sum(run.invalid for run in runs),
        left_out=tuple(runs[0].end.left_out) if runs[0].end else (),
        use=next((use(run.use) for run in runs if run.use), None) if measured else None,
        variants=tuple(case.variants()),
        parts=tuple(case.parts()),
        fetching=fetching,
        preparing=preparing,
        most=case.most(),
        ways=tuple(case.other_ways(next((run.ways for run in runs if run.ways), None))),
        disk_bytes_per_s=case.disk_reads(),
    )


def use(machine_use: Use) -> verdict.MachineUse | None:
    """Return the use of CPUs, disks, network and memory in training; None without two looks."""
    spans = [
        _span(*pair, machine_use.looks[0].at_s) for pair in itertools.pairwise(machine_use.looks)
    ]
    if not spans:
        return None
    return verdict.MachineUse(
        cpus=machine_use.cpus, shared_bytes=machine_use.shared_bytes, spans=tuple(spans)
    )


def _span(earlier: UseReading, other: UseReading, began_s: float) -> verdict.Span:
    """Return the use between two looks; its time is midway between them."""
    took_s = other.at_s - earlier.at_s

    def rate(name: str) -> float | None:
        before, after = getattr(earlier, name), getattr(other, name)
        return None if before is None or after is None else max(0.0, (after - before) / took_s)

    used = {name: rate(f"{name}_s") or 0.0 for name in ("trainers", "threads", "workers")}
    return verdict.Span(
        at_s=(earlier.at_s + other.at_s) / 2 - began_s,
        **used,
        others=max(0.0, (rate("busy_s") or 0.0) - sum(used.values())),
        disk=rate("disk_bytes"),
        network=rate("network_bytes"),
        stalled_cpu=rate("stalled_cpu_s"),
        stalled_io=rate("stalled_io_s"),
        memory_left=other.memory_left_bytes,
        shared_left=other.shared_left_bytes,
    )


class _Case:
    """Times per step by variant, in blocks that all of them share."""

    def __init__(self, windows: pd.DataFrame, n: int) -> None:
        self._n, self._windows = n, arrange(windows, "n", units_of(windows["replicate"]))
        self._measured = set(windows["name"])

    def column(self, variant: str, name: str = "step_s") -> Floats:
        """Return one value per block, NaN where the variant has none."""
        return self._windows.column(name, variant, self._n)

    def ratio(self, over: Floats, under: Floats) -> Interval | None:
        """Return mean over mean, with its interval; None where one of them is not known."""
        interval = ratios.ratio_of_means(self._windows.pair(over, under))
        return None if interval is None or np.isnan(interval.value) else interval

    def variants(self) -> Iterator[verdict.LoaderVariant]:
        """Yield step, CPU time and rate of each variant."""
        step = self.column("as_is")
        for name in (variant.name for variant in loader_model.VARIANTS):
            if name in self._measured:
                steps = self.column(name)
                cpu = self.column(name, "user_s_per_step") + self.column(name, "system_s_per_step")
                yield verdict.LoaderVariant(
                    variant=name,
                    step_s=self.ratio(steps, np.ones_like(step)) or Interval(),
                    against=self.ratio(steps, step),
                    cpu_s=or_none(ratios.mean(cpu)),
                    per_s=self._n / ratios.mean(steps),
                )

    def parts(self) -> list[verdict.LoaderPart]:
        """Return the known parts of a step: waiting, training, interference and the rest."""
        if "as_is" not in self._measured:
            return []
        step = self.column("as_is")
        parts = {"waiting": self.column("as_is", "load_s_per_step")}
        if "cached" in self._measured:
            parts["training"] = self.column("cached")
            if "swapped" in self._measured:
                swapped = self.column("swapped") - self.column("swapped", "load_s_per_step")
                parts["interference"] = swapped - parts["training"]
            parts["rest"] = step - np.sum(list(parts.values()), axis=0)
        return [
            verdict.LoaderPart(
                part=name, s=ratios.mean(part), share=self.ratio(part, step) or Interval()
            )
            for name, part in parts.items()
        ]

    def stalls(self) -> tuple[Interval | None, Interval | None]:
        """Return the times per step (s) of fetching and of preparing."""
        before, after = (self.column("cold", f"resident_{when}") for when in ("before", "after"))
        cold = np.where((before <= COLD) & (after < WARM), self.column("cold"), np.nan)
        # Files that were just read are taken to be in memory where the kernel does not tell.
        gone = self.column("warm", "resident_before") < WARM
        warm = np.where(gone, np.nan, self.column("warm"))
        ones = np.ones_like(warm)
        return self.ratio(cold - warm, ones), self.ratio(warm - self.column("cached"), ones)

    def most(self) -> dict[str, float]:
        """Return the rates of the loader alone and of training alone (1/s)."""
        return {
            name: self._n / ratios.mean(self.column(variant))
            for name, variant in (("loader", "only"), ("training", "cached"))
            if variant in self._measured
        }

    def other_ways(self, known: Ways | None) -> list[verdict.LoaderWay]:
        """Return predicted and measured steps of ways to load; the script as it is comes first."""
        if known is None:
            return []
        return [
            verdict.LoaderWay(
                name=way.name,
                title=way.title,
                axes=way.axes,
                loader_s=self.step_s(way.alone),
                predicted_s=loader_model.predicted_s(way, known.ways[0], known.cpus, self.seen),
                measured_s=self.step_s(way.trains),
                gain=self.ratio(self.column("as_is"), self.column(way.trains)),
            )
            for way in known.ways
        ]

    def disk_reads(self) -> dict[str, float]:
        """Return reads from disks (bytes/s) by variant: as it is, and with files not in memory."""
        reads = {
            name: ratios.mean(self.column(name, "disk_bytes_per_s")) for name in ("as_is", "cold")
        }
        return {name: read for name, read in reads.items() if not np.isnan(read)}

    def seen(self, variant: str) -> loader_model.StepParts | None:
        """Return the parts of a variant's step; None where it was not measured."""
        if (step_s := self.step_s(variant)) is None:
            return None

        def mean(*columns: str) -> float:
            return float(
                np.nansum([ratios.mean(self.column(variant, column)) for column in columns])
            )

        return loader_model.StepParts(
            step_s=step_s,
            load_s=mean("load_s_per_step"),
            cpu_s=mean("user_s_per_step", "system_s_per_step"),
            trainer_s=mean("trainer_user_s_per_step", "trainer_system_s_per_step"),
            made_s=mean("loader_made_s_per_step"),
        )

    def step_s(self, variant: str) -> float | None:
        """Return the mean step of a variant; None where it was not measured."""
        return or_none(ratios.mean(self.column(variant)))
