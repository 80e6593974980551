"""A member's environment: what may pass, and what may not."""

import json
import os
import subprocess
import sys

from scaling_study.launch.axes.axis_table import AXES
from scaling_study.runner.environment import INHERITED, LIBRARY_FOLDER, member_environment

# What Snakemake exports to every job, equal to its `threads:`.
SNAKEMAKE = (
    "OMP_NUM_THREADS", "GOTO_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
)  # fmt: skip
# What shells, sites and other tools export, each of which would change what is measured.
OTHERS = (
    "LD_PRELOAD", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "OMP_PROC_BIND", "KMP_AFFINITY",
    "OMP_WAIT_POLICY", "MKL_DYNAMIC", "ATEN_CPU_CAPABILITY", "PYTHONOPTIMIZE", "PYTHONMALLOC",
    "SCALING_STUDY_FOLDER", "SLURM_CPUS_PER_TASK",
)  # fmt: skip


def test_only_what_is_on_the_list_passes():
    inherited = dict.fromkeys((*INHERITED, *SNAKEMAKE, *OTHERS), "a")
    assert member_environment(inherited, {}, {}).keys() == {*INHERITED}


def test_nothing_on_the_list_belongs_to_an_axis():
    owned = {name for axis in AXES.values() for name in axis.variables}
    assert not owned & set(INHERITED)
    assert not {*SNAKEMAKE, *OTHERS} & set(INHERITED)


def test_the_thread_counts_above_are_those_that_snakemake_exports():
    """Read from the installed one: a newer one may export more."""
    code = (
        "import json, os; from snakemake.shell import shell;"
        "print(shell('env -0', read=True, threads=7).replace('\\0', '\\n'))"
    )
    command = [sys.executable, "-c", code]
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    text = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout
    exported = {line.partition("=")[0] for line in text.splitlines() if line.endswith("=7")}
    assert exported == set(SNAKEMAKE)


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
