"""Captured machines: data/topologies/*.json turned into the files of /proc and /sys.

A machine's file says what it describes, where it comes from, and the ``words`` for its topology.
``sockets``, ``l3`` and ``nodes`` are CPU lists; each entry of ``siblings`` holds parallel lists,
whose k-th CPUs share a core; ``speeds`` hold numbers of CPUs in files of sysfs; ``files`` are
further files, word for word.
"""

import json
import tempfile
from functools import lru_cache
from pathlib import Path

from scaling_study.common.topology import Topology, format_cpu_list, parse_cpu_list
from scaling_study.host import limits, system

DATA = Path(__file__).parents[1] / "data/topologies"
_FOLDER = tempfile.TemporaryDirectory(prefix="machines-")
NAMES = sorted(path.stem for path in DATA.glob("*.json"))


def describe(name):
    return json.loads((DATA / f"{name}.json").read_text())


def fake_root(name, root: Path) -> Path:
    """Write a machine's files below root; for tests that change some of them."""
    machine = describe(name)
    online = {cpu for cpus in machine["sockets"].values() for cpu in parse_cpu_list(cpus)}
    nodes = machine.get("nodes", {})
    files = {
        "sys/devices/system/cpu/online": format_cpu_list(online),
        "proc/self/status": (
            "Name:\tpython\n"
            f"Cpus_allowed_list:\t{machine.get('allowed_cpus', '0-8191')}\n"
            f"Mems_allowed_list:\t{machine.get('allowed_nodes', '0-1023')}\n"
        ),
        **_socket_files(machine),
        **_sibling_files(machine, online),
        **_l3_files(machine),
        **_node_files(nodes, machine.get("distances", [])),
        **{
            _cpu(cpu, file): number
            for file, numbers in machine.get("speeds", {}).items()
            for number, cpus in numbers.items()
            for cpu in parse_cpu_list(cpus)
        },
        **machine.get("files", {}),
    }
    return write(root, files)


def write(root: Path, files) -> Path:
    """Write files, by their path below root, each with an end of its last line."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")
    return root


@lru_cache
def root(name) -> Path:
    """A machine's files, written once; not to be changed."""
    return fake_root(name, Path(_FOLDER.name) / name)


@lru_cache
def topology(name) -> Topology:
    """The whole machine, read by the real readers."""
    return system.read_topology(root(name))


@lru_cache
def usable(name) -> Topology:
    """What a process may use of it."""
    return topology(name).restricted(
        limits.read_allowed_cpus(root(name)), limits.read_allowed_nodes(root(name))
    )


def _cpu(cpu, file):
    return f"sys/devices/system/cpu/cpu{cpu}/{file}"


def _socket_files(machine):
    """core_id is the core's number on its socket: it repeats, and no reader may rely on it."""
    files = {}
    for socket, cpus in machine["sockets"].items():
        for core_id, cpu in enumerate(parse_cpu_list(cpus)):
            files[_cpu(cpu, "topology/physical_package_id")] = socket
            files[_cpu(cpu, "topology/core_id")] = str(core_id)
    return files


def _sibling_files(machine, online):
    cores = {cpu: [cpu] for cpu in online}
    for entry in machine.get("siblings", []):
        for core in zip(*map(parse_cpu_list, entry), strict=True):
            cores.update(dict.fromkeys(core, core))
    return {
        _cpu(cpu, "topology/core_cpus_list"): format_cpu_list(core) for cpu, core in cores.items()
    }


def _l3_files(machine):
    files = {}
    for cpus in machine.get("l3", []):
        for cpu in parse_cpu_list(cpus):
            files[_cpu(cpu, "cache/index0/level")] = "1"
            files[_cpu(cpu, "cache/index0/shared_cpu_list")] = str(cpu)
            files[_cpu(cpu, "cache/index3/level")] = "3"
            files[_cpu(cpu, "cache/index3/type")] = "Unified"
            files[_cpu(cpu, "cache/index3/size")] = f"{machine['l3_kib']}K"
            files[_cpu(cpu, "cache/index3/shared_cpu_list")] = cpus
    return files


def _node_files(nodes, distances):
    folder = "sys/devices/system/node"
    files = {f"{folder}/online": format_cpu_list(map(int, nodes))} if nodes else {}
    for (node, its), row in zip(nodes.items(), distances, strict=True):
        kib = its["memory_gib"] * 2**20
        files[f"{folder}/node{node}/cpulist"] = its["cpus"]
        files[f"{folder}/node{node}/distance"] = " ".join(map(str, row))
        files[f"{folder}/node{node}/meminfo"] = (
            f"Node {node} MemTotal:       {kib} kB\nNode {node} MemFree:        {kib // 2} kB"
        )
    return files
