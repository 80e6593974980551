"""Rows of the report's tables that are more than a list of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaling_study.common.quantities import (
    format_bytes,
    format_count,
    format_cpus,
    format_interval,
    format_number,
    format_percent,
    known,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scaling_study.config.plan import Plan
    from scaling_study.report.model import (
        Cause,
        Check,
        Effective,
        Failures,
        Interval,
        Profile,
        Profiled,
        Ranked,
        Remedy,
        Target,
        Use,
    )

MARKED_SHIFT = 0.10
"""A profile that changes the step by a larger share is marked: it shows another step."""
RULED_OUT = "ruled out"
LEAST_SHARE = 0.005
"""A smaller share is shown as 0%."""
MAXED = 0.9
"""What is used to this part has nothing left to give."""
STALLED = 0.1


@dataclass(frozen=True, slots=True)
class Tested:
    """A cause that was tested and is not named, with its shares."""

    title: str
    result: str
    scaling_loss: Interval | None = None
    single_process_loss: Interval | None = None

    @property
    def nothing(self) -> bool:
        """Whether it is ruled out because it takes nothing at all."""
        shares = [
            share.value or 0.0 for share in (self.scaling_loss, self.single_process_loss) if share
        ]
        return self.result == RULED_OUT and all(abs(share) < LEAST_SHARE for share in shares)


def tested(target: Target) -> list[Tested]:
    """Return what was ruled out, and then what was tested without a result."""
    found: dict[tuple[str, str], dict[str, Interval | None]] = {}
    for result in ("ruled_out", "inconclusive"):
        for side in ("scaling_loss", "single_process_loss"):
            causes: Sequence[Cause] = getattr(getattr(target, side), result)
            for cause in causes:
                found.setdefault((cause.title, result), {})[side] = cause.share
    texts = {"ruled_out": RULED_OUT, "inconclusive": "undecided"}
    return [Tested(title, texts[result], **shares) for (title, result), shares in found.items()]


def remedies(target: Target) -> list[Remedy]:
    """Return what helps against the named causes, each once."""
    causes = (*target.scaling_loss.named, *target.single_process_loss.named)
    found = {cause.remedy.text: cause.remedy for cause in causes if cause.remedy}
    return list(found.values())


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """A profile: of what, how it was taken, and what it cost."""

    label: str
    n: int
    profile: Profile
    unprofiled_s: float | None
    marked: bool
    how: str


def profiles(targets: Iterable[Profiled]) -> list[ProfileRow]:
    """Return a row for each profile that was taken, or tried."""
    return [
        ProfileRow(
            target.label or "the recommended launch",
            point.n,
            profile,
            profile.unprofiled_step_s or point.unprofiled_step_s,
            abs((profile.overhead or 1.0) - 1) > MARKED_SHIFT,
            _how(profile),
        )
        for target in targets
        for point in target.points
        for profile in point.kinds
    ]


def _how(profile: Profile) -> str:
    if profile.status != "ok":
        return profile.reason or ""
    parts = []
    if profile.steps:
        parts.append(format_count(profile.steps, "step"))
    if profile.rate_hz:
        members = format_count(profile.members or 1, "member")
        rate = format_number(profile.rate_hz)
        parts.append(
            f"{format_count(profile.samples or 0, 'sample')} of {members}, {rate} a second"
        )
    if profile.native is not None:
        parts.append("native frames" if profile.native else "Python frames only")
    parts += [text for text in (profile.native_failed, profile.reason) if text]
    return ", ".join(parts)


def overhead(overhead: float | None) -> str:
    """Write an overhead of 1.04 as ``+4%``."""
    if overhead is None or not known(overhead):
        return format_number(None)
    text = format_percent(overhead - 1)
    return f"+{text}" if overhead > 1 else text


def range_of(row: Mapping[str, float], column: str, scale: float = 1.0) -> str:
    """Write the interval of a column of tables/points."""
    low, high = (scale * row[f"{column}_{end}"] for end in ("low", "high"))
    return format_interval(low, high, like=scale * row[column])


def tags(row: Ranked, chosen: bool) -> list[str]:
    """Return what a launch of the ranking is, beside its label."""
    roles = {"default", "baseline", "repeat", "today"}
    found = [
        *(["recommended"] if chosen else []),
        *([row.role.replace("_", " ")] if row.role in roles else []),
        *(["oversubscribed"] if row.oversubscribed else []),
    ]
    return [tag for tag in found if tag != row.label]


@dataclass(frozen=True, slots=True)
class Story:
    """Replicates of a launch that were skipped or failed in the same way."""

    label: str
    status: str
    reason: str
    remedy: str | None
    log: str | None
    replicates: str


def failed(plan: Plan, failures: Failures) -> list[Story]:
    """Return launches that were skipped or failed; replicates with one story share a row."""
    found: dict[tuple[str, str, str, str | None], list[int]] = {}
    logs: dict[tuple[str, str, str, str | None], str | None] = {}
    for one in failures.launches:
        key = (plan.by_id[one.launch].label, one.status, one.reason or "", one.remedy)
        found.setdefault(key, []).append(one.replicate)
        logs[key] = logs.get(key) or one.log
    return [
        Story(
            *key,
            logs[key],
            f"{'start' if len(own) == 1 else 'starts'} {', '.join(map(str, sorted(set(own))))}",
        )
        for key, own in found.items()
    ]


def lost_points(failures: Failures) -> list[tuple[str, str]]:
    """Return process counts without a valid window, by launch."""
    lost: dict[str, list[str]] = {}
    for point in failures.points:
        lost.setdefault(point.label, []).append(str(point.n))
    return [(label, f"n = {', '.join(counts)}") for label, counts in lost.items()]


@dataclass(frozen=True, slots=True)
class InvalidRow:
    """Invalid windows of a launch, of one reason."""

    flag: str
    label: str
    counts: str
    count: int


def invalid(failures: Failures) -> list[InvalidRow]:
    """Return invalid windows by reason and launch, the most frequent first."""
    keys = dict.fromkeys((one.flag, one.label) for one in failures.windows)
    rows = []
    for flag, label in keys:
        own = [one for one in failures.windows if (one.flag, one.label) == (flag, label)]
        counts = ", ".join(str(n) for n in sorted({one.n for one in own}))
        rows.append(InvalidRow(flag.replace("_", " "), label, counts, sum(o.count for o in own)))
    return sorted(rows, key=lambda row: -row.count)


def checked(
    launches: Iterable[Effective], defaults: Mapping[str, object]
) -> list[tuple[str, Check]]:
    """Return what launches asked for beside defaults, and what did not take effect first."""
    found = [
        (one.label, check)
        for one in launches
        for check in one.checks
        if not check.ok or check.requested != defaults.get(check.axis)
    ]
    return sorted(found, key=lambda entry: entry[1].ok)


def rules_of_thumb(found: Use, memory_bytes: float | None) -> list[tuple[str, str, str]]:
    """Answer rules of thumb for feeding training, each with its number."""

    def mean(kind: str) -> float | None:
        seen = [value for span in found.spans if (value := getattr(span, kind)) is not None]
        return sum(seen) / len(seen) if seen else None

    def answer(rule: str, holds: bool, text: str) -> tuple[str, str, str]:
        return rule, "yes" if holds else "no", text

    used = sum(mean(kind) or 0.0 for kind in ("trainers", "threads", "workers", "others"))
    in_use = f"{format_cpus(used)} of {format_cpus(found.cpus)} CPUs in use"
    rows = [answer("CPUs are not used up", used < MAXED * found.cpus, in_use)]
    for kind, what in (("stalled_cpu", "a CPU"), ("stalled_io", "a disk")):
        if (stalled := mean(kind)) is not None:
            text = f"in {format_percent(round(stalled, 2))} of the time something waited for {what}"
            rows.append(answer(f"Nobody waits for {what}", stalled < STALLED, text))
    for left, whole, what in (
        ("memory_left", memory_bytes, "Memory"),
        ("shared_left", found.shared_bytes, "Shared memory (/dev/shm)"),
    ):
        if whole:
            least = min(getattr(span, left) for span in found.spans)
            text = f"{format_bytes(least)} were left at least"
            rows.append(answer(f"{what} is not used up", least > (1 - MAXED) * whole, text))
    for kind, what in (("disk", "read from disks"), ("network", "received from the network")):
        rows.append(("for comparison", "", f"{format_bytes(mean(kind))} a second {what}"))
    return rows
