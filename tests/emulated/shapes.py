"""The machines that are emulated, and what a placement must be on them: written by hand."""

from emulator import Machine, Node

TWO = Machine(
    name="two",
    sockets=2,
    dies=2,
    cores=2,
    threads=2,
    nodes=tuple(Node(cpus, 1280) for cpus in ("0-3", "4-7", "8-11", "12-15")),
    distances=((10, 12, 32, 32), (12, 10, 32, 32), (32, 32, 10, 12), (32, 32, 12, 10)),
)
"""Two sockets of two dies, each a node with its own L3 and two cores with SMT: 16 CPUs."""

UNEVEN = Machine(
    name="uneven",
    sockets=2,
    dies=1,
    cores=4,
    threads=1,
    nodes=(Node("0-2", 1536), Node("3", 0), Node("4-7", 1024), Node("", 1024)),
    distances=((10, 20, 30, 40), (20, 10, 30, 40), (30, 30, 10, 20), (40, 40, 20, 10)),
)
"""Two sockets of four CPUs; a node with a CPU and no memory, and one with memory and no CPU."""

MACHINES = {machine.name: machine for machine in (TWO, UNEVEN)}

LISTS = {"two": ["0-1", "6,9"], "uneven": ["0-1", "3"]}
"""CPU lists as a person gives them: over two nodes, and the CPU whose node has no memory."""

NODES = {"two": "1,3", "uneven": "3"}
"""Nodes as a person gives them for membind; the second one's has no CPU."""

MEMBERS = {"two": 8, "uneven": 4}
"""As many as have two CPUs of their own."""

# CPUs of each slot of two CPUs, of one L3, or as listed.
CPUS = {
    "two": {
        "none": [None] * 8,
        "compact": ["0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"],
        "cores": ["0,2", "4,6", "8,10", "12,14", "1,3", "5,7", "9,11", "13,15"],
        "spread": ["0,2", "8,10", "4,6", "12,14", "1,3", "9,11", "5,7", "13,15"],
        "per_l3": ["0-3", "4-7", "8-11", "12-15"] * 2,
        "lists": ["0-1", "6,9"] * 4,
    },
    "uneven": {
        "none": [None] * 4,
        "compact": ["0-1", "2-3", "4-5", "6-7"],
        "cores": ["0-1", "2-3", "4-5", "6-7"],
        "spread": ["0-1", "4-5", "2-3", "6-7"],
        "per_l3": ["0-3", "4-7"] * 2,
        "lists": ["0-1", "3"] * 2,
    },
}

PLACEMENTS = tuple(CPUS["two"])
MEMBINDS = ("none", "local", "preferred", "interleave", "listed")

# Node of each CPU as far as memory goes: what has no memory takes its nearest node's.
NODE_OF_CPU = {"two": [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4, "uneven": [0, 0, 0, 0, 2, 2, 2, 2]}
MEMORY_NODES = {"two": {0, 1, 2, 3}, "uneven": {0, 2, 3}}
INTERLEAVED = {"two": {0, 1, 2, 3}, "uneven": {0, 2}}
