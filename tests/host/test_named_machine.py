"""Nodes that share a name must be one machine."""

import pytest
from msgspec import structs

from scaling_study.common import file_errors
from scaling_study.host import named_machine, probe
from scaling_study.records import codec
from scaling_study.records.codec import write_file


@pytest.fixture(scope="module")
def here():
    return probe.read_machine()


@pytest.fixture
def probed(tmp_path, here):
    def write(**changes):
        path = tmp_path / "machines/epyc/machine.json"
        write_file(path, structs.replace(here, **changes))
        return path

    return write


def test_the_machine_that_was_probed_may_measure(probed):
    named_machine.require_probed(probed())
    named_machine.require_probed(probed(hostname="another node of the same kind"))
    named_machine.require_probed(None)


def test_another_machine_is_told_with_all_that_differs(probed, here):
    changes = {"kernel": "5.4.0", "memory_bytes": 2**49, "hostname": "node7"}
    with pytest.raises(named_machine.OtherMachineError) as caught:
        named_machine.require_probed(probed(**changes))
    text = str(caught.value)
    assert text.startswith(f"{here.hostname} is not the machine that was probed as epyc")
    assert "node7" in text
    assert f"kernel: {here.kernel} here, 5.4.0 there" in text
    assert "memory_gib" in text
    assert "narrow machines.epyc (constraint, partition)" in text


def test_a_damaged_probe_is_told(tmp_path):
    path = tmp_path / "machine.json"
    for content in ({"schema_version": 1}, {"schema_version": 1, "hostname": 3}, []):
        codec.write_file(path, content)
        with pytest.raises(file_errors.UnusableError, match="is damaged"):
            named_machine.require_probed(path)


def test_a_node_has_as_many_cpus_as_the_config_says(here):
    cpus = len(here.cpus)
    named_machine.require_cores(here, None)
    named_machine.require_cores(here, cpus)
    with pytest.raises(named_machine.OtherMachineError, match=f"has {cpus} CPUs"):
        named_machine.require_cores(here, cpus + 1)
