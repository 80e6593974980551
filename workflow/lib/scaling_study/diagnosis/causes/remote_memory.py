"""Memory of another NUMA node."""

from scaling_study.diagnosis.agreement import Fact
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.query import Asked
from scaling_study.diagnosis.recovered_share import ByRelief


def _nodes(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    pages = case.attested.get("reference", {}).get("pages_by_node") or {}
    return case.machine.nodes > 1, (
        f"{case.machine.nodes} memory nodes; pages of the first member by node: {pages}."
    )


CAUSE = Cause(
    "Memory of another NUMA node",
    "processes fetch their data from memory that belongs to another processor",
    "Time comes back when members are bound and take memory of their own node only.",
    "numa(7), set_mempolicy(2); Documentation/admin-guide/mm/numa_memory_policy.rst",
    Remedy(
        "Bind each member, and its memory to the node of its CPUs.",
        axes={"placement": "cores", "membind": "local"},
    ),
    growth=(Route(ByRelief(("local_memory",), beyond=("pinned",)), needs=(Fact(_nodes),)),),
    level=(Route(ByRelief(("local_memory",), beyond=("pinned",)), needs=(Fact(_nodes),)),),
    order=250,
)
