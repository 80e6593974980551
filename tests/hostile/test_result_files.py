"""Result files as an attacker would make them: read as data, or refused with what to do."""

import copy
import json
import os
import pickle
import random
import shutil

import pyarrow as pa
import pytest
from pyarrow import parquet

import attacked_study
import jobs
import texts
from attacked_study import READERS
from scaling_study.common import storage

pytestmark = pytest.mark.long


class Bomb:
    """Makes a file when it is unpickled."""

    def __reduce__(self):
        return os.system, (f"touch {texts.CANARY}-pickle",)


LEVELS = 100_000
BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">'
    b'<!ENTITY c SYSTEM "file:///etc/passwd">]><x>&b;&c;</x>\n'
)
CONTENTS = {
    "a pickle": pickle.dumps(Bomb()),
    "nothing": b"",
    "HTML": texts.HTML.encode(),
    "XML entities": BOMB,
    "a deep list": b"[" * LEVELS + b"]" * LEVELS,
    "a deep object": b'{"machines":' * LEVELS + b"1" + b"}" * LEVELS,
    "NaN": b'{"machines": NaN, "steps": NaN, "points": Infinity}\n',
    "an infinite number": b'{"machines": [1e999], "kind": 1e999}\n',
    "a long number": b'{"machines": ' + b"9" * 5000 + b"}\n",
    "a list": b"[1, 2, 3]\n",
    "a number": b"7\n",
    "null": b"null\n",
    "other types": b'{"machines": {"a": 1}, "points": 7, "rows": "x", "schema_version": []}\n',
    "the wrong things": b'{"machines": [7], "schema_version": 1, "points": [[]], "cohorts": 0}\n',
    "no text": b"\xff\xfe\x00\x1b[2J",
    "a folder": None,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return attacked_study.make(tmp_path_factory.mktemp("attacked") / "study")


@pytest.fixture
def study(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(made, tmp_path / "study")


def check(done, study, path):
    """A stage has read a file as data, or refused it as a person wants it to be."""
    assert done.raised is None, (path, repr(done.raised))
    assert "Traceback" not in done.said
    assert "\x1b" not in done.said
    assert len(done.said) < 5000
    if done.code:
        named = path.name in done.said or path.relative_to(study).parts[0] in done.said
        assert named, done.said
        assert "elete" in done.said, done.said
    assert not list(study.parent.glob(f"**/{texts.CANARY}*"))
    return done


@pytest.mark.parametrize("pattern", READERS)
@pytest.mark.parametrize("content", CONTENTS)
def test_content_of_another_kind(study, pattern, content):
    path = attacked_study.file_of(study, pattern)
    path.unlink()
    if CONTENTS[content] is None:
        path.mkdir()
    else:
        path.write_bytes(CONTENTS[content])
    done = check(attacked_study.run(READERS[pattern], study), study, path)
    # The stacks of one point are left out of the report; everything else is refused.
    assert (done.code == 0) == (pattern.endswith("stacks-0.raw")), done.said


@pytest.mark.parametrize("pattern", [name for name in READERS if ".parquet" not in name])
def test_a_gigabyte_in_one_line(study, pattern):
    path = attacked_study.file_of(study, pattern)
    with path.open("wb") as file:
        file.truncate(1 << 30)
    done = check(attacked_study.run(READERS[pattern], study), study, path)
    assert (done.code == 0) == (pattern.endswith("stacks-0.raw")), done.said


def is_container(node, key):
    return isinstance(node[key], dict | list)


def places(node, found):
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, item in list(items):
        found.append((node, key))
        if is_container(node, key):
            places(item, found)
    return found


VALUES = [
    *(None, True, -1, 0, 2**63, 10**400, 1e308, -1e308, 5e-324, "", "x", texts.HTML, texts.SHELL),
    *(texts.ESCAPES, texts.NAME, texts.LONG, "../../../../tmp/x", "/etc/passwd", [], {}, [[]]),
    *({"a": 1}, [None], ["x"], [{}]),
]
MUTATIONS = 20


def mutated(content, seed):
    """Change one to three things anywhere in decoded JSON; every third time what holds much."""
    draw = random.Random(seed)  # noqa: S311 (an order, no secret)
    content = copy.deepcopy(content)
    if seed % 3 == 0:
        held = [one for one in places(content, []) if is_container(*one)]
        container, key = draw.choice(held[:6])
        container[key] = draw.choice(["x", 7, texts.HTML, True])
        return content
    for _ in range(draw.randint(1, 3)):
        found = places(content, [])
        if not found:
            return content
        container, key = draw.choice(found)
        change = draw.choice(["drop", "value", "value", "value", "double"])
        if change == "drop":
            del container[key]
        elif change == "value":
            container[key] = copy.deepcopy(draw.choice(VALUES))
        elif isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        else:
            container[f"{key}-{texts.HTML}"] = copy.deepcopy(container[key])
    return content


@pytest.mark.parametrize("pattern", [name for name in READERS if name.endswith(("json", "jsonl"))])
def test_values_of_another_kind(study, pattern):
    path = attacked_study.file_of(study, pattern)
    text = path.read_text()
    contents = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else (
        json.loads(text))  # fmt: skip
    refused = 0
    before = set(study.parent.rglob("*"))
    for seed in range(MUTATIONS):
        changed = mutated(contents, seed)
        lines = changed if path.suffix == ".jsonl" else [changed]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        done = check(attacked_study.run(READERS[pattern], study), study, path)
        refused += done.code != 0
        report = (study / "report.html").read_text()
        assert texts.HTML not in report
        assert f"<script>window.{texts.OWNED}" not in report
    outside = [path for path in study.parent.rglob("*") if not path.is_relative_to(study)]
    assert [path for path in outside if path not in before] == []
    # Some are data, some are refused: the test sees both.
    assert 0 < refused < MUTATIONS


POINTS = "tables/points.parquet"


def parquet_attacks(data):
    """Points as they are, with one thing changed in the file."""
    pickled = pa.array([pickle.dumps(Bomb())] * len(data))
    n = data.schema.get_field_index("n")
    launch = data.schema.get_field_index("launch")
    hostile = {b"pandas": b'{"columns": [{"name": "n", "pandas_type": "object", "metadata": 7}]}'}
    extension = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Bomb()),
    }
    return {
        "pickles in a column": data.set_column(launch, "launch", pickled),
        "pickles in a number's column": data.set_column(n, "n", pickled),
        "a pickled type": data.set_column(
            n, pa.field("n", pa.int64(), metadata=extension), data.column("n")
        ),
        "hostile metadata": data.replace_schema_metadata(hostile),
        "broken metadata": data.replace_schema_metadata({b"pandas": b"\xff{"}),
        "lists": data.set_column(n, "n", pa.array([[1]] * len(data))),
        "texts": data.set_column(n, "n", pa.array([texts.HTML] * len(data))),
        "missing numbers": data.set_column(n, "n", pa.array([None] * len(data), pa.int64())),
        "no column": data.remove_column(n),
        "a column twice": data.append_column("n", data.column("n")),
        "huge numbers": data.set_column(n, "n", pa.array([2**62] * len(data))),
        "no row": data.slice(0, 0),
    }


