"""Names in the package: a class name stands for one thing, and names say what they stand for."""

import ast
from collections import Counter

from configs import ROOT

VAGUE = {"one", "own", "found", "asked", "told", "seen", "made", "given", "what"}
MOST_VAGUE = 0.01

NODES = [
    node
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
    classes = Counter(node.name for node in NODES if isinstance(node, ast.ClassDef))
    assert [name for name, times in classes.items() if times > 1] == []


def test_few_names_say_nothing():
    names = [name for node in NODES for name in assigned(node)]
    assert sum(name in VAGUE for name in names) <= MOST_VAGUE * len(names)
