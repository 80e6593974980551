"""Binding, then becoming the command: what the command gets is read back inside it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from processes import TELL, captured, gone, has_ended, killed_at_the_end, wait_ended, written
from scaling_study.host.probe import find_library, library_folders
from scaling_study.queues import bind

CPUS = sorted(os.sched_getaffinity(0))
# What an interpreter may add to its own environment (PEP 538, and macOS aside nothing else).
OWN = {"LC_CTYPE"}

needs_numa = pytest.mark.skipif(
    not Path("/proc/self/numa_maps").exists() or find_library("numa", library_folders()) is None,
    reason="a kernel with NUMA and libnuma.so.1 (apt install libnuma1)",
)


def run(*options, command=(sys.executable, "-c", TELL), **kwargs):
    return captured([sys.executable, "-P", bind.__file__, *options, "--", *command], **kwargs)


def told(*options, **kwargs):
    done = run(*options, **kwargs)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("cpu", CPUS[:3])
def test_the_mask_is_the_commands(cpu):
    assert told("--cpus", str(cpu))["cpus"] == [cpu]


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        # The kernel itself is content when one CPU of a mask exists (sched_setaffinity(2)).
        ("--cpus", "99999", ""),
        ("--cpus", f"{CPUS[0]},99999", "CPUs [99999] cannot be used"),
        pytest.param("--mempolicy", "bind:1023", "nodes [1023] cannot be used", marks=needs_numa),
        pytest.param("--mempolicy", "interleave:0,1023", "nodes [1023] cannot", marks=needs_numa),
        pytest.param("--mempolicy", "near:0", "use default, bind:NODES", marks=needs_numa),
        pytest.param("--mempolicy", "prefer:1023", "policy of nodes [1023]", marks=needs_numa),
        pytest.param("--mempolicy", "bind", "", marks=needs_numa),
        pytest.param("--mempolicy", "bind:x", "", marks=needs_numa),
    ],
)
def test_what_cannot_be_bound_is_named_in_one_line(option, value, words):
    done = run(option, value)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("bind: cpus ")
    assert value in done.stderr
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@needs_numa
@pytest.mark.parametrize("mode", ["bind", "interleave", "prefer"])
def test_a_memory_policy_holds_for_all_that_the_command_maps(mode):
    got = told("--mempolicy", f"{mode}:0")
    assert got["policies"] == [f"{mode}:0"]


@pytest.mark.parametrize("kept", [None, ["A", "MISSING"]], ids=["all", "some"])
def test_variables_are_set_beside_what_is_inherited(kept):
    given = {"A": "0", "KEPT": "é", "Z": "1", "PATH": os.environ["PATH"]}
    options = ["--env", "B=x=y z", "--env", "C=", "--env", "D=-x", "--env", "Z=2"]
    options += [word for name in kept or () for word in ("--keep-env", name)]
    got = told(*options, env=given)
    inherited = given if kept is None else {"A": "0"}
    asked = {"B": "x=y z", "C": "", "D": "-x", "Z": "2"}
    env = {name: text for name, text in got["env"].items() if name not in OWN}
    assert env == inherited | asked
    assert got["cpus"] == CPUS


def test_what_comes_after_the_dashes_is_the_commands():
    words = ["--cpus", "99", "--env", "A=1", "--", "-x", "", "a b", "ü", "--mempolicy=no"]
    got = told("--env", "A=0", command=[sys.executable, "-c", TELL, *words])
    assert got["argv"] == words
    assert got["env"]["A"] == "0"


def test_a_command_without_a_slash_is_searched_in_its_own_path(tmp_path):
    (tmp_path / "said").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "said").chmod(0o700)
    done = run("--env", f"PATH={tmp_path}:/usr/bin:/bin", command=["said"])
    assert done.stdout == "found\n"


def test_a_command_that_cannot_be_run_is_named():
    done = run(command=["/no/such/command"])
    assert done.returncode == 1
    assert done.stderr == "bind: cannot run /no/such/command: No such file or directory\n"


# ---- the end with the parent

# A parent that starts the binder, and lives until it is killed.
PARENT = """
import os, subprocess, sys, time
subprocess.Popen([*sys.argv[1:3], "--die-with", str(os.getpid()), *sys.argv[3:]])
time.sleep(600)
"""


@pytest.mark.parametrize("options", [[], ["--die-signal", "TERM"]])
def test_the_command_ends_when_its_parent_is_killed(tmp_path, options):
    """By a signal that its caller ignores, too."""
    command = [*options, "--", "sh", "-c", "echo $$ > pid; exec sleep 600"]
    ignoring = ["/usr/bin/env", "--ignore-signal=TERM"]
    parent = subprocess.Popen(
        [*ignoring, sys.executable, "-c", PARENT, sys.executable, bind.__file__, *command],
        cwd=tmp_path, start_new_session=True,
    )  # fmt: skip
    with killed_at_the_end(parent):
        pid = int(written(tmp_path / "pid"))
        assert not has_ended(pid)
        parent.kill()
        parent.wait()
        wait_ended(pid)


def test_a_parent_that_is_gone_already_ends_the_command_before_it_begins():
    done = run("--die-with", str(gone()), command=["echo", "began"])
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")
