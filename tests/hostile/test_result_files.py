"""Result files as an attacker would make them: read as data, or refused with what to do."""

import contextlib
import io
import json
import os
import pickle
import shutil
import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import parquet

import rendering
import texts
from jobs import ROOT
from scaling_study import cli
from scaling_study.records import codec

pytestmark = pytest.mark.long

READERS = {
    "searched.json": "analyse", "measure/*/0.jsonl": "analyse", "tables/points.parquet": "render",
    "tables/windows.parquet": "judge", "confirm/rounds.jsonl": "judge",
    "profile/*/profile.json": "judge", "profile/*/*/operators.json": "judge",
    "why/*/0.jsonl": "judge", "data_loader/0.jsonl": "judge", "microbenchmarks.json": "judge",
    "analysis/recommendation.json": "render", "analysis/scaling.json": "render",
    "analysis/causes.json": "render", "analysis/confirmation.json": "render",
    "analysis/inflation.json": "render",
}  # fmt: skip
"""Files of a study, and the stage that reads each of them."""


class Bomb:
    """Makes a file when it is unpickled."""

    def __reduce__(self):
        return os.system, (f"touch {texts.CANARY}-pickle",)


LEVELS = 100_000
CONTENTS = {
    "a pickle": pickle.dumps(Bomb()),
    "nothing": b"",
    "HTML": texts.HTML.encode(),
    "a deep list": b"[" * LEVELS + b"]" * LEVELS,
    "NaN": b'{"machines": NaN, "steps": NaN, "points": Infinity}\n',
    "a long number": b'{"machines": ' + b"9" * 5000 + b"}\n",
    "a list": b"[1, 2, 3]\n",
    "the wrong things": b'{"machines": [7], "schema_version": 1, "points": [[]], "cohorts": 0}\n',
    "no text": b"\xff\xfe\x00\x1b[2J",
    "a gigabyte in one line": 1 << 30,
    "a folder": None,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = rendering.unpack_recorded(tmp_path_factory.mktemp("base"))
    for stage in ("analyse", "judge", "render"):
        done = run(stage, folder)
        assert (done.code, done.raised) == (0, None), (stage, done)
    return folder


@pytest.fixture
def study(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(made, tmp_path / "study")


def run(stage, folder):
    """Run a stage in this process, as its rule does."""
    words = [stage, "--study-folder", str(folder), "--plan", str(folder / "searched.json")]
    words += ["--report", str(folder / "report.html")] if stage == "render" else []
    said, before, code, raised = io.StringIO(), sys.argv, 0, None
    sys.argv = ["scaling_study", *words]
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            cli.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is what the test is about)
        raised = error
    finally:
        sys.argv = before
    return SimpleNamespace(code=code, said=said.getvalue(), raised=raised)


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


@pytest.mark.parametrize("pattern", READERS)
@pytest.mark.parametrize("content", CONTENTS)
def test_content_of_another_kind_is_refused(study, pattern, content):
    path, held = min(study.glob(pattern)), CONTENTS[content]
    path.unlink()
    if held is None:
        path.mkdir()
    elif isinstance(held, int):
        with path.open("wb") as file:
            file.truncate(held)
    else:
        path.write_bytes(held)
    done = run(READERS[pattern], study)
    check(done, study, path)
    assert done.code != 0


def parquet_attacks(data):
    """Points as they are, with one thing changed in the file."""
    pickled = pa.array([pickle.dumps(Bomb())] * len(data))
    n = data.schema.get_field_index("n")
    extension = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Bomb()),
    }
    return {
        "pickles in a number's column": data.set_column(n, "n", pickled),
        "a pickled type": data.set_column(
            n, pa.field("n", pa.int64(), metadata=extension), data.column("n")
        ),
        "broken metadata": data.replace_schema_metadata({b"pandas": b"\xff{"}),
        "texts": data.set_column(n, "n", pa.array([texts.HTML] * len(data))),
        "no column": data.remove_column(n),
        "huge numbers": data.set_column(n, "n", pa.array([2**62] * len(data))),
        "no row": data.slice(0, 0),
    }


@pytest.mark.parametrize("attack", parquet_attacks(pa.table({"n": [1]})))
def test_a_table_is_data(study, attack):
    path = study / "tables/points.parquet"
    parquet.write_table(parquet_attacks(parquet.read_table(path))[attack], path)
    check(run("render", study), study, path)


def test_what_is_read_is_never_unpickled():
    """The package names neither pickle nor what reads pickles for it."""
    for path in (ROOT / "workflow/lib").rglob("*.py"):
        text = path.read_text(encoding="utf-8").replace("ast.literal_eval(", "")
        for word in ("pickle", "torch.load", "np.load", "yaml.load(", "eval(", "shelve", "marshal"):
            assert word not in text, (path, word)


def test_a_number_of_the_launch_script_is_a_number(study):
    path = study / "analysis/recommendation.json"
    content = codec.read_file(path, object)
    axes = content["machines"][0]["recommended"]["axes"]
    axes["inter_op"] = f"1); import os; os.system('touch {texts.CANARY}'"
    path.write_text(json.dumps(content))
    done = run("render", study)
    check(done, study, path)
    assert done.code == 1
