"""A member's environment: what may pass, and what may not."""

import json
import os
import subprocess
import sys

from scaling_study.launch.axes.axis_table import AXES
from scaling_study.runner.environment import INHERITED, LIBRARY_FOLDER, member_environment


def test_what_shells_and_snakemake_export_to_change_what_is_measured_does_not_pass():
    axes = {name for axis in AXES.values() for name in axis.variables}
    others = {"NUMEXPR_NUM_THREADS", "MKL_DYNAMIC", "PYTHONMALLOC", "SLURM_CPUS_PER_TASK", *axes}
    inherited = dict.fromkeys((*INHERITED, *others), "a")
    assert member_environment(inherited, {}, {}).keys() == {*INHERITED}
    assert not others & {*INHERITED}


def test_the_launch_wins_over_what_is_inherited_and_the_workload_over_both():
    environment = member_environment(
        {"LANG": "C", "PATH": "/bin", "HOME": "/a"},
        {"OMP_NUM_THREADS": "2", "LANG": "launch", "PATH": "launch"},
        {"PATH": "workload", "OWN": "1"},
    )
    environment.pop("PYTHONPATH")
    assert environment == {
        "LANG": "launch", "PATH": "workload", "HOME": "/a", "OMP_NUM_THREADS": "2", "OWN": "1",
    }  # fmt: skip


def test_the_harness_is_found_whatever_the_workload_says_of_the_python_path():
    for inherited, workload, wanted in [
        ({}, {}, []),
        ({"PYTHONPATH": "/a:/b"}, {}, ["/a", "/b"]),
        ({"PYTHONPATH": ""}, {}, []),
        ({"PYTHONPATH": "/a"}, {"PYTHONPATH": "/own"}, ["/own"]),
    ]:
        path = member_environment(inherited, {}, workload)["PYTHONPATH"]
        assert path.split(os.pathsep) == [str(LIBRARY_FOLDER), *wanted]


def test_an_interpreter_elsewhere_can_import_the_harness(tmp_path):
    environment = member_environment({"PATH": os.environ["PATH"]}, {}, {"PYTHONPATH": "own"})
    code = "import json, scaling_study; print(json.dumps(scaling_study.__file__))"
    # -S: without the site-packages in which this project is installed.
    output = subprocess.check_output(
        [sys.executable, "-S", "-c", code], env=environment, cwd=tmp_path
    )
    assert json.loads(output) == str(LIBRARY_FOLDER / "scaling_study" / "__init__.py")
