"""Whether this node is the machine that a study means: the whole of it, and no other."""

import re

import pytest
import yaml
from msgspec import structs

from jobs import ROOT, STAGE
from processes import captured
from scaling_study.common.file_errors import UnusableError
from scaling_study.host import node, probe
from scaling_study.records import codec

NODE = (
    "NodeName=node-a Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=126 CPUTot=128 CPULoad=4.09"
    " AvailableFeatures=(null) State=IDLE ThreadsPerCore=2"
)


def step(cpus):
    return {"SLURM_JOB_ID": "17", "SLURMD_NODENAME": "node-a", "SLURM_JOB_CPUS_PER_NODE": cpus}


def test_a_site_may_keep_cpus_for_itself():
    assert node.parse_effective_cpus(NODE) == 126
    assert node.parse_effective_cpus("NodeName=node-a CPUAlloc=0 CPUTot=128") is None
    assert node.missing_cpus(step("126"), tuple(range(1, 127)), 126) is None


@pytest.mark.parametrize(
    ("allocated", "setting", "other"),
    [
        ("2", "--exclusive", "cpus_per_task"),  # the option of the allocation
        ("128", "cpus_per_task", "--exclusive"),  # the CPUs of the step
        ("128(x2),64", "cpus_per_task", "--exclusive"),
    ],
)
def test_a_part_of_the_node_names_the_setting_to_change(allocated, setting, other):
    said = node.missing_cpus(step(allocated), (0, 64), 128)
    assert "job 17 may run on 2 of the 128 CPUs of node-a (0,64)" in said
    assert setting in said
    assert other not in said


def bound_probe(output, env):
    """Probe with one CPU, as a user's taskset or a SLURM step would have it."""
    command = ["taskset", "--cpu-list", "0", *STAGE, "probe", "--cores", "None", "--output", output]
    env = {"PATH": "/usr/bin:/bin", **env}
    return captured(command, env=env)


@pytest.mark.slow
def test_only_a_job_of_slurm_is_asked(tmp_path):
    if len(node.limits.read_allowed_cpus()) == 1:
        pytest.skip("this machine has one CPU: every mask is the whole of it")
    done = bound_probe(tmp_path / "mine.json", {})
    assert done.returncode == 0, done.stderr
    done = bound_probe(tmp_path / "machine.json", step("1"))
    assert done.returncode == 1
    assert "a measurement needs the whole node" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "machine.json").exists()


def test_the_clusters_profile_gives_every_rule_that_measures_a_whole_node():
    rules = "\n".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    named = re.split(r"^ *rule (\w+):$", rules, flags=re.MULTILINE)
    measuring = {
        name
        for name, text in zip(named[1::2], named[2::2], strict=True)
        if "**ALONE" in text or "quiet=100" in text
    }
    assert {"measure", "race", "loader_experiment"} <= measuring
    profile = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())
    for section in ("set-resources", "set-threads"):
        assert set(profile[section]) == {"probe", *measuring}


# ---- nodes that share a name must be one machine


@pytest.fixture(scope="module")
def here():
    return probe.read_machine()


def test_another_machine_is_told_with_all_that_differs(tmp_path, here):
    path = tmp_path / "machines/epyc/machine.json"
    codec.write_file(path, structs.replace(here, hostname="another node of the same kind"))
    node.require_probed(path)
    other = structs.replace(here, kernel="5.4.0", memory_bytes=2**49, hostname="node7")
    codec.write_file(path, other)
    with pytest.raises(UnusableError) as caught:
        node.require_probed(path)
    text = str(caught.value)
    assert text.startswith(f"{here.hostname} is not the machine that was probed as epyc")
    assert "node7" in text
    assert f"kernel: {here.kernel} here, 5.4.0 there" in text
    assert "memory_gib" in text
    assert "narrow machines.epyc (constraint, partition)" in text


def test_a_node_has_as_many_cpus_as_the_config_says(here):
    cpus = len(here.cpus)
    node.require_cores(here, None)
    node.require_cores(here, cpus)
    with pytest.raises(UnusableError, match=f"has {cpus} CPUs"):
        node.require_cores(here, cpus + 1)
