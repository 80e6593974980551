"""The Python environment that runs the script."""

import os
from pathlib import Path

from scaling_study.common.problems import require_file, require_path, wrong
from scaling_study.launch.axes.axis import Axis, Effects, Others
from scaling_study.records import window
from scaling_study.records.readback import Readback

REQUIREMENTS_FOLDER = "envs"


def _read(value: object, files: bool) -> str | None:
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
BUILD = Others(f"{INTERPRETER}, or of a requirements file ({REQUIREMENTS_FOLDER}/*.txt)", _read)


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


def _holds(value: str, readback: Readback, _slot: window.Slot) -> bool:
    python = readback.python
    if value == "default":  # the workload's interpreter is started by its path
        return True
    if value.endswith(".txt"):
        return Path(python).parts[-3:] == (Path(value).stem, "bin", "python")
    return as_interpreter(value) == as_interpreter(python)


AXIS = Axis(
    "the Python environment that runs the script",
    {"default": "workload.python"},
    BUILD,
    prepare=lambda value, where: Effects(python=interpreter(value, where.builds or Path())),
    effective=lambda _, got: f"{got.python}, torch {got.torch}",
    holds=_holds,
)
