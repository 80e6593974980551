"""A whole small study in which every text that a user chooses is hostile."""

import json
import re
import shutil
import sys
from pathlib import Path

import yaml

import texts
from configs import short
from jobs import QUICK
from projects import SNAKEMAKE, Project

STUDY = "hostile"
RESULTS = f"results/{STUDY}"
REPORT = f"reports/{STUDY}.html"
# What a study may write in its project, and with it what Snakemake keeps there.
FOLDERS = ("results", "reports", ".snakemake")
COMMAND = (*SNAKEMAKE, "--configfile", "study.yaml")


def config():
    """Return the study's config."""
    workload = {
        "script": f"{texts.NAME}/train {texts.NAME}.py",
        "args": ["{member}", *map(literal, texts.ALL.values())],
        "env": {f"TEXT_{index}": text for index, text in enumerate(texts.ALL.values())},
        "steps_per_model": 300,
    }
    # The default launch fails. One in an interpreter and one with a library whose names are
    # hostile: the first one cannot be proven, the other cannot be preloaded.
    hostile = {"build": [f"{texts.NAME}/python"], "allocator": [f"{texts.NAME}/lib.so"]}
    baseline = {"intra_op": 1, "wait_policy": "passive"}
    return short(
        study=STUDY,
        description="\n".join(texts.ALL.values()),
        workload=workload,
        launches={"baseline": baseline, "one_change": hostile},
        measure={**QUICK, "windows": 1, "steps": 10, "window_s": [0.2, 2.0]},
        profile={"effort": "quick", "launches": ["baseline"]},
    )


def literal(text):
    """Write a text as an argument that passes exactly it (see ``placeholders``)."""
    return re.sub(r"\{(\w+)\}", r"{{\1}}", text)


def make(folder):
    """Copy the project into a folder, with the study's config and script; return the folder."""
    Project(folder).take_every_window()
    named = folder / texts.NAME
    named.mkdir()
    shutil.copy(Path(__file__).with_name("hostile_workload.py"), named / f"train {texts.NAME}.py")
    known = {
        "args": list(texts.ALL.values()),
        "env": config()["workload"]["env"],
        "label": texts.HTML + texts.SHELL + texts.ESCAPES,
        "function": f"<b>{texts.NAME}",
        "file": f"/tmp/{texts.NAME}{texts.HTML}.py",  # noqa: S108 (a name; there is no such file)
    }
    (named / "texts.json").write_text(json.dumps(known))
    python = named / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (named / "lib.so").touch()
    (folder / "study.yaml").write_text(yaml.safe_dump(config()), encoding="utf-8")
    return folder


def environment(folder, home):
    """Return the environment to run it in: the copy's own package, and nothing else of ours."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",  # modules of others may not be compiled yet
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(folder / "workflow/lib"),
    }
