"""The time that a model's imports take, at the start of a process that trains it."""

import contextlib
import json
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from scaling_study.launch.launchers.launcher import Launch, Member, bind_command, split_preload
from scaling_study.records.confirmation import Imports
from scaling_study.runner.free_run import Program

# Imports as ``ahead`` does, but without checks of what each module leaves behind.
IMPORT = """
import importlib, json, sys
for what, name, *_ in json.load(open(sys.argv[1]))["steps"]:
    if what == "import":
        try:
            importlib.import_module(name)
        except Exception:
            pass
"""
LIMIT_S = 300
SHOWN = 5


def measure(file: Path, launch: Launch, member: Member, program: Program) -> Imports:
    """Import a model's modules once, in a fresh process of a launch with nothing beside it.

    Args:
        file: lists the imports of the first model (see ``ahead``).
        launch: the launch.
        member: the member of the slot.
        program: the program whose models are forked.

    Returns:
        The imports, and the packages that take longest: none if the process takes too long, those
        before its end if it fails.
    """
    found = json.loads(file.read_text(encoding="utf-8"))
    env, preload = split_preload(program.environment(launch))
    words = [
        *bind_command(member.cpus, member.mempolicy, preload, ()),
        *(launch.python, "-X", "importtime", "-c", IMPORT, str(file)),
    ]
    said = b""
    with contextlib.suppress(subprocess.TimeoutExpired):
        said = subprocess.run(
            words, env=env, cwd=launch.cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, check=False, timeout=LIMIT_S,
        ).stderr  # fmt: skip
    times = _times(said.decode(errors="replace").splitlines())
    return Imports(
        steps=found["steps"],
        left=found["left"],
        seconds=dict(sorted(times.items(), key=lambda one: -one[1])[:SHOWN]),
        all_s=sum(times.values()),
    )


def _times(lines: Iterable[str]) -> dict[str, float]:
    """Return the time (s) of each package's own modules, from what ``-X importtime`` prints."""
    times: dict[str, float] = defaultdict(float)
    for line in lines:
        head, _, rest = line.partition("import time:")
        own, _, name = rest.replace("|", " ").strip().partition(" ")
        if not head and own.isdecimal():
            times[name.split()[-1].partition(".")[0]] += int(own) / 1e6
    return times
