"""Configs that are wrong as text, read by the project and through the real command."""

import pytest

from mutations import plan
from projects import Project
from scaling_study.common.problems import ConfigError
from scaling_study.config.config_file import read_config

STUDY = b"study: s\nworkload: {script: train.py}\n"
LEVELS = 3000
# By what is wrong: the text, and a word of the message.
TEXTS = {
    "no end of a list": (b"study: [s\nseed: 1\n", "in line 2"),
    "a tab": (STUDY + b"measure:\n\tsteps: 3\n", "in line 4, column 1"),
    "a key twice": (STUDY + b"seed: 1\nseed: 2\n", "seed: the key stands in line 3"),
    "a Python object": (
        b"study: !!python/object/apply:os.system ['touch CANARY']\n" + STUDY[9:],
        "could not determine a constructor",
    ),
    "a list in itself": (b"study: &a [*a]\nworkload: {script: train.py}\n", "study = [["),
    "a file in itself": (b"&a\nstudy: s\nworkload: *a\n", "workload.script: missing"),
    "an unknown alias": (STUDY + b"seed: *none\n", "undefined alias"),
    "deep lists": (b"study: " + b"[" * LEVELS + b"]" * LEVELS, "nested too deeply"),
    "a long number": (STUDY + b"seed: " + b"9" * 5000, "limit"),
    "no text": (b"study: caf\xe9\n", "invalid continuation byte"),
    "a NUL": (b"study: a\0b\n", "special characters are not allowed"),
    "an escaped escape": (
        b'study: "\\x1b[2J"\nworkload: {script: train.py}\n',
        "study = '\\x1b[2J'",
    ),
    "nothing": (b"", "is empty"),
    "a key that is a list": (b"? [study]\n: s\n", "unhashable key"),
    "a template of Snakemake's": (b"__use_yte__: true\n" + STUDY, "run the Python expressions"),
    "ten megabytes": (b"# " + b"x" * 10_000_000 + b"\n" + STUDY, "at most 1,048,576 bytes"),
    "an import of nothing": (b"study: s\nimport: {tables: {4: none.txt}}\n", "does not exist"),
    "an import of a pickle": (b"study: s\nimport: {tables: {4: pickle}}\n", "UTF-8"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "pickle").write_bytes(b"\x80\x04\x95")
    return tmp_path


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_refused_with_its_place(folder, name):
    text, what = TEXTS[name]
    (folder / "config.yaml").write_bytes(text)
    with pytest.raises(ConfigError) as caught:
        plan(read_config(folder / "config.yaml"))
    message = str(caught.value)
    assert what in message
    assert all(line.isprintable() and len(line) < 500 for line in message.split("\n"))
    assert "allowed: " in message
    assert sorted(path.name for path in folder.iterdir()) == ["config.yaml", "pickle", "train.py"]


@pytest.mark.long
def test_a_folder_that_snakemake_cannot_have_is_told(tmp_path):
    project = Project(tmp_path / "a {wildcard}")
    project.configure((project.folder / "config/quick.yaml").read_text())
    assert "has a brace or < in its path" in project.fails()
    assert not (project.folder / "results").exists()
