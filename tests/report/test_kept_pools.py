"""What docs/own-script.md shows to those who keep Dask or joblib, run as it stands there."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from processes import PATIENCE_S
from test_launch_script import BASH, plan, recommendation, slot, write

DOCS = (Path(__file__).parents[2] / "docs/own-script.md").read_text(encoding="utf-8")
SNIPPET = re.search(r"```python\n(import multiprocessing.*?)```", DOCS, re.DOTALL)[1]

TRAIN = """
def train(seed):
    import os, time
    time.sleep(0.02)  # or one worker does all
    with open(f"trained-{seed}", "w") as file:
        print(*sorted(os.sched_getaffinity(0)), os.environ["SPICY"], file=file)

"""

DASK = """
import os, subprocess, sys
from distributed import Client, LocalCluster

def where():
    return sorted(os.sched_getaffinity(0)), os.environ["SPICY"], os.environ.get("OMP_NUM_THREADS")

with LocalCluster(n_workers=0, dashboard_address=None) as cluster, Client(cluster) as client:
    workers = [
        subprocess.Popen([
            *sys.argv[1:], "--slot", str(slot), sys.executable, "-m", "distributed.cli.dask_worker",
            cluster.scheduler_address, "--nthreads", "1", "--no-nanny", "--no-dashboard",
        ])
        for slot in range(2)
    ]
    client.wait_for_workers(2)
    print(sorted(client.run(where).values()))
    for one in workers:
        one.terminate()
        one.wait()
"""


@pytest.fixture
def launch(tmp_path):
    cpus = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:2]]
    slots = [slot(at, cpus[at % len(cpus)]) for at in range(2)]
    return write(tmp_path, recommendation(slots, {"SPICY": "hot"}), plan(tmp_path / "train.py"))


def run(tmp_path, *words):
    return subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    ).stdout


def test_each_worker_of_joblib_has_a_slots_cpus_and_environment(tmp_path, launch):
    (tmp_path / "sweep.py").write_text(TRAIN + SNIPPET, encoding="utf-8")
    run(tmp_path, BASH, launch, "--slot", "all", sys.executable, "sweep.py")
    told = {path.read_text() for path in tmp_path.glob("trained-*")}
    assert len(list(tmp_path.glob("trained-*"))) == 100
    assert told == {f"{cpu} hot\n" for cpu in sorted(os.sched_getaffinity(0))[:2]}


def test_each_worker_of_dask_has_a_slots_cpus_and_environment(tmp_path, launch):
    (tmp_path / "sweep.py").write_text(DASK, encoding="utf-8")
    said = run(tmp_path, sys.executable, "sweep.py", BASH, str(launch))
    cpus = (sorted(os.sched_getaffinity(0)) * 2)[:2]
    assert ast.literal_eval(said) == [([cpu], "hot", None) for cpu in sorted(cpus)]
