import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from configs import ROOT
from launch_scripts import BASH, launched, plan, recommendation, run, slot, write
from processes import ENDLESS, PATIENCE_S, TELL, captured, killed_at_the_end, wait_ended, written
from scaling_study.queues import bind
from scaling_study.report.launch_script import SWITCHES


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "träin it's.py"
    path.write_text(TELL)
    return path


def told(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.glob("member-*.log"))]


def test_variables_of_the_workload_are_set_and_those_of_the_shell_pass(tmp_path, script):
    value = 'it\'s "so"\n$HOME'
    env = {"OMP_NUM_THREADS": "1", "LEVEL": value, "PYTHONPATH": "lib", "PATH": os.environ["PATH"]}
    planned = plan(script, env={"LEVEL": value}, pass_env=["API_KEY"], step="mark")
    path = write(tmp_path, recommendation([slot(0)], env), planned)
    done = run(path, "missing", status=1)
    assert "API_KEY: the script needs it" in done.stderr
    assert not (tmp_path / "missing").exists()
    run(path, "logs", API_KEY="the caller's", LEVEL="theirs", OTHER="1", PATH="/bin")
    (member,) = told(tmp_path / "logs")
    path = member["env"].pop("PYTHONPATH")
    assert path.endswith(f"{os.pathsep}{env.pop('PYTHONPATH')}")
    assert member["env"].items() >= {**env, "API_KEY": "the caller's"}.items()
    assert "OTHER" not in member["env"]


def test_every_member_gets_its_arguments_environment_and_cpus(tmp_path, script):
    cpu = str(min(os.sched_getaffinity(0)))
    hostile = "a b'c\"d$HOME`id`\n*"
    args = ["--seed", "{member}", "--path=x{member}y", hostile, "", "{{member}}", '{"a": 1}']
    env = {"OMP_NUM_THREADS": "3", "SPICY": hostile, "LANG": None}
    path = launched(tmp_path, script, [slot(0, cpu), slot(1)], args, env=env)
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    stray = {"STRAY": "1", "OPENBLAS_CORETYPE": "Haswell", "GOMP_SPINCOUNT": "9"}
    run(path, "logs", cwd=elsewhere, OMP_NUM_THREADS="7", LANG="C", **stray)
    members = told(elsewhere / "logs")
    assert [member["argv"] for member in members] == [
        ["--seed", str(number), f"--path=x{number}y", hostile, "", "{member}", '{"a": 1}']
        for number in (0, 1)
    ]
    for member in members:
        assert member["env"]["OMP_NUM_THREADS"] == "3"
        assert member["env"]["SPICY"] == hostile
        assert member["env"]["HOME"] == os.environ["HOME"]
        assert not {*stray, "LANG"} & set(member["env"])
        assert member["cwd"] == str(tmp_path)
    assert members[0]["cpus"] == [int(cpu)]
    assert members[1]["cpus"] == sorted(os.sched_getaffinity(0))


def test_a_relative_script_starts_from_its_folder_and_logs_go_to_a_new_one(tmp_path, script):
    path = launched(tmp_path, Path(script.name))
    elsewhere = tmp_path / "else"
    elsewhere.mkdir()
    for _ in range(2):
        run(path, cwd=elsewhere)
    assert len([*elsewhere.glob("recommended-*/member-0.log")]) == 2


def test_an_exported_search_path_of_cd_changes_nothing(tmp_path, script):
    """cd searches CDPATH for a relative path, and then prints where it is."""
    (tmp_path / "models").write_text("1\n")
    path = launched(tmp_path, script)
    for words, log in ((["logs"], "member-0"), (["--queue", "models", "logs"], "model-00001")):
        run(path, *words, CDPATH=f".:{tmp_path}")
        assert (tmp_path / f"logs/{log}.log").exists()


@pytest.mark.parametrize(("option", "code"), [("--help", 0), ("-h", 0), ("--qeue", 1)])
def test_an_option_that_it_does_not_know_starts_nothing(tmp_path, script, option, code):
    done = run(launched(tmp_path, script), option, "models.txt", status=code)
    assert "usage: bash recommended.sh [LOGS]" in done.stdout
    assert "ends with models/hour." in done.stdout
    assert "set -euo" not in done.stdout
    assert not list(tmp_path.glob("**/*.log"))


def test_one_member_that_fails_fails_the_launch_and_is_named(tmp_path):
    text = "import sys\nsys.exit(7 if sys.argv[1] == '1' else 0)\n"
    done = run(launched(tmp_path, text, 3, ["{member}"]), "logs", status=1)
    assert done.stderr.count("failed") == 1
    assert "member 1 failed with status 7" in done.stderr


