"""Data flows one way through the package: a module knows only what is before it."""

import ast
from graphlib import TopologicalSorter

import pytest

from configs import ROOT

PACKAGE = ROOT / "workflow/lib/scaling_study"

STAGES = (
    *("common", "stats", "records", "queues", "member", "launch", "config", "host", "runner"),
    *("experiments", "profiling", "analysis", "search", "confirm", "diagnosis", "report"),
    "study",
)


def imported(path):
    """Modules that a module imports, at any place of its text."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            file = PACKAGE.parent / f"{module.replace('.', '/')}.py"
            yield from [module] if file.exists() else [f"{module}.{one.name}" for one in node.names]


def roots(path):
    """First parts of the names of the modules that a module imports."""
    return {name.partition(".")[0] for name in imported(path)}


def known(path):
    """Modules of the package that a module imports."""
    prefix = "scaling_study."
    return {name.removeprefix(prefix) for name in imported(path) if name.startswith(prefix)}


def test_every_stage_is_in_the_order():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(STAGES)


def test_the_map_shows_them_in_this_order():
    lines = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()
    shown = [line.split()[0].removesuffix("/") for line in lines if line.startswith("  ")]
    assert list(dict.fromkeys(name for name in shown if name in STAGES)) == list(STAGES)
    modules = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert modules <= {*shown}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_knows_only_what_is_before_it(stage):
    before = {*STAGES[: STAGES.index(stage) + 1]}
    for path in (PACKAGE / stage).rglob("*.py"):
        assert {name.partition(".")[0] for name in known(path)} <= before, path


def test_no_modules_import_each_other_in_a_circle():
    files = {path.relative_to(PACKAGE).with_suffix(""): path for path in PACKAGE.rglob("*.py")}
    graph = {".".join(name.parts): known(path) for name, path in files.items()}
    TopologicalSorter(graph).prepare()  # its error names them


def test_only_the_adapter_knows_snakemake():
    knowing = [path.stem for path in PACKAGE.rglob("*.py") if "snakemake" in roots(path)]
    assert knowing == ["snakemake_adapter"]


def test_the_package_does_without_the_repository_s_other_folders():
    others = {
        path.stem for name in ("benchmarks", "tests", "scripts") for path in (ROOT / name).iterdir()
    }
    for path in PACKAGE.rglob("*.py"):
        assert not roots(path) & others, path
        assert '"benchmarks/' not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize("stage", ["queues", "member"])
def test_a_user_s_process_brings_nothing_but_torch_these_stages_and_counters(stage):
    for path in (PACKAGE / stage).glob("*.py"):
        others = {name for name in known(path) if not name.startswith(("queues", "member"))}
        assert others <= {"common.counter"}, path


def test_no_test_imports_from_another_test_module():
    for path in (ROOT / "tests").rglob("*.py"):
        assert not {name for name in roots(path) if name.startswith("test_")}, path
