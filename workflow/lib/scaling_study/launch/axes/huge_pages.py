"""Whether malloc asks for transparent huge pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes.axis import Axis, Effects

if TYPE_CHECKING:
    from scaling_study.common.axis_values import Axes, Value
    from scaling_study.launch.axes.axis import Where
    from scaling_study.records.readback import Readback


def _refuse(axes: Axes) -> None:
    if not str(axes["allocator"]).startswith("glibc"):
        raise UnavailableError(
            f"huge_pages always is a setting of glibc's allocator, not of {axes['allocator']}",
            "exclude: [{huge_pages: always, allocator: " + str(axes["allocator"]) + "}]",
        )


def _prepare(_value: str, where: Where) -> Effects:
    if where.machine.thp == "never":
        raise UnavailableError(
            "transparent huge pages are switched off",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)",
        )
    # hugetlb=1 makes malloc ask for transparent huge pages by madvise (glibc 2.35 and newer).
    return Effects({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"})


def _effective(_value: Value, readback: Readback) -> str:
    size = readback.huge_page_bytes
    return "unknown" if size is None else f"{size / 1024**2:.0f} MiB in huge pages"


AXIS = Axis(
    "whether malloc asks for transparent huge pages",
    {"default": "it does not ask", "always": "it asks for them (a tunable of glibc)"},
    variables=("GLIBC_TUNABLES",),
    order=90,
    refuse=_refuse,
    prepare=_prepare,
    effective=_effective,
    holds=lambda value, got, _: value == "default" or bool(got.huge_page_bytes),
)
