"""Names in the package: each stands for one thing and says so; none of them is the time of day."""

import ast
from collections import Counter

from configs import ROOT

VAGUE = {"one", "own", "found", "asked", "told", "seen", "made", "given", "what"}
MOST_VAGUE = 0.01

NODES = [
    (path.stem, node)
    for path in (ROOT / "workflow/lib/scaling_study").rglob("*.py")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
]


def assigned(node):
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name


def test_a_class_name_stands_for_one_thing():
    classes = Counter(node.name for _, node in NODES if isinstance(node, ast.ClassDef))
    assert [name for name, times in classes.items() if times > 1] == []


def test_few_names_say_nothing():
    names = [name for _, node in NODES for name in assigned(node)]
    assert sum(name in VAGUE for name in names) <= MOST_VAGUE * len(names)


def test_nothing_that_lasts_is_measured_by_the_time_of_day():
    """The time of day is only for people, and to compare with the times of files."""
    of_day = {"time.time", "time.time_ns", "datetime.now", "datetime.today", "datetime.utcnow"}
    asked = [
        (module, ast.unparse(node)) for module, node in NODES if isinstance(node, ast.Attribute)
    ]
    assert sorted(f"{module} {name}" for module, name in asked if name in of_day) == [
        *(f"{name} datetime.now" for name in ("cli", "confirm", "jobs")),
        *(f"{name} datetime.now" for name in ("microbenchmarks", "model_queue")),
        "progress time.time",
    ]
