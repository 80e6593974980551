"""Starting members: what the started process is, has and inherits; and how it ends."""

import contextlib
import json
import os
import socket
import ssl
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from jobs import WORKLOADS
from made_records import HARDWARE, slot
from processes import (
    PATIENCE_S,
    descriptors,
    killed_at_the_end,
    private_folder,
    wait_ended,
    written,
)
from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes import axis_table
from scaling_study.launch.axes.axis import Where
from scaling_study.launch.launchers import dask as dask_launcher
from scaling_study.launch.launchers.launcher import Exec, Host, LaunchError, LaunchSpec, MemberSpec
from small_cohort import SmallCohort

CPU = min(os.sched_getaffinity(0))
INTER_OP = "scaling_study.launch.axes.threads:inter_op=2"

# Stands for a build's interpreter: it tells how it was called instead of running a member.
INTERPRETER = f"""#!{sys.executable}
import json, os, sys, time
from pathlib import Path
worker = sys.argv[3] == "scaling_study.member.worker"
told = {{
    "pid": os.getpid(), "session": os.getsid(0),
    "env": dict(os.environ), "cpus": sorted(os.sched_getaffinity(0)),
    "stdin": sys.stdin.read() if worker else None,
    "descriptors": os.listdir("/proc/self/fd"),
}}
if worker:
    print("output", flush=True)
    print("error", file=sys.stderr, flush=True)
Path(__file__).with_name("told").write_text(json.dumps(told) + "\\n")
code = os.environ.get("CODE", "time.sleep(600)")
exec(code)
"""


@pytest.fixture
def launch(tmp_path):
    interpreter = tmp_path / "bin ü" / "python"
    interpreter.parent.mkdir()
    interpreter.write_text(INTERPRETER)
    interpreter.chmod(0o700)
    folder = private_folder(tmp_path / "cohort")
    env = {"PATH": os.environ["PATH"], "A": "b c"}
    return LaunchSpec(folder, str(interpreter), env, step="optimizer")


def told(launch, slot=0, cpus=None):
    """Start a member by exec; return what it tells, and its process id."""
    with contextlib.closing(Exec(launch)) as one:
        pid = one.start(MemberSpec(slot, cpus, "default", ("s.py",)))
        with killed_at_the_end(*one._processes.values()):
            return json.loads(written(Path(launch.python).with_name("told"))), pid


# ---- exec


