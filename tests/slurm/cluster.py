"""A real SLURM on this machine for tests: three nodes, no systemd, and nothing left afterwards.

Two nodes are this one machine with all its CPUs, the third is one of its CPUs: a machine of another
kind. So two jobs must never measure on them at once.
SLURM's files lie in a folder of their own. What had to be installed is removed again.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

from processes import wait_until as wait

PROGRAMS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "squeue": "slurm-client",
            "munged": "munge"}  # fmt: skip
# Where SLURM's programs look for their configuration; jobs inherit it.
VARIABLE = "SLURM_CONF"
NODES = ("node-a", "node-b", "node-small")
SMALL = NODES[-1]
PATIENCE_S = 60.0

# A value may have spaces, such as a folder's name.
WORDS = re.compile(r"([A-Z][\w:/]*)=(.*?)(?=\s+[A-Z][\w:/]*=|\s*$)")

# Marks the daemons.
MARK = "SCALING_STUDY_TEST_SLURM"

TEXT = Path(__file__).with_name("slurm.conf").read_text()


class NoClusterError(Exception):
    """SLURM cannot be brought up here; the text says what is missing."""


def wait_until(holds, what, patience_s=PATIENCE_S):
    """Wait until a condition holds, and return what it gave; SLURM is asked twice a second."""
    return wait(lambda: holds() or time.sleep(0.5), what, patience_s)


def command(*words, check=True):
    """Run one of SLURM's commands and return what it prints."""
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=check).stdout


def shown(what):
    """What the controller knows of its jobs or nodes, each a mapping of its own words."""
    lines = command("scontrol", "show", what, "--oneliner", check=False).splitlines()
    return [dict(WORDS.findall(line)) for line in lines]


def installed():
    """The installed packages."""
    return set(command("dpkg-query", "-W", "-f", "${Package}\\n").split())


@contextlib.contextmanager
def packages():
    """Install with apt-get what is missing; remove it afterwards, its files in /etc too."""
    missing = [name for program, name in PROGRAMS.items() if shutil.which(program) is None]
    if not missing:
        yield
        return
    before = installed()
    apt_get("update", "-qq")
    apt_get("install", "-y", "-qq", "--no-install-recommends", *missing)
    try:
        yield
    finally:
        apt_get("purge", "-y", "-qq", *sorted(installed() - before))


def apt_get(*words):
    """Run apt-get without questions."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(("apt-get", *words), env=env, check=True, stdout=sys.stderr)  # noqa: S607


def free_ports(count):
    """Ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in opened]


def processes_with(holds):
    """Processes for which a condition holds; those that end meanwhile are none."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if holds(process):
                found.append(process)
    return found


def daemons_of(folder):
    """The daemons of a cluster that still run."""
    return processes_with(lambda process: process.environ().get(MARK) == str(folder))


def steps(folder):
    """What runs the jobs of a cluster, or of one node: the parents of scripts in its folder."""
    scripts = processes_with(lambda process: f"{folder}/" in " ".join(process.cmdline()[:2]))
    parents = [script.parent() for script in scripts]
    return [one for one in parents if one is not None and one.cmdline()[0] == "slurmstepd:"]


def kill(processes):
    """End processes at once, and wait for their end."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, PATIENCE_S)


class Cluster:
    """The running daemons."""

    def __init__(self, folder):
        self.folder = folder
        self._daemons = {}

    def start(self):
        """Start all daemons, and wait for both nodes."""
        (self.folder / "state").mkdir()
        # munged refuses a key that others may read.
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(1024))
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
        for_munge = [f"--{name}={self.folder}/munge.{file}" for name, file in files.items()]
        configuration = self.folder / "slurm.conf"
        os.environ[VARIABLE] = str(configuration)
        configuration.write_text(
            TEXT.format(
                host=socket.gethostname(),
                where=f"NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1",
                folder=self.folder,
                ports=free_ports(4),
                cpus=self.cpus(),
            )
        )
        self._daemon("munged", ["munged", "--foreground", "--force", *for_munge])
        wait_until((self.folder / "munge.socket").exists, "munged's socket")
        self._daemon("slurmctld", ["slurmctld", "-D", "-c"])
        for node in NODES:
            self.start_node(node)
        self.wait_until_idle()

    def _daemon(self, name, words):
        with (self.folder / f"{name}.log").open("a") as log:
            self._daemons[name] = subprocess.Popen(
                words, env={**os.environ, MARK: str(self.folder)}, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def start_node(self, node):
        """Start a node's daemon."""
        part = ["taskset", "--cpu-list", str(self.small_cpu())] if node == SMALL else []
        self._daemon(node, [*part, "slurmd", "-D", "-N", node])

    def fail_node(self, node):
        """Let a node fail as if its power had gone: the daemon and all that it runs, at once."""
        ours = steps(self.folder / f"spool-{node}")
        below = [child for step in ours for child in step.children(recursive=True)]
        kill([psutil.Process(self._daemons[node].pid), *ours, *below])
        self._daemons.pop(node).wait()
        command("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=power")

    def wait_until_idle(self):
        """Wait until all nodes are there and have no job."""
        wait_until(lambda: {node["State"] for node in shown("nodes")} == {"IDLE"}, "idle nodes")

    def cpus(self):
        """CPUs of each node but the small one."""
        return len(os.sched_getaffinity(0))

    def small_cpu(self):
        """The CPU that the small node is."""
        return min(os.sched_getaffinity(0))

    def jobs(self):
        """All jobs that there are and have been, in the order of their ids."""
        found = [job for job in shown("jobs") if "JobId" in job]
        return sorted(found, key=lambda job: int(job["JobId"]))

    def job(self, wanted):
        """A job by its id."""
        return next(job for job in self.jobs() if job["JobId"] == wanted)

    def stop(self):
        """End all jobs and daemons."""
        command("scancel", "--user=root", check=False)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not command("squeue", "--noheader", check=False), "no job", 30)
        for daemon in reversed(self._daemons.values()):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self._daemons.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(10)
        kill([*daemons_of(self.folder), *steps(self.folder)])
        os.environ.pop(VARIABLE, None)


@contextlib.contextmanager
def cluster(folder):
    """A running SLURM, with its files in a new folder.

    Raises:
        NoClusterError: This machine cannot have one.
    """
    if os.geteuid() != 0:
        raise NoClusterError(
            "a SLURM for tests needs root: its daemons start jobs of any user. Run it in a"
            " container as root, or leave it to continuous integration"
        )
    folder.mkdir()
    with packages():
        one = Cluster(folder)
        try:
            one.start()
            yield one
        finally:
            one.stop()
