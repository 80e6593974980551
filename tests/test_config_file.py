"""Mistakes that only a config's text shows."""

from pathlib import Path

import pytest

from configs import FULL, SHIPPED, config
from scaling_study.common.problems import ConfigError
from scaling_study.config.config_file import read_config


@pytest.mark.parametrize("path", [*SHIPPED, FULL], ids=lambda path: path.stem)
def test_reads_what_yaml_says(path):
    assert read_config(path) == config(path)


MISTAKES = [
    (b"study: [1, 2\nseed: 1\n", "in line 2, column 5"),
    (b"study: a\n\tseed: 1\n", "in line 2, column 1"),
    (b"study: !!python/object:os.system x\n", "in line 1, column 8"),
    (b"study: \xff\xfe\xfa\n", "invalid"),
    (b"study: a\0b\n", "not allowed"),
    (b"day: 2024-13-45\n", "month must be in 1..12"),
    (b"a: " + b"[" * 3000, "nested too deeply"),
    (b"{[1]: 2}\n", "unhashable key in line 1, column 2"),
]


@pytest.mark.parametrize(("content", "what"), MISTAKES)
def test_no_yaml_is_one_message_with_its_place(tmp_path, content, what):
    path = tmp_path / "a b.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert what in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "value", ["*sk-planted", "!sk-planted", "!sk-planted!x x", "!!sk-planted x"]
)
def test_a_value_that_yaml_takes_for_something_else_is_not_shown(tmp_path, value):
    path = tmp_path / "a.yaml"
    path.write_text(f"workload:\n  env:\n    KEY: {value}\n")
    with pytest.raises(ConfigError, match=r"in line 3, column 10") as caught:
        read_config(path)
    assert "planted" not in str(caught.value)


def test_unreadable_files(tmp_path):
    for path, what in [(tmp_path / "none.yaml", "No such file"), (tmp_path, "Is a directory")]:
        with pytest.raises(ConfigError, match=what):
            read_config(path)


def test_an_empty_file_is_nothing(tmp_path):
    path = Path(tmp_path / "empty.yaml")
    path.write_text("# nothing\n")
    assert read_config(path) is None


def test_keys_given_twice(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text(
        "study: a\nlaunches:\n  grid: {isa: [avx2], isa: [avx512]}\n"
        "  include:\n    - {isa: avx2}\n    - {isa: avx2, isa: avx512}\nstudy: b\n"
    )
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    assert [problem.path for problem in caught.value.problems] == [
        "launches.grid.isa",
        "launches.include[1].isa",
        "study",
    ]
    assert "in line 1 and again in line 7" in str(caught.value)


def test_aliases_of_an_ordinary_config(tmp_path):
    path = tmp_path / "aliases.yaml"
    path.write_text("a: &a {x: 1}\nb: [*a, {<<: *a, y: 2}]\nc: &c [*c]\n")
    assert read_config(path)["b"] == [{"x": 1}, {"x": 1, "y": 2}]


def test_code_in_a_config_is_refused(tmp_path):
    path = tmp_path / "template.yaml"
    path.write_text("__use_yte__: true\nstudy: ?str(1)\n")
    with pytest.raises(ConfigError, match="__use_yte__ = True: makes Snakemake run the Python"):
        read_config(path)
