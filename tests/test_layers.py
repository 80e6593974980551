"""Data flows one way through the package: a module knows only what is before it."""

import ast

import pytest

from configs import ROOT

PACKAGE = ROOT / "workflow/lib/scaling_study"

STAGES = (
    *("common", "stats", "records", "member", "launch", "config", "host", "runner", "experiments"),
    *("profiling", "analysis", "search", "confirm", "diagnosis", "report"),
)


def modules_known(path):
    """Modules of the package that a module imports, at any place of its text."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module or ''}.{alias.name}" for alias in node.names]
            if (PACKAGE.parent / f"{(node.module or '').replace('.', '/')}.py").exists():
                names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            if package == "scaling_study" and rest:
                yield rest


def stages_known(path):
    """Stages that a module imports from."""
    return (name.partition(".")[0] for name in modules_known(path))


def test_every_stage_is_in_the_order():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(STAGES)


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_knows_only_what_is_before_it(stage):
    before = {*STAGES[: STAGES.index(stage) + 1]}
    known = {
        path.name: known - before
        for path in (PACKAGE / stage).rglob("*.py")
        if not (known := set(stages_known(path))) <= before
    }
    assert known == {}


def test_the_package_does_without_the_repository_s_other_folders():
    others = {
        path.stem for name in ("benchmarks", "tests", "scripts") for path in (ROOT / name).iterdir()
    }
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            name.partition(".")[0]
            for node in ast.walk(tree)
            for name in (
                [node.module or ""] if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            )
        }  # fmt: skip
        assert not imported & others, path
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        assert not any(str(text).startswith("benchmarks/") for text in texts), path


def test_a_member_brings_nothing_but_torch_its_own_stage_and_counters():
    for path in (PACKAGE / "member").glob("*.py"):
        own = {name for name in modules_known(path) if not name.startswith("member")}
        assert own <= {"common.counter"}, path
