"""How members are started: the Python environment, and one of the launchers."""

import os
from collections.abc import Mapping
from pathlib import Path

from scaling_study.common import entries
from scaling_study.common.axis_values import Axes
from scaling_study.common.problems import require_file, require_path, wrong
from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes.axis import Axis, Effects, Others
from scaling_study.launch.launchers import dask
from scaling_study.launch.launchers.launcher import Exec, Launcher
from scaling_study.records import window
from scaling_study.records.readback import Readback

# ---- build

REQUIREMENTS_FOLDER = "envs"


def _read_build(value: object, files: bool) -> str | None:
    if not isinstance(value, str) or ("/" not in value and not value.endswith(".txt")):
        return None
    if not value.endswith(".txt"):
        return read_interpreter(value, BUILD.allowed, files=files)
    if files:
        require_file(value, BUILD.allowed)
        if Path(value).parent.resolve() != Path(REQUIREMENTS_FOLDER).resolve():
            raise wrong(value, f"is not in {REQUIREMENTS_FOLDER}/", BUILD.allowed)
    return value


def read_interpreter(value: str, allowed: str, *, files: bool) -> str:
    """Read the path of an interpreter, or of its environment's folder, from a config.

    Args:
        value: The config's value.
        allowed: The allowed values, as text for messages.
        files: Whether the interpreter must exist.

    Raises:
        ConfigError: There is none, or it is not executable.
    """
    if files:
        require_path(str(Path(value).expanduser()), allowed)
        python = as_interpreter(value)
        if not Path(python).is_file():
            raise wrong(value, "has no bin/python", allowed)
        if not os.access(python, os.X_OK):
            raise wrong(value, "is not executable", allowed)
    return value


def as_interpreter(path: str) -> str:
    """Return the absolute path of an interpreter.

    Links are not followed: a virtual environment's interpreter is a link to its base's.

    Args:
        path: The interpreter, or the folder of a virtual or conda environment.
    """
    found = Path(path).expanduser()
    return os.path.abspath(found / "bin" / "python" if found.is_dir() else found)  # noqa: PTH100


INTERPRETER = "the path of a Python interpreter, or of the folder of its venv or conda environment"
BUILD = Others(
    f"{INTERPRETER}, or of a requirements file ({REQUIREMENTS_FOLDER}/*.txt)", _read_build
)


def interpreter(build: str, folder: Path) -> str | None:
    """Return the interpreter of a build; None for the workload's own.

    Args:
        build: The axis's value.
        folder: Holds the environments that are made from requirements.
    """
    if build == "default":
        return None
    if build.endswith(".txt"):
        return str((folder / Path(build).stem / "bin" / "python").absolute())
    return as_interpreter(build)


def _holds_build(value: str, readback: Readback, _slot: window.Slot) -> bool:
    python = readback.python
    if value.endswith(".txt"):
        return Path(python).parts[-3:] == (Path(value).stem, "bin", "python")
    # The workload's interpreter is started by its path.
    return value == "default" or as_interpreter(value) == as_interpreter(python)


# ---- launcher

DEFAULT = "exec"
LAUNCHERS: Mapping[str, Launcher] = entries.found(
    "launch.launchers",
    "LAUNCHER",
    Launcher,
    {DEFAULT: Launcher("a fresh interpreter for each", Exec), "dask": dask.LAUNCHER},
)
"""All launchers by name; the first one is the default."""


def _refuse_launcher(axes: Axes) -> None:
    launcher, membind = axes["launcher"], axes["membind"]
    if membind != "none" and not LAUNCHERS[str(launcher)].binds_memory:
        raise UnavailableError(
            f"a memory policy cannot be set before members that {launcher} starts",
            f"exclude: [{{launcher: {launcher}, membind: {membind}}}]",
        )


AXES: dict[str, Axis[str]] = {
    "build": Axis(
        "the Python environment that runs the script",
        {"default": "workload.python"},
        BUILD,
        prepare=lambda value, where: Effects(python=interpreter(value, where.builds or Path())),
        effective=lambda _, got: f"{got.python}, torch {got.torch}",
        holds=_holds_build,
    ),
    "launcher": Axis(
        "how members are started",
        {name: launcher.meaning for name, launcher in LAUNCHERS.items()},
        refuse=_refuse_launcher,
        prepare=lambda value, _where: Effects(LAUNCHERS[value].environment()),
        effective=lambda _, got: str(got.launcher),
        holds=lambda value, got, _: bool(got.launcher == value),
    ),
}
