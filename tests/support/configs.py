"""The configs that tests read, and the files that they name."""

import copy
import shutil
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
# A study of saved tables has a config of another kind.
IMPORTED = ROOT / "config/import-example.yaml"
SHIPPED = sorted(path for path in (ROOT / "config").glob("*.yaml") if path != IMPORTED)
FULL = ROOT / "tests/data/configs/full.yaml"

_LOADED = {
    path: yaml.safe_load(path.read_text(encoding="utf-8")) for path in [*SHIPPED, IMPORTED, FULL]
}


def make_files(folder: Path) -> None:
    """Make what the configs name, in the folder that becomes the working directory."""
    for path in [*SHIPPED, FULL]:
        script = folder / _LOADED[path]["workload"]["script"]
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text("import torch\n")
    (folder / "data").mkdir()
    (folder / "envs").mkdir()
    (folder / "envs/old torch.txt").write_text("torch==2.4.0\n")
    (folder / "elsewhere.txt").write_text("torch==2.4.0\n")
    (folder / "libfast.so").touch()
    (folder / "python").touch(mode=0o755)
    (folder / "plain").touch(mode=0o644)
    shutil.copytree(ROOT / "config/tables", folder / "config/tables")


def config(path: Path = FULL) -> Any:
    """Return a fresh copy of a config, as YAML gives it."""
    return copy.deepcopy(_LOADED[path])


def minimal(**sections: Any) -> Any:
    """Return the smallest config, with these sections."""
    return {"study": "s", "workload": {"script": "path/to/train.py"}, **sections}


def short(**sections: Any) -> Any:
    """Return a study of seconds, of a script that imports torch only, with these sections."""
    script = "tests/workloads/plain_loop.py"
    return {
        "study": "short",
        "workload": {"script": script, "args": ["--steps", "300"], "steps_per_model": 300},
        "processes": [1, 2],
        "launches": {"baseline": {"intra_op": 1}},
        "profile": "off",
        "why": "off",
        "confirm": "off",
        **sections,
    }