@pytest.mark.parametrize(
    ("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_no_member_outlives_a_script_that_is_stopped_or_killed(tmp_path, sent, status):
    path = launched(tmp_path, ENDLESS, slots=2)
    # Who starts the tests in the background of a script has interrupts ignored, for all below.
    command = ["/usr/bin/env", "--default-signal=INT", BASH, path, "logs"]
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    with killed_at_the_end(process):
        pids = [written(tmp_path / f"logs/member-{n}.log").split() for n in (0, 1)]
        process.send_signal(sent)
        assert process.wait(PATIENCE_S) == status
        for member, child in pids:
            wait_ended(int(member))
            if sent == signal.SIGKILL:  # such a member had no chance to stop its own
                os.kill(int(child), signal.SIGKILL)
            wait_ended(int(child))


def test_inter_op_is_set_before_the_script_starts(tmp_path):
    (tmp_path / "beside.py").write_text("here = True\n")
    text = (
        "import beside, sys, torch\n"
        "if __name__ == '__main__':\n"
        "    print(torch.get_num_interop_threads(), sys.argv[1:], sys.path[0])\n"
    )
    path = launched(tmp_path, text, args=["--x"], name="it's recommended.sh", inter_op=3)
    (tmp_path / "models").write_text("a\nb\n")
    run(path, "logs")
    run(path, "--queue", "--forked", "models", "logs")
    for log, argument in (("member-0", "--x"), ("model-00001", "a"), ("model-00002", "b")):
        said = (tmp_path / f"logs/{log}.log").read_text().strip()
        assert said == f"3 {[argument]} {tmp_path}"


ENDS = """
import atexit, pickle, sys, torch
class Result: pass
def save():
    with open("result", "wb") as file:
        pickle.dump(Result(), file)
def fails():
    raise ValueError("loss is nan")
atexit.register(save)
fails() if sys.argv[1] == "fails" else sys.exit(int(sys.argv[1]))
"""


def test_with_switches_a_script_ends_as_python_ends_it(tmp_path):
    path = launched(tmp_path, ENDS, args=["fails"], inter_op=3)
    assert path.with_suffix(SWITCHES).exists()
    run(path, "logs", status=1)
    fresh = captured([sys.executable, tmp_path / "train.py", "fails"], cwd=tmp_path)
    assert (tmp_path / "logs/member-0.log").read_text() == fresh.stderr
    result = (tmp_path / "result").read_bytes()
    (tmp_path / "models").write_text("0\n3\n")
    for option in ("--fresh", "--forked"):
        (tmp_path / "result").unlink()
        run(path, "--queue", option, "models", option[2:], status=1)
        lines = (tmp_path / option[2:] / "queue.jsonl").read_text().splitlines()
        assert [json.loads(line)["status"] for line in lines] == [0, 3]
        assert (tmp_path / "result").read_bytes() == result


def test_a_script_that_marks_its_steps_finds_this_package(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import os, scaling_study\nprint(os.environ['PYTHONPATH'])\n")
    path = write(tmp_path, recommendation([slot(0)]), plan(script, step="mark"))
    run(path, "logs", PYTHONPATH="/other")
    said = (tmp_path / "logs/member-0.log").read_text().strip()
    assert said == f"{Path(bind.__file__).parents[2]}:/other"


def test_ranks_are_started_as_torchrun_starts_them(tmp_path):
    text = (
        "import os\n"
        "names = ('RANK', 'WORLD_SIZE', 'OMP_NUM_THREADS')\n"
        "os.write(1, (' '.join(os.environ[name] for name in names) + '\\n').encode())\n"
    )
    path = launched(tmp_path, text, slots=2, ranks=2)
    run(path, tmp_path / "logs")
    for number in range(2):
        log = tmp_path / f"logs/member-{number}.log"
        assert sorted(log.read_text().splitlines()) == ["0 2 1", "1 2 1"]
    (tmp_path / "models").write_text("--seed 1\n")
    run(path, "--queue", tmp_path / "models")
    done = run(path, "--queue", "--forked", tmp_path / "models", status=2)
    assert "--forked is only for Python programs of one process" in done.stderr


def test_names_cannot_leave_their_comments(tmp_path, script):
    found = recommendation([slot(0)], label="x\ntouch hacked\r$(touch hacked)")
    path = write(tmp_path, found, plan(script, study="a\ntouch hacked"))
    assert "212 (208 to 215) steps/s, 1,530 models/hour" in path.read_text()
    run(path, "logs")
    assert not (tmp_path / "hacked").exists()


def test_a_command_runs_as_the_member_of_a_slot(tmp_path, script):
    cpu = max(os.sched_getaffinity(0))
    path = launched(tmp_path, script, [slot(0), slot(1, str(cpu))], env={"SPICY": "hot"})
    member = json.loads(run(path, "--slot", "1", sys.executable, script).stdout)
    assert (member["cpus"], member["env"]["SPICY"]) == ([cpu], "hot")
    run(path, "--slot", "2", "true", status=2)


def sweep(folder, text):
    """Write a program, and the launch of two slots for it; return that, and the slots' CPUs."""
    (folder / "sweep.py").write_text(text, encoding="utf-8")
    cpus = sorted((sorted(os.sched_getaffinity(0)) * 2)[:2])
    slots = [slot(at, str(cpu)) for at, cpu in enumerate(cpus)]
    return launched(folder, folder / "train.py", slots, env={"SPICY": "hot"}), cpus


TRAIN = """
def train(seed):
    import os, time
    time.sleep(0.02)  # or one worker does all
    with open(f"trained-{seed}", "w") as file:
        print(*sorted(os.sched_getaffinity(0)), os.environ["SPICY"], file=file)

"""


def test_each_worker_of_joblib_has_a_slots_cpus_and_environment(tmp_path):
    docs = (ROOT / "docs/own-script.md").read_text(encoding="utf-8")
    snippet = re.search(r"```python\n(import multiprocessing.*?)```", docs, re.DOTALL)[1]
    path, cpus = sweep(tmp_path, TRAIN + snippet)
    run(path, "--slot", "all", sys.executable, "sweep.py")
    told = [path.read_text() for path in tmp_path.glob("trained-*")]
    assert len(told) == 100
    assert set(told) == {f"{cpu} hot\n" for cpu in cpus}


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


def test_each_worker_of_dask_has_a_slots_cpus_and_environment(tmp_path):
    launch, cpus = sweep(tmp_path, DASK)
    command = [sys.executable, "sweep.py", BASH, launch]
    said = subprocess.check_output(command, cwd=tmp_path, text=True, timeout=PATIENCE_S)
    assert ast.literal_eval(said) == [([cpu], "hot", None) for cpu in cpus]


RAY = """
import os, subprocess, sys, ray

ray.init(address="auto")
start = ["ray", "start", "--address", "localhost:6379", "--num-cpus", "1"]
for slot in range(2):
    subprocess.run([*sys.argv[1:], "--slot", str(slot), *start], check=True)

@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def where():
    import time
    time.sleep(5)  # or one node does both
    return sorted(os.sched_getaffinity(0)), os.environ["SPICY"], os.environ["OMP_NUM_THREADS"]

print(sorted(ray.get([where.remote() for _ in range(2)])))
"""


def test_each_node_of_ray_has_a_slots_cpus_and_environment(tmp_path):
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    docs = (ROOT / "docs/own-script.md").read_text(encoding="utf-8")
    assert "ray start --head --num-cpus 0 --port 6379" in docs
    assert "--slot $slot ray start --address localhost:6379 --num-cpus 1" in docs
    launch, cpus = sweep(tmp_path, RAY)
    head = ["start", "--head", "--num-cpus", "0", "--port", "6379", "--include-dashboard", "false"]
    env = {
        **os.environ,
        "RAY_USAGE_STATS_ENABLED": "0",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    short = tempfile.mkdtemp(prefix="ray-")  # paths of sockets have at most 107 bytes
    try:
        subprocess.run([*ray, *head, "--temp-dir", short], check=True, timeout=PATIENCE_S)
        command = [sys.executable, "sweep.py", BASH, launch]
        said = subprocess.check_output(
            command, cwd=tmp_path, env=env, text=True, timeout=PATIENCE_S
        )
    finally:
        subprocess.run([*ray, "stop", "--force"], check=True, timeout=PATIENCE_S)
        shutil.rmtree(short)
    found = [line for line in said.splitlines() if line.startswith("[(")]
    # Ray's own default: as many threads as CPUs of the task.
    assert ast.literal_eval(found[-1]) == [([cpu], "hot", "1") for cpu in cpus]


def test_nothing_to_recommend_is_said_and_fails(tmp_path, script):
    found = {"status": "none", "reason": "no window; $(touch hacked)\n'", "recommended": None}
    done = run(write(tmp_path, found, plan(script)), status=1)
    assert "nothing to recommend: " in done.stderr
    assert not (tmp_path / "hacked").exists()