def test_a_members_environment_is_the_launchs_and_nothing_else(launch, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    missing = str(launch.folder / "missing.so")
    given = {**launch.env, "LD_PRELOAD": missing}
    got, _ = told(replace(launch, env=given))
    got["env"].pop("LC_CTYPE", None)  # an interpreter's own (PEP 538)
    assert got["env"] == given
    # The preload was the member's alone, not that of the process that binds it.
    assert launch.errors(0).read_text().count("cannot be preloaded") == 1


def test_a_member_has_its_log_and_nothing_of_the_coordinators(launch):
    for path in (launch.log(5), launch.errors(5)):
        path.write_text("of an earlier start\n")
    got, pid = told(launch, slot=5, cpus=str(CPU))
    assert got["cpus"] == [CPU]
    assert got["pid"] == got["session"] == pid
    assert launch.log(5).read_text() == "of an earlier start\noutput\n"
    assert launch.errors(5).read_text() == "of an earlier start\nerror\n"
    assert got["stdin"] == ""
    assert sorted(got["descriptors"]) == ["0", "1", "2", "3"]  # 3 is the folder that it lists


# ---- hosts

ANSWERS = """
for line in sys.stdin:
    print(4000 if json.loads(line)["slot"] < 9 else "error: no such slot", flush=True)
"""


def hosting(launch, code):
    """A host that does this; it is closed at the end."""
    launch = replace(launch, env={**launch.env, "CODE": code})
    return contextlib.closing(Host(launch, "a.module", 4))


def test_a_host_that_cannot_start_a_member_says_why(launch):
    with (
        hosting(launch, ANSWERS) as one,
        pytest.raises(LaunchError, match=r"^error: no such slot$"),
    ):
        one.start(MemberSpec(9, None, "default", ()))


@pytest.mark.parametrize("code", ["sys.exit('no dask here')", "sys.stdin.readline(); 1 / 0"])
def test_a_host_that_ends_leaves_its_last_words(launch, code):
    words = r"the launcher's host ended: (.|\n)*(dask here|Zero)"
    with hosting(launch, code) as one:
        with pytest.raises(LaunchError, match=words):
            one.start(MemberSpec(0, None, "default", ()))
        with pytest.raises(LaunchError, match="the launcher's host ended"):
            one.start(MemberSpec(1, None, "default", ()))


def test_a_host_leaves_no_process_and_no_descriptor(launch):
    before = descriptors()
    with hosting(launch, ANSWERS) as one:
        assert one.start(MemberSpec(0, None, "default", ())) == 4000
    wait_ended(one._process.pid)
    assert descriptors() == before


# ---- dask, which is too slow to be started twice

DASK = {"launcher": "dask", "wait_policy": "passive"}


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    env = axis_table.prepare(DASK, Where(HARDWARE)).environment()
    with contextlib.closing(SmallCohort(tmp_path_factory.mktemp("dask") / "cohort", 1)) as cohort:
        host = cohort.launcher("dask", env=env, switches=[INTER_OP])
        pid = cohort.start(host, 0, WORKLOADS / "plain_loop.py", cpus=str(CPU))
        cohort.wait_resting([0])
        yield cohort, host, pid


def test_a_dask_member_is_a_bound_worker_with_dasks_environment_that_trains_and_rests(dask):
    cohort, _, pid = dask
    got = cohort.read_back(0)
    assert (got.pid, got.launcher, got.cpus) == (pid, "dask", [CPU])
    assert (got.intra_op, got.inter_op) == (1, 2)
    wanted = {**dask_launcher.environment(), "OMP_WAIT_POLICY": "PASSIVE"}
    assert {name: got.env.get(name) for name in wanted} == wanted
    rows = axis_table.checks(DASK, [slot(cpus=str(CPU))], [got])
    assert [row for row in rows if not row.ok] == []
    tasks = Path(f"/proc/{pid}/task").iterdir()
    assert {tuple(os.sched_getaffinity(int(task.name))) for task in tasks} == {(CPU,)}
    assert len(cohort.train(0, 5)) >= 5


def listening(*pids):
    """Ports on which processes listen."""
    found = [one for pid in pids for one in psutil.Process(pid).net_connections("tcp4")]
    return {one.laddr.port for one in found if one.status == psutil.CONN_LISTEN}


TLS_ALERT = b"\x15"  # the first byte of such a record (RFC 8446)


def plain_answer(port, path="/health"):
    """What a peer gets that speaks no TLS: a plain Dask server says at once who it is."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as peer:
        peer.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        try:
            found = peer.recv(12)
        except ConnectionResetError:
            return b""
        return b"" if found.startswith(TLS_ALERT) else found


NOT_FOUND = b"HTTP/1.1 404"


def greets(port, security):
    """Whether Dask answers a peer with these credentials, which takes any server for right."""
    context = security.get_connection_args("client")["ssl_context"]
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain:
        try:
            with context.wrap_socket(plain) as peer:
                return peer.recv(1) != b""
        except (ssl.SSLError, ConnectionResetError):
            return False


def test_a_study_without_dask_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(UnavailableError, match="has no dask") as caught:
        axis_table.prepare(DASK, Where(HARDWARE))
    assert caught.value.remedy == f"{sys.executable} -m pip install distributed cryptography"


def test_a_dask_cluster_hears_nobody_else(dask):
    from distributed import Security

    _, host, pid = dask
    ports = listening(host.host, pid)
    assert len(ports) >= 3  # scheduler, nanny, worker
    stranger = Security.temporary()
    answers = {port: plain_answer(port) for port in ports}
    # Dask's HTTP servers cannot be left out; they have no page.
    assert set(answers.values()) == {b"", NOT_FOUND}
    for port, answer in answers.items():
        if answer == NOT_FOUND:
            pages = ("/", "/info/main/workers.html", "/metrics", "/json/counts.json")
            assert {plain_answer(port, page) for page in pages} == {NOT_FOUND}
        else:
            assert not greets(port, stranger)


def test_a_dask_worker_is_not_started_twice(dask):
    _, host, _ = dask
    with pytest.raises(LaunchError, match="not started twice"):
        host.start(MemberSpec(0, None, "default", ("s.py",)))


def test_dask_workers_end_with_their_host(dask):
    _, host, pid = dask
    host.close()
    wait_ended(pid)
