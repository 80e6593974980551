"""The command that starts a study, and how it finds the script that a config names."""

import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml

import machines
from scaling_study.common.storage import PROJECT
from scaling_study.config.config import load_config
from scaling_study.config.config_file import as_written, read_config, shipped
from scaling_study.study import command

LINE = f"{sys.executable} train.py"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working directory, with scripts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg").mkdir()
    for name in ("train.py", "train.sh", "pkg/train.py"):
        (tmp_path / name).touch()
    return tmp_path


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
    command.main()
    (tmp_path / "config").mkdir()
    (tmp_path / "config/quick.yaml").touch()
    command.main()
    assert started == [str(PROJECT / "config/quick.yaml"), "config/quick.yaml"]


def test_a_script_of_the_users_own_comes_before_a_shipped_one(tmp_path):
    name = "scripts/workloads/ncf.py"
    config = {"study": "x", "workload": {"script": name, "args": []}}
    found = shipped(config)
    assert found["workload"] == {"args": [], "script": str(PROJECT / name)}
    assert config["workload"]["script"] == name
    (tmp_path / "scripts/workloads").mkdir(parents=True)
    (tmp_path / name).touch()
    assert shipped(config) == config


def test_shipped_tables_are_found_from_anywhere():
    (name, *_) = (table.relative_to(PROJECT) for table in (PROJECT / "config/tables").iterdir())
    config = {"study": "x", "import": {"tables": {4: str(name), 8: "8.txt"}, "steps": 3}}
    tables = {4: str(PROJECT / name), 8: "8.txt"}
    assert shipped(config) == {"study": "x", "import": {"tables": tables, "steps": 3}}
    assert config["import"]["tables"][4] == str(name)


@pytest.mark.parametrize("config", [None, 3, [], {}, {"workload": []}, {"workload": {"script": 1}}])
def test_other_configs_are_left_to_be_checked(config):
    assert shipped(config) == config


# ---- a command as it is typed: what is inferred, written and said


def prepared(line, *before):
    return command.prepare(line.split(), command.read_options(before))


def written(path="train.yaml"):
    """What a study reads of the file that was written, checked."""
    path = Path(path)
    return load_config(as_written(read_config(path), [path]))


@pytest.mark.parametrize(
    ("line", "name", "expected"),
    [
        ("{python} train.py --seed {}", "train", ("train.py", None, ["--seed", "{member}"])),
        ("{python} -u train.py", "train", ("train.py", None, [])),
        ("{python} -m pkg.train --lr 0.10", "pkg-train", (None, "pkg.train", ["--lr", "0.10"])),
    ],
)
def test_a_script_and_a_module_are_found_with_their_interpreter(line, name, expected):
    prepared(line.replace("{python}", sys.executable))
    found = written(f"{name}.yaml")
    assert found.study == name
    assert (found.workload.script, found.workload.module, [*found.workload.args]) == expected
    assert found.workload.python == sys.executable
    assert found.search.budget_minutes == command.MINUTES


@pytest.mark.parametrize("line", ["bash train.sh {}", f"{sys.executable} -X dev train.py {{}}"])
def test_any_other_command_is_counted_in_whole_runs(line):
    prepared(line)
    words = written().workload.command
    assert [*words] == line.replace("{}", "{member}").split()


def test_a_script_that_names_its_interpreter_is_a_script(folder):
    script = folder / "train.py"
    script.write_text(f"#!{sys.executable}\n")
    script.chmod(0o700)
    prepared("./train.py --seed {}")
    workload = written().workload
    assert (workload.python, workload.script) == (sys.executable, "./train.py")


def test_a_program_that_starts_python_is_told_to_start_the_study(capsys):
    prepared("nice -n 5 python train.py")
    assert "nice -n 5 torch-scaling-study -- python" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("graviton3", ["cores"]),
        ("core-i7-1370p", ["cores", "fast_cores"]),
        ("epyc-9654-2s-nps1", ["cores", "spread"]),
    ],
)
def test_placements_are_those_that_differ_on_the_machine(monkeypatch, machine, expected):
    topology = machines.topology(machine)
    monkeypatch.setattr(command.os, "sched_getaffinity", lambda _: topology.cpu_ids)
    assert command.placements(topology) == expected


def test_the_file_says_what_it_is_and_stays_short():
    prepared(f"{LINE} --seed {{}}")
    lines = Path("train.yaml").read_text().splitlines()
    assert len(lines) <= 30
    assert lines[0].endswith("train.py --seed '{}'")


def test_options_are_keys_of_the_config():
    prepared(LINE, "--minutes", "30", "--processes", "1,2", "--one-model",
             "--set", "measure.windows=2", "--set", "why=off", "--name", "mine")  # fmt: skip
    found = written("mine.yaml")
    assert (found.study, found.processes, found.objective) == ("mine", (1, 2), "one_model")
    assert (found.search.budget_minutes, found.measure.windows) == (30, 2)
    assert found.why.effort == "off"


def test_an_existing_file_stays_and_options_come_beside_it(folder):
    prepared(LINE)
    before = (folder / "train.yaml").read_text() + "seed: 5\n"
    (folder / "train.yaml").write_text(before)
    assert prepared(LINE) == ["train.yaml"]
    assert prepared(LINE, "--minutes", "30") == ["train.yaml", "results/train/options.yaml"]
    assert (folder / "train.yaml").read_text() == before
    options = yaml.safe_load((folder / "results/train/options.yaml").read_text())
    assert options == {"search": {"budget_minutes": 30.0}}


def test_more_goes_on_from_the_budget_so_far(folder):
    prepared(LINE)
    (folder / "results/train").mkdir(parents=True)
    (folder / "results/train/plan.json").write_text('{"search": {"budget_minutes": 20}}')
    prepared(LINE, "--more", "--minutes", "10")
    options = yaml.safe_load((folder / "results/train/options.yaml").read_text())
    assert options == {"search": {"budget_minutes": 30.0}}


@pytest.mark.parametrize(
    ("line", "before", "said"),
    [
        ("", [], "no command after --"),
        ("no-such-program train.py", [], "no-such-program: no such program on PATH"),
        ("OMP_NUM_THREADS=4 bash train.sh", [], "as in: OMP_NUM_THREADS=4 torch-scaling-study"),
        (f"{sys.executable} trian.py", [], "trian.py: no such file; did you mean 'train.py'?"),
        ("bash train.sh", ["--set", "why"], "allowed: KEY=VALUE"),
        ("bash train.sh", ["--minute", "3"], "did you mean --minutes?"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(folder, capsys, line, before, said):
    with pytest.raises(SystemExit) as error:
        prepared(line, *before)
    assert said in f"{error.value} {capsys.readouterr().err}"
    assert list(folder.glob("*.yaml")) == []


def test_the_config_of_another_command_is_not_taken(folder):
    prepared(f"{LINE} --lr 1")
    with pytest.raises(SystemExit, match="config of another command"):
        prepared(f"{LINE} --lr 2")


def test_words_of_a_command_that_are_the_same_for_all_are_mentioned(capsys):
    prepared("bash train.sh")
    assert "put {} where they should differ" in capsys.readouterr().out
    prepared("bash train.sh {}", "--name", "other")
    assert "should differ" not in capsys.readouterr().out


@pytest.mark.parametrize("line", ["{python} train.py --jobs {{n}}", "bash train.sh {{n}}"])
def test_a_program_that_starts_its_processes_gets_changes_that_reach_them(line):
    prepared(line.format(python=sys.executable))
    config = written()
    assert config.workload.starts_processes
    assert set(config.launches.one_change) == {"intra_op", "allocator", "blas"}
