"""Whatever is done to a config, it is planned or refused with reasons; nothing else happens."""

import copy
import datetime as dt
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs import FULL, IMPORTED, SHIPPED, config
from mutations import plan
from scaling_study.common.problems import ConfigError
from scaling_study.config.config_file import read_config
from scaling_study.config.import_config import ImportConfig
from scaling_study.config.plan import Plan

CONFIGS = [*SHIPPED, IMPORTED, FULL]
# Seeded: the same examples in every run.
SEEDED = settings(max_examples=250, derandomize=True, database=None)

RECURSIVE: list[object] = []
RECURSIVE.append(RECURSIVE)

JUNK = [
    *(None, True, False, 0, 1, -1, 2, 3, 2**70, 10**5000, 0.5, 1.0, -0.0),
    *(float("nan"), float("inf"), "", "x", "no", "none", "default", "auto", "1", "1e-3", "é x"),
    *("a\nb", "\0", "\ud800", "{membr}", "{member}", "../x", "/", ".", "~", "x" * 10_000),
    *([], {}, [[]], [{}], {"": {}}, {None: None}, {1: 2}, {"a": {"b": {"c": []}}}, [1, 1]),
    *([None], ["0-1"], [["0-1"]], (1, 2), b"\xff", {1, 2}, dt.date(2024, 1, 1), RECURSIVE),
]
KEYS = ["", "study", "intra_op", "isa", "grid", "a b", "é", "x\ny", "\ud800", None, True, 3, 1.5]

pytestmark = pytest.mark.usefixtures("config_folder")


def places(node, found, above=()):
    """Collect (container, key) of everything below a node, which may hold itself."""
    above = (*above, id(node))
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, item in list(items):
        found.append((node, key))
        if isinstance(item, dict | list) and id(item) not in above:
            places(item, found, above)
    return found


def mutate(draw, mapping):
    found = places(mapping, [])
    if not found:
        return
    container, key = draw(st.sampled_from(range(len(found))).map(found.__getitem__))
    value = container[key]
    change = draw(st.sampled_from(["drop", "rename", "retype", "nest", "double", "swap"]))
    if change == "drop":
        del container[key]
    elif change == "retype":
        junk = draw(st.sampled_from(JUNK))
        # Further changes may be made inside of it, which the next example must not meet.
        container[key] = junk if junk is RECURSIVE else copy.deepcopy(junk)
    elif change == "nest":
        container[key] = draw(
            st.sampled_from([[value], {"x": value}, {key: value}, [value, value]])
        )
    elif change == "swap":
        other, name = draw(st.sampled_from(range(len(found))).map(found.__getitem__))
        container[key] = copy.deepcopy(other.get(name) if isinstance(other, dict) else value)
    elif isinstance(container, list):
        container.insert(draw(st.integers(0, len(container))), copy.deepcopy(value))
    else:
        name = draw(st.one_of(st.sampled_from(KEYS), st.just(f"{key}s"), st.just(str(key)[1:])))
        container[name] = value if change == "double" else container.pop(key)


def check(read):
    """Check what comes of a config; say whether it is a plan."""
    before = sorted(Path().rglob("*"))
    try:
        made = plan(read())
    except ConfigError as error:
        made = error
    assert sorted(Path().rglob("*")) == before
    if isinstance(made, ConfigError):
        assert made.problems
        for problem, line in zip(made.problems, str(made).split("\n"), strict=True):
            assert line.startswith(problem.place or problem.path)
            assert problem.what
            assert problem.allowed
            assert len(line) < 1000
        assert str(made).encode()
        return False
    if isinstance(made, ImportConfig):
        assert ImportConfig.model_validate(json.loads(json.dumps(made.to_dict()))) == made
        return True
    ids = [launch.id for launch in made.launches]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", name) for name in ids)
    assert {made.default, made.baseline, made.repeat} <= set(ids)
    assert Plan.from_dict(json.loads(json.dumps(made.to_dict(), allow_nan=False))) == made
    return True


@SEEDED
@given(path=st.sampled_from(CONFIGS), data=st.data())
def test_changed_values(path, data):
    mapping = config(path)
    for _ in range(data.draw(st.integers(1, 4))):
        mutate(data.draw, mapping)
    check(lambda: mapping)


@SEEDED
@given(path=st.sampled_from(CONFIGS), data=st.data())
def test_changed_text(path, data):
    text = path.read_text(encoding="utf-8")
    signs = [*"-:?[]{},#&*!|>'\"%@`\t\0é~ \n", "\n- ", "<<: ", "!!set ", ""]
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 40)))
        text = text[:start] + data.draw(st.sampled_from(signs)) + text[end:]
    changed = Path("changed.yaml")
    changed.write_text(text, encoding="utf-8")
    check(lambda: read_config(changed))


def test_the_unchanged_configs_are_planned():
    for path in CONFIGS:
        assert check(lambda path=path: config(path))
