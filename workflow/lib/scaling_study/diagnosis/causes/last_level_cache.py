"""The last-level cache that members share."""

from scaling_study.common.quantities import format_bytes
from scaling_study.diagnosis.agreement import Fact, Inflated, Sensitive
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.measures import Beside
from scaling_study.diagnosis.query import Asked
from scaling_study.diagnosis.recovered_share import ByRelief


def _caches(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    size = case.machine.raw.get("l3_bytes")
    return case.n > case.machine.caches, (
        f"{case.n} members share {case.machine.caches} last-level caches of {format_bytes(size)}."
    )


CAUSE = Cause(
    "The last-level cache that members share",
    "the processes push each other's data out of a cache that they share",
    "User time grows; a stream that only fills this cache slows a member down beyond the "
    "control and is itself slowed down among many; or spreading members over caches helps.",
    "Intel 64 and IA-32 Optimization Reference Manual, cache hierarchy",
    Remedy(
        "Spread members over the caches (placement spread or per_l3), or start fewer.",
        axes={"placement": "spread"},
    ),
    growth=(
        Route(
            ByRelief(("per_l3", "spread"), beyond=("pinned", "one_thread", "passive")),
            (Sensitive("llc"),),
            needs=(Fact(_caches),),
        ),
        Route(Beside("llc"), (Sensitive("llc"), Inflated("llc")), needs=(Fact(_caches),)),
    ),
    order=290,
)
