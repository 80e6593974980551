"""What a config asks for on this machine, without running anything."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from scaling_study.analysis.imported import load_import, outline
from scaling_study.common.problems import ConfigError
from scaling_study.config import process_counts
from scaling_study.config.config import load_config
from scaling_study.config.config_file import located, read_config, shipped
from scaling_study.config.estimate import describe, estimate
from scaling_study.config.import_config import is_import
from scaling_study.config.launches import look
from scaling_study.config.plan import make_plan
from scaling_study.host import limits, system
from scaling_study.runner import resolve
from scaling_study.search import forecast

if TYPE_CHECKING:
    from pathlib import Path


def check_config(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the description of a study, and its plan as JSON can hold it.

    Raises:
        ConfigError: with every mistake found.
        UnavailableError: the workload cannot start here.
    """
    try:
        return _check(read_config(path))
    except ConfigError as error:
        raise located(error, [path]) from None


def _check(content: object) -> tuple[str, dict[str, Any]]:
    mapping = shipped(content)
    if is_import(mapping):
        study = load_import(mapping)
        return outline(study), study.to_dict()
    plan = make_plan(load_config(mapping), look(os.environ, limits.read_memory_policy()))
    runs_in = resolve.check_workload(plan.workload.model_dump())
    topology = system.read_topology().restricted(limits.read_allowed_cpus())
    quota_cpus = limits.read_quota_cpus()
    counts = process_counts.resolve(plan.processes, topology, quota_cpus)
    race = forecast.describe(plan.to_dict(), topology, quota_cpus)
    text = describe(plan, counts, estimate(plan, counts), race)
    return f"{text}\n  runs in {runs_in}", plan.to_dict()
