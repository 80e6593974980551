"""A study of a command as it is typed: what is inferred, written and said."""

import sys
from pathlib import Path

import pytest
import yaml

import machines
from scaling_study.config.config import load_config
from scaling_study.config.config_file import as_written, read_config
from scaling_study.study import command


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "train.sh"):
        (tmp_path / name).touch()
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/train.py").touch()
    return tmp_path


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
    prepared(f"{sys.executable} train.py --seed {{}}")
    lines = Path("train.yaml").read_text().splitlines()
    assert len(lines) <= 30
    assert lines[0].endswith("train.py --seed '{}'")


def test_options_are_keys_of_the_config():
    line = f"{sys.executable} train.py"
    prepared(line, "--minutes", "30", "--processes", "1,2", "--one-model",
             "--set", "measure.windows=2", "--set", "why=off", "--set", "workload.step=mark",
             "--name", "mine")  # fmt: skip
    found = written("mine.yaml")
    assert (found.study, found.processes, found.objective) == ("mine", (1, 2), "one_model")
    assert (found.search.budget_minutes, found.measure.windows) == (30, 2)
    assert (found.why.effort, found.workload.step) == ("off", "mark")


def test_an_existing_file_stays_and_options_come_beside_it(folder):
    line = f"{sys.executable} train.py"
    prepared(line)
    before = (folder / "train.yaml").read_text() + "seed: 5\n"
    (folder / "train.yaml").write_text(before)
    assert prepared(line) == ["train.yaml"]
    assert prepared(line, "--minutes", "30") == ["train.yaml", "results/train/options.yaml"]
    assert (folder / "train.yaml").read_text() == before
    options = yaml.safe_load((folder / "results/train/options.yaml").read_text())
    assert options == {"search": {"budget_minutes": 30.0}}


def test_more_goes_on_from_the_budget_so_far(folder):
    line = f"{sys.executable} train.py"
    prepared(line)
    (folder / "results/train").mkdir(parents=True)
    (folder / "results/train/plan.json").write_text('{"search": {"budget_minutes": 20}}')
    prepared(line, "--more", "--minutes", "10")
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
    prepared(f"{sys.executable} train.py --lr 1")
    with pytest.raises(SystemExit, match="config of another command"):
        prepared(f"{sys.executable} train.py --lr 2")


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
