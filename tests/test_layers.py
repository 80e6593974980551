"""Data flows one way through the package: a module knows only what is before it."""

import ast

import pytest

from configs import ROOT

PACKAGE = ROOT / "workflow/lib/scaling_study"

STAGES = (
    *("common", "member", "launchers", "axes", "configuring", "planning", "probing"),
    *("measuring", "experimenting"),
    *(
        "profiling",
        "collecting",
        "searching",
        "analysing",
        "confirming",
        "evidence",
        "causes",
        "diagnosing",
        "importing",
        "rendering",
    ),
    "documenting",
)


def stages_known(path):
    """Stages that a module imports from, at any place of its text."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            if package == "scaling_study" and rest:
                yield rest.partition(".")[0]


def test_every_stage_is_in_the_order():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(STAGES)


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_knows_only_what_is_before_it(stage):
    before = {*STAGES[: STAGES.index(stage) + 1]}
    known = {
        path.name: known - before
        for path in (PACKAGE / stage).glob("*.py")
        if not (known := set(stages_known(path))) <= before
    }
    assert known == {}


def test_a_member_brings_nothing_but_torch_and_its_own_stage():
    for path in (PACKAGE / "member").glob("*.py"):
        assert set(stages_known(path)) <= {"member"}, path
