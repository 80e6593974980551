"""What benchmarks/launches.py compares: workloads with their studies, and ways of launching them.

A study's `plan.json` says which script is trained with which arguments, in every way alike: of the
study's own parameters those that it recommends. Only run_cpu differs: it gives all its instances
the same arguments, so the same seed.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import shlex
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from child_processes import OverdueError, folder, last_lines, started
from ledger import ROOT, Entry

from scaling_study.common.placeholders import MEMBER, fill
from scaling_study.config.plan import read_plan
from scaling_study.config.work import parameters_of, with_learnt
from scaling_study.host import system
from scaling_study.host.kernel_counters import descendants
from scaling_study.records.analysis import Machines, Recommendation
from scaling_study.records.codec import read_file
from scaling_study.runner.environment import INHERITED

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from scaling_study.config import workload as planned
    from scaling_study.records.analysis import Recommended

DEFAULT, ONE_THREAD, RUN_CPU = "default", "one thread", "run_cpu"
ACCELERATE, RECOMMENDED = "accelerate", "recommended"
QUEUES = {f"recommended, --queue {way}": [way] for way in ("--fresh", "--forked")}
"""Ways that work through a list of models, with their further options."""
FRESH, FORKED = QUEUES
WAYS = (DEFAULT, ONE_THREAD, RUN_CPU, ACCELERATE, RECOMMENDED, *QUEUES)
LAUNCHERS = {RUN_CPU: "torch.backends.xeon.run_cpu", ACCELERATE: "accelerate.commands.launch"}
"""Modules that start the script."""

MODELS_PER_SLOT = 10
"""Of a queue: each slot's server imports once for all of them, and its first model imports too."""
LONGEST_S = 1800.0
"""A run that takes this long has hung."""
LOOK_S = 0.05
"""Between looks for models that have begun or ended; each costs about a millisecond at most."""
EPOCHS = "--epochs"
"""A script with this option says after each epoch that it is over."""
START_FIELD = 19
"""Of /proc/PID/stat after the command's name: when the process began, in ticks (proc(5))."""


@dataclass(frozen=True, slots=True)
class Study:
    """What a study trains, and what it recommends.

    Attributes:
        launch: The launch script.
        script: The training script, an absolute path.
        workload: The script, with its arguments.
        steps: Of a model.
        best: The recommended launch.
    """

    launch: Path
    script: Path
    workload: planned.Workload
    steps: int
    best: Recommended

    def arguments(self, member: int) -> list[str]:
        """Return the script's arguments for a member."""
        values = {**parameters_of(self.workload, self.best.axes), MEMBER: member}
        return [fill(text, values) for text in self.workload.args]

    @property
    def ending(self) -> str:
        """What a model prints when it is trained."""
        args = self.workload.args
        if EPOCHS in args:
            return f" after epoch {args[args.index(EPOCHS) + 1]}\n"
        return f" after {self.steps} steps\n"


def read_study(path: Path) -> Study:
    """Read results/<study> of a study of this machine.

    Raises:
        ValueError: it recommends nothing, or does not say how many steps a model has.
        OSError: a file of it is missing.
    """
    path = path.resolve()
    file = path / "analysis/recommendation.json"
    (found,) = read_file(file, Machines[Recommendation]).machines
    if found.recommended is None:
        raise ValueError(f"{path} has nothing to recommend: {found.reason}")
    plan = with_learnt(read_plan(path / "plan.json"), {}, found.model_length)
    if plan.steps_per_model is None:
        raise ValueError(f"{path} does not say workload.steps_per_model")
    return Study(
        path / "launch/recommended.sh",
        path.parents[1] / str(plan.workload.script),
        plan.workload,
        round(plan.steps_per_model),
        found.recommended,
    )


def environment() -> dict[str, str]:
    """Return what a shell has after `. .venv/bin/activate`, and nothing that changes a launch.

    run_cpu looks for libraries to preload in VIRTUAL_ENV. Threads, allocators, preloads and BLAS
    settings of the caller are left out.
    """
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    path = os.pathsep.join([f"{sys.prefix}/bin", kept.get("PATH", os.defpath)])
    return {**kept, "PATH": path, "VIRTUAL_ENV": sys.prefix}


