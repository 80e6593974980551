"""A script or a module runs in a study as it does when its user starts it."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest

from configs import minimal
from jobs import config as job_config
from jobs import run
from scaling_study.common.problems import ConfigError
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config.config import load_config
from scaling_study.runner import jobs, resolve
from scaling_study.runner.environment import LIBRARY_FOLDER, activated

TELL = """
import json, os, pickle, sys
class Row: pass
print(json.dumps({
    "argv": sys.argv, "path": sys.path[0], "name": __name__, "package": __package__,
    "spec": __spec__ and __spec__.name, "file": __file__, "folder": os.getcwd(),
    "main": sys.modules["__main__"].__dict__ is globals(), "loader": type(__loader__).__name__,
    "pickled": pickle.loads(pickle.dumps(Row())).__class__ is Row,
    "builtins": type(__builtins__).__name__, "names": sorted(globals()),
}))
"""
AS_A_MEMBER = """
import sys
from scaling_study.queues import program
del sys.path[0]
program.add_path(sys.argv[1:])
program.run(sys.argv[1:])
"""
TRAIN = """
import torch
from .model import make
model = make()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.load("data/x.pt")
open(f"ran-{__spec__.name}", "w").close()
for _ in range(100_000):
    model(data).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def package(tmp_path):
    """A package with a script, a module and relative imports, outside of the project."""
    folder = tmp_path / "own project"
    (folder / "mypkg").mkdir(parents=True)
    (folder / "data").mkdir()
    (folder / "mypkg/__init__.py").touch()
    (folder / "mypkg/__main__.py").write_text(TELL)
    (folder / "mypkg/tell.py").write_text(TELL)
    (folder / "mypkg/model.py").write_text(
        "import torch\ndef make(): return torch.nn.Linear(8, 1)\n"
    )
    (folder / "mypkg/train.py").write_text(TRAIN)
    return folder


@pytest.fixture(scope="module")
def venv(tmp_path_factory):
    """An environment of a user's own: torch is there, and this project is not."""
    folder = tmp_path_factory.mktemp("user") / "my env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    own = next(folder.glob("lib/python*/site-packages"))
    (own / "above.pth").write_text(sysconfig.get_paths()["purelib"])
    (own / "my_extra.py").touch()
    return folder


@pytest.mark.parametrize(
    "program",
    [
        ["mypkg/tell.py", "--x"],
        ["./mypkg/../mypkg/tell.py"],
        ["-m", "mypkg.tell", "--x", "1"],
        ["-m", "mypkg"],
    ],
)
def test_a_program_finds_what_it_finds_as_its_user_starts_it(package, program):
    env = {**os.environ, "PYTHONPATH": str(LIBRARY_FOLDER)}
    told = [
        json.loads(subprocess.check_output([sys.executable, *words], cwd=package, env=env))
        for words in (program, ["-c", AS_A_MEMBER, *program])
    ]
    for one in told:  # of a script that is run by its path, CPython sets it where it finds one
        one["names"] = [name for name in one["names"] if name != "__annotations__"]
    assert told[0] == told[1]


@pytest.mark.parametrize("build", [False, True], ids=["the study's", "a launch's"])
def test_a_module_is_measured_in_its_folder_and_in_its_own_interpreter(
    package, venv, tmp_path, build
):
    import torch

    torch.save(torch.ones(4, 8), package / "data/x.pt")
    launch = {"build": str(venv / "bin/python")} if build else {}
    mapping = job_config("", launch=launch, processes=[1], windows=1)
    own = {} if build else {"python": str(venv)}
    mapping["workload"] = {"module": "mypkg.train", "cwd": str(package), "inputs": ["data"], **own}
    records = run(mapping, tmp_path)
    (end,) = records["end"]
    assert end["status"] == "complete", end
    assert (package / "ran-mypkg.train").exists()
    for readback in records["readback"]:
        assert {one["python"] for one in readback["members"]} == {str(venv / "bin/python")}
        assert [one["ok"] for one in readback["checks"] if one["axis"] == "build"] == [True]


@pytest.mark.parametrize(
    ("keys", "place", "words"),
    [
        ({"module": "my-pkg"}, "workload.module", "the name of a module"),
        ({"script": "trian.py", "cwd": "mypkg"}, "workload.script", "in mypkg"),
        ({"script": "mypkg/train.py", "cwd": "mypkg/train.py"}, "workload.cwd", "no folder"),
        ({"script": "mypkg/train.py", "python": "mypkg"}, "workload.python", "no bin/python"),
        ({"script": "mypkg/train.py", "python": "mypkg/train.py"}, "workload.python", "execu"),
    ],
)
def test_a_mistake_is_named_with_its_place(package, monkeypatch, keys, place, words):
    monkeypatch.chdir(package)
    with pytest.raises(ConfigError) as raised:
        load_config(minimal(workload=keys))
    text = str(raised.value)
    assert text.startswith(place), text
    assert words in text


def test_a_workloads_inputs_script_and_other_modules_count(package, monkeypatch):
    """Paths of a workload start in its folder."""
    monkeypatch.chdir(package.parent)
    own = {"cwd": package.name, "inputs": ["data"]}
    programs = ({"script": "mypkg/train.py"}, {"module": "mypkg.train"})
    both = [load_config(minimal(workload=own | program)).workload for program in programs]
    digests = [list(map(jobs.workload_digest, both))]
    for path in ("data/more", "mypkg/train.py", "mypkg/model.py"):
        (package / path).write_text("")
        digests.append(list(map(jobs.workload_digest, both)))
    of_script, of_module = zip(*digests, strict=True)
    assert len(set(of_script)) >= 3
    assert len(set(of_module)) == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sys.exit('no licence')", ("does not run", "no licence")),
        ("import os; os.abort()", ("does not run", "was killed by SIGABRT")),
        ("print('2.7.18'); print([2, 7]); print('1.0')", ("Python 2.7.18", "3.9 or newer")),
        ("print('3.12.1'); print([3, 12]); print('')", ("no torch", "-m pip install torch")),
        (
            "print('3.12.1'); print([3, 12]); print('2.9'); sys.exit('ImportError: broken')",
            ("cannot import what measures", "broken"),
        ),
    ],
)
def test_an_interpreter_that_cannot_run_members_says_why(tmp_path, text, words):
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!{sys.executable}\nimport sys\n{text}\n")
    interpreter.chmod(0o755)
    with pytest.raises(UnavailableError) as raised:
        resolve.versions(str(interpreter))
    said = f"{raised.value.reason} {raised.value.remedy}"
    assert all(word in said for word in words), said


def test_a_module_that_is_not_there_is_named(package):
    for module, words in (("mypkg.trane", "mypkg.trane"), ("nopkg.train", "nopkg")):
        with pytest.raises(UnavailableError) as raised:
            resolve.require_module(sys.executable, module, str(package))
        assert words in raised.value.reason
    resolve.require_module(sys.executable, "mypkg.train", str(package))


def test_an_environment_is_activated_and_its_interpreter_is_no_link_that_was_followed(venv):
    python = resolve.work.interpreter(SimpleNamespace(python=str(venv)))
    assert Path(python) == venv / "bin/python"
    own = activated(python, {"PATH": "/usr/bin"})
    assert own == {"VIRTUAL_ENV": str(venv), "PATH": f"{venv}/bin:/usr/bin"}
    assert activated(sys.executable, {"PATH": "/usr/bin"}) == {}
