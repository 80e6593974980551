"""The command that starts a study, and how it finds the script that a config names."""

import sys
from importlib import metadata

import pytest

from scaling_study.common.storage import PROJECT
from scaling_study.config.config_file import shipped
from scaling_study.study import command


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--help", str(PROJECT / "Snakefile")),
        ("--version", f"torch-scaling-study {metadata.version('torch-scaling-study')}\n"),
    ],
)
def test_the_command_explains_itself(option, words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["torch-scaling-study", option])
    command.main()
    assert words in capsys.readouterr().out


def test_the_command_says_what_it_needs(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["torch-scaling-study", "missing.yaml"])
    with pytest.raises(SystemExit, match=r"^missing\.yaml: no such file"):
        command.main()


def test_a_shipped_study_needs_no_file(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(command.os, "execv", lambda _, words: started.append(words[-1]))
    monkeypatch.setattr(sys, "argv", ["torch-scaling-study", "config/quick.yaml"])
    monkeypatch.chdir(tmp_path)
    command.main()
    (tmp_path / "config").mkdir()
    (tmp_path / "config/quick.yaml").touch()
    command.main()
    assert started == [str(PROJECT / "config/quick.yaml"), "config/quick.yaml"]


def test_a_script_of_the_users_own_comes_before_a_shipped_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "scripts/workloads/ncf.py"
    config = {"study": "x", "workload": {"script": name, "args": []}}
    found = shipped(config)
    assert found["workload"] == {"args": [], "script": str(PROJECT / name)}
    assert config["workload"]["script"] == name
    (tmp_path / "scripts/workloads").mkdir(parents=True)
    (tmp_path / name).touch()
    assert shipped(config) == config


def test_shipped_tables_are_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (name, *_) = (table.relative_to(PROJECT) for table in (PROJECT / "config/tables").iterdir())
    config = {"study": "x", "import": {"tables": {4: str(name), 8: "8.txt"}, "steps": 3}}
    tables = {4: str(PROJECT / name), 8: "8.txt"}
    assert shipped(config) == {"study": "x", "import": {"tables": tables, "steps": 3}}
    assert config["import"]["tables"][4] == str(name)


@pytest.mark.parametrize("config", [None, 3, [], {}, {"workload": []}, {"workload": {"script": 1}}])
def test_other_configs_are_left_to_be_checked(config):
    assert shipped(config) == config