ATTACKS = list(parquet_attacks(pa.table({"n": [1], "launch": ["x"]})))
HARMLESS = {"a pickled type", "hostile metadata", "broken metadata"}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("stage", ["analyse", "render"])
def test_parquet(study, attack, stage):
    path = study / POINTS
    parquet.write_table(parquet_attacks(parquet.read_table(path))[attack], path)
    done = check(attacked_study.run(stage, study), study, path)
    if attack in HARMLESS:
        assert done.code == 0, done.said


def test_what_is_read_is_never_unpickled():
    """The package names neither pickle nor what reads pickles for it."""
    for path in (attacked_study.ROOT / "workflow/lib").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for word in ("pickle", "torch.load", "np.load", "yaml.load(", "eval(", "shelve", "marshal"):
            assert word not in text, (path, word)


def test_numbers_that_json_does_not_have(tmp_path):
    path = tmp_path / "x.json"
    for text in ("NaN", "[Infinity]", '{"a": -Infinity}', "1e999", "[-1e999]"):
        path.write_text(text)
        with pytest.raises(ValueError, match="is no finite number"):
            storage.read_json(path)


def test_names_in_files_lead_nowhere_else(study):
    """A machine's name becomes part of names of files."""
    second = "/../../../outside"
    for path in sorted((study / "analysis").glob("*.json")):
        content = storage.read_json(path)
        if "machines" in content:
            content["machines"].append(copy.deepcopy(content["machines"][0]) | {"machine": second})
        storage.write_json(path, content)
    done = attacked_study.run("render", study)
    assert (done.code, done.raised) == (0, None), done
    assert list(study.parent.iterdir()) == [study]
    assert (study / "launch/recommended-_______outside.sh").exists() or list(
        (study / "launch").glob("recommended-*outside.sh")
    )


def test_a_number_of_the_launch_script_is_a_number(study):
    path = study / "analysis/recommendation.json"
    content = storage.read_json(path)
    axes = content["machines"][0]["recommended"]["axes"]
    axes["inter_op"] = f"1); import os; os.system('touch {texts.CANARY}'"
    storage.write_json(path, content)
    done = check(attacked_study.run("render", study), study, path)
    assert done.code == 1


@pytest.mark.parametrize("script", ["why", "profile_launch"])
@pytest.mark.parametrize("content", [name for name in CONTENTS if CONTENTS[name] is not None])
def test_what_decides_on_the_recommended_launch(study, script, content):
    path = study / "analysis/recommendation.json"
    path.write_bytes(CONTENTS[content])
    job = jobs.profile_text(jobs.config(jobs.WORKLOADS / "plain_loop.py"))
    arguments = [
        *("--job", job, "--target", "recommended", "--study-folder", str(study)),
        *("--builds", str(study / "builds"), "--log", str(study / "log")),
        *("--output", str(study / "out"), *(["--replicate", "0"] if script == "why" else [])),
    ]
    done = check(attacked_study.execute(script, *arguments), study, path)
    assert done.code == 1
