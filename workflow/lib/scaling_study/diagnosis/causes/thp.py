"""Small pages where huge ones would do."""

from scaling_study.diagnosis.agreement import Attested, Fact
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.query import Asked
from scaling_study.diagnosis.recovered_share import ByRelief


def _thp(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    mode = case.machine.raw.get("thp")
    return mode != "always", f"Transparent huge pages: {mode}."


CAUSE = Cause(
    "Small pages where huge ones would do",
    "memory is managed in small pieces, and finding them takes time",
    "Time comes back when malloc asks for huge pages, beyond what an allocator that keeps its "
    "blocks brings back.",
    "Documentation/admin-guide/mm/transhuge.rst; glibc.malloc.hugetlb",
    Remedy("Let malloc ask for huge pages.", axes={"huge_pages": "always"}),
    growth=(
        Route(
            ByRelief(("huge_pages",), beyond=("large_thresholds",)),
            (Fact(_thp), Attested("huge_page_bytes", "Bytes in huge pages")),
        ),
    ),
    level=(
        Route(
            ByRelief(("huge_pages",), beyond=("large_thresholds",)),
            (Fact(_thp), Attested("huge_page_bytes", "Bytes in huge pages")),
        ),
    ),
    order=230,
)
