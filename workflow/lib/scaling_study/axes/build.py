"""The Python environment that runs the script."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.axes.axis import Axis, Effects, Others
from scaling_study.common.named_files import require_file
from scaling_study.common.problems import wrong

if TYPE_CHECKING:
    from scaling_study.axes.axis import Attestation, Where

REQUIREMENTS_FOLDER = "envs"


def _read(value: object, files: bool) -> str | None:
    if not isinstance(value, str) or ("/" not in value and not value.endswith(".txt")):
        return None
    if files:
        require_file(value, BUILD.allowed)
        if value.endswith(".txt"):
            if Path(value).parent.resolve() != Path(REQUIREMENTS_FOLDER).resolve():
                raise wrong(value, f"is not in {REQUIREMENTS_FOLDER}/", BUILD.allowed)
        elif not os.access(value, os.X_OK):
            raise wrong(value, "is not executable", BUILD.allowed)
    return value


BUILD = Others(
    f"the path of a Python interpreter or of a requirements file ({REQUIREMENTS_FOLDER}/*.txt)",
    _read,
)


def interpreter(build: str, folder: Path) -> str:
    """Return the interpreter of a build: this one, a path, or one made from requirements."""
    if build == "default":
        return sys.executable
    if build.endswith(".txt"):
        return str((folder / Path(build).stem / "bin" / "python").absolute())
    return build


def _prepare(value: str, where: Where) -> Effects:
    return Effects(python=interpreter(value, where.builds or Path()))


def _holds(value: str, attestation: Attestation) -> bool:
    """Compare interpreters without following links: a virtual environment's is one to its base."""
    python = attestation["python"]
    if str(value).endswith(".txt"):
        return Path(python).parts[-3:] == (Path(value).stem, "bin", "python")
    asked = sys.executable if value == "default" else value
    return bool(os.path.abspath(asked) == os.path.abspath(python))  # noqa: PTH100 (resolve follows links)


AXIS = Axis(
    "the Python environment that runs the script",
    {"default": "the environment of the study itself"},
    BUILD,
    order=10,
    prepare=_prepare,
    effective=lambda got: f"{got['python']}, torch {got['torch']}",
    holds=_holds,
)