def commands(way: str, study: Study, n: int, own: Path) -> list[list[str]]:
    """Return the commands of a way, which are started at once.

    Args:
        way: One of WAYS.
        study: Of the script.
        n: Processes, where the launch script does not decide that.
        own: A folder for files of this run.
    """
    if way == RUN_CPU:
        # It takes physical cores only, unless it is asked for all CPUs.
        cores = len(system.read_topology().domains("core"))
        logical = ["--use-logical-core"] if n > cores else []
        per_instance = ["--ncores-per-instance", str(max(1, cores // n))]
        options = ["--ninstances", str(n), *per_instance, *logical]
        launcher = [sys.executable, "-m", LAUNCHERS[RUN_CPU], *options]
        return [[*launcher, str(study.script), *study.arguments(0)]]
    if way in {DEFAULT, ONE_THREAD, ACCELERATE}:
        # Accelerate starts one process, and divides the cores by the processes it is told of.
        accelerate = ["-m", LAUNCHERS[ACCELERATE], "--cpu", "--num_processes", str(n)]
        command = [sys.executable, *(accelerate if way == ACCELERATE else []), str(study.script)]
        return [[*command, *study.arguments(member)] for member in range(n)]
    if way == RECOMMENDED:
        return [["bash", str(study.launch), str(own / "logs")]]
    models = own / "models.txt"
    lines = [shlex.join(study.arguments(member)) for member in range(models_of(way, study, n))]
    models.write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = ["--queue", *QUEUES[way]]
    return [["bash", str(study.launch), *options, str(models), str(own / "logs")]]


def models_of(way: str, study: Study, n: int) -> int:
    """Return how many models a run of a way trains."""
    if way in QUEUES:
        return MODELS_PER_SLOT * study.best.n
    return study.best.n if way == RECOMMENDED else n


def run(way: str, study: Study, n: int, longest_s: float = LONGEST_S) -> Entry:
    """Train models in one way; return how long that took, in s.

    `wall_s` is from the first command's start until the last one has ended. `models_s` is from the
    first model's start, which the kernel rounds down to 10 ms, until the last one has ended. It is
    None where models come one after the other, or were over before they were seen. A run that takes
    `longest_s` is stopped, and both are that time.
    """
    count = models_of(way, study, n)
    env = environment() | ({"OMP_NUM_THREADS": "1"} if way == ONE_THREAD else {})
    about = {"status": "ok", "models": count, "preloaded": []}
    try:
        with folder("launches-") as own:
            with ExitStack() as stack:
                began_s = _now_s()
                processes = []
                for number, command in enumerate(commands(way, study, n, own)):
                    slot = own / f"command-{number}"
                    slot.mkdir()
                    processes.append(stack.enter_context(started(command, slot, slot, env)))
                looked_for = 0 if way in QUEUES else count
                models_s = _wait(processes, study.script.name, looked_for, longest_s)
                wall_s = _now_s() - began_s
            _check([process.returncode for process in processes], own, count, study.ending)
            if way == RUN_CPU:
                about["preloaded"] = _preloaded(own / "command-0/output")
    except OverdueError:
        return {**about, "wall_s": longest_s, "models_s": longest_s, "stopped": True}
    except (RuntimeError, OSError) as error:
        return {"status": "failed", "reason": str(error)}
    return {**about, "wall_s": wall_s, "models_s": models_s}


def _now_s() -> float:
    """Return the time since boot, by which the kernel says when a process began."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _wait(
    processes: Sequence[subprocess.Popen[bytes]], script: str, models: int, longest_s: float
) -> float | None:
    """Wait for all commands; return the time from the first model's start to the last one's end.

    Args:
        processes: The commands.
        script: Name of the script's file.
        models: How many models begin at once; 0 if none are looked for.
        longest_s: How long to wait.

    Raises:
        OverdueError: it takes longer.
    """
    starts: dict[int, float] = {}
    deadline_s, ended_s = _now_s() + longest_s, math.nan
    while any(process.poll() is None for process in processes):
        if _now_s() > deadline_s:
            raise OverdueError
        time.sleep(LOOK_S)
        for pid in descendants(os.getpid())[1:] if len(starts) < models else ():
            # One that is gone, or is not a model yet.
            with suppress(OSError):
                if pid not in starts and _is_model(pid, script):
                    starts[pid] = int(_stat(pid)[START_FIELD]) / os.sysconf("SC_CLK_TCK")
        if any(map(_trains, starts)):
            ended_s = _now_s()
    return ended_s - min(starts.values()) if 0 < models == len(starts) else None


def _is_model(pid: int, script: str) -> bool:
    """Whether a process runs the script, or is about to; launchers name the script too."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    named = any(Path(word).name == script for word in words)
    return named and set(LAUNCHERS.values()).isdisjoint(words)


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command's name."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()


def _trains(pid: int) -> bool:
    """Whether a process has not ended yet."""
    with suppress(OSError):
        return _stat(pid)[0] != "Z"
    return False


def _check(statuses: Sequence[int], own: Path, models: int, ending: str) -> None:
    """Check that all models were trained: run_cpu's status is 0 where its instances failed, too.

    Raises:
        RuntimeError: they were not.
    """
    files = [*own.glob("command-*/output"), *own.glob("logs/*.log")]
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    trained = sum(text.count(ending) for text in texts)
    if any(statuses) or trained != models:
        said = " / ".join(last_lines(file) for file in files)
        raise RuntimeError(f"{trained} of {models} models trained, statuses {statuses}: {said}")


def _preloaded(output: Path) -> list[str]:
    """Return the names of the libraries that run_cpu says it preloads."""
    found = re.findall(r"LD_PRELOAD=(\S+)", output.read_text(encoding="utf-8", errors="replace"))
    return [Path(name).name for name in found[-1].split(os.pathsep)] if found else []


QUICK, TEMPLATE = ROOT / "config/quick.yaml", ROOT / "config/own-script.yaml"
NCF = ROOT / "config/ncf-one-model.yaml"
EPOCH_STEPS = 328
"""Of NCF, the only script with epochs: 83,731 ratings in batches of 256."""
RIVALS = (DEFAULT, ONE_THREAD, RUN_CPU, ACCELERATE)
"""Than which `recommended` should nowhere be slower."""


class Workload(NamedTuple):
    """A script of the project, and what its study's launch should reach beside other ways.

    Attributes:
        script: Its path.
        length: Its option for the length of a model, with the value.
        field: A config, whose launches are raced.
        targets: What the queue of forked models should reach over these ways; none beside RIVALS.
        parameters: Which of the field's parameters are raced, with their options. The script's own
            defaults hold for the others.
    """

    script: Path
    length: tuple[str, int]
    field: Path
    targets: Mapping[str, float] = {}
    parameters: Mapping[str, str] = {}

    @property
    def steps(self) -> int:
        """How many steps a model has."""
        option, value = self.length
        return value * (EPOCH_STEPS if option == EPOCHS else 1)

    @property
    def ways(self) -> tuple[str, ...]:
        """Which ways are compared."""
        return (*self.targets, FORKED) if self.targets else (*RIVALS, RECOMMENDED)

    def config(self, name: str, n: int, budget_minutes: float | None) -> dict[str, Any]:
        """Return a study that only races: config/quick.yaml with this script and these launches.

        Args:
            name: The study's.
            n: Processes.
            budget_minutes: Of the race; None for that of config/quick.yaml.
        """
        quick: dict[str, Any] = yaml.safe_load(QUICK.read_text(encoding="utf-8"))
        field = yaml.safe_load(self.field.read_text(encoding="utf-8"))
        raced = [f"{option} {{{name}}}".split() for name, option in self.parameters.items()]
        args = [*map(str, self.length), "--seed", "{member}", *itertools.chain(*raced)]
        declared = field["workload"].get("parameters", {})
        others = declared.keys() - self.parameters.keys()
        launches = field["launches"]
        one_change = {
            axis: values for axis, values in launches["one_change"].items() if axis not in others
        }
        include = [one for one in launches.get("include", ()) if not one.keys() & others]
        search = {"budget_minutes": budget_minutes} if budget_minutes else quick["search"]
        return {
            **quick,
            "study": name,
            "description": f"For benchmarks/launches.py: {self.script}",
            "workload": {
                "script": str(self.script),
                "args": args,
                "parameters": {name: declared[name] for name in self.parameters},
                "steps_per_model": self.steps,
            },
            "processes": [n],
            "launches": {**launches, "one_change": one_change, "include": include},
            "search": search,
            "confirm": "off",
            "why": "off",
        }


STEPS = "--steps"
TSMIXERX, NCF_SCRIPT = Path("scripts/workloads/tsmixerx.py"), Path("scripts/workloads/ncf.py")
WORKLOADS = {
    "TSMixerx": Workload(TSMIXERX, (STEPS, 500), QUICK, {ONE_THREAD: 2.2, RUN_CPU: 2.4}),
    "NCF of one epoch": Workload(NCF_SCRIPT, (EPOCHS, 1), NCF, {FRESH: 1.0}),
    "plain loop": Workload(
        Path("benchmarks/truth/dense.py"), (STEPS, 1000), TEMPLATE, {FRESH: 1.0}
    ),
    "longer TSMixerx": Workload(TSMIXERX, (STEPS, 2000), TEMPLATE),
    "NCF as written": Workload(NCF_SCRIPT, (EPOCHS, 2), NCF),
    "NCF as recommended": Workload(
        NCF_SCRIPT, (EPOCHS, 20), NCF, parameters={"sampling": "--sampling"}
    ),
}
