"""Quantities as a person reads them: rounded, with a unit, with an interval.

Three significant digits everywhere: more than the intervals of a study support, and enough to
compare two rows of a table.
"""

import math

SIGNIFICANT_DIGITS = 3
TIME_UNITS = ((2 * 3600.0, 3600.0, "hours"), (120.0, 60.0, "minutes"), (1.0, 1.0, "s"))
"""Smallest time (s), unit (s) and name of each unit; shorter times are in milliseconds."""
MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"
MISSING = "\N{EN DASH}"
"""Shown for a missing value (None or NaN), instead of an empty cell or a zero."""

BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
# Smaller differences are rounding errors of equal values: no clock here resolves less than a
# nanosecond, and no other quantity is so small in its unit.
LEAST_S = 0.5e-9
RESIDUE = 1e-9
# A few thousand resamples support no probability above this.
SUREST = 0.99


def known(value: float | None) -> bool:
    """Return whether a value is known: neither None nor NaN."""
    return value is not None and not math.isnan(value)


def decimals_for(value: float) -> int:
    """Return how many decimals show a value with three significant digits."""
    if abs(value) < RESIDUE or not math.isfinite(value):
        return 0
    # Rounding first: 99.96 is shown as 100, not as 100.0.
    rounded = float(f"{abs(value):.{SIGNIFICANT_DIGITS - 1}e}")
    return max(0, SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(rounded)))


def format_number(value: float | None, *, like: float | None = None) -> str:
    """Write ``1234.6`` as ``1,235`` and ``0.01234`` as ``0.0123``.

    Args:
        value: the number; None and NaN give a dash.
        like: a number whose decimals to use, so that a value and its interval agree.
    """
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    return _fixed(value, decimals_for(like if like is not None and known(like) else value))


def _fixed(value: float, decimals: int) -> str:
    """Write a number with a number of decimals; one that rounds to zero has no sign."""
    return f"{round(value, decimals) + 0.0:,.{decimals}f}".replace("-", MINUS)


def format_cpus(cpus: float) -> str:
    """Write a number of CPUs to a hundredth, which ticks of 10 ms resolve: ``1.9``, ``0.05``."""
    return _fixed(cpus, 2).rstrip("0").rstrip(".") if known(cpus) else MISSING


def format_interval(
    low: float | None, high: float | None, *, like: float | None = None, unit: float = 1.0
) -> str:
    """Write an interval as ``208 to 215``; a missing one as an empty text.

    Args:
        low: its lower end.
        high: its upper end.
        like: a number whose decimals both ends get; by default the upper end.
        unit: the unit in which the ends are written.
    """
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    reference = (high if like is None else like) / unit
    return " to ".join(format_number(end / unit, like=reference) for end in (low, high))


def format_estimate(value: float | None, low: float | None, high: float | None) -> str:
    """Write a value with its interval: ``212 (208 to 215)``."""
    interval = format_interval(low, high, like=value)
    return f"{format_number(value)} ({interval})" if interval else format_number(value)


def format_ratio(value: float | None) -> str:
    """Write ``15.24`` as ``15.2`` and a multiplication sign."""
    return f"{format_number(value)}{TIMES}" if known(value) else MISSING


def format_percent(share: float | None) -> str:
    """Write a share of 1 as a percentage: ``0.0234`` as ``2.3%``, ``0.62`` as ``62%``."""
    if share is None or math.isnan(share):
        return MISSING
    percent = 100.0 * share
    decimals = 1 if 0 < abs(percent) < 10 and percent != round(percent) else 0  # noqa: PLR2004
    return f"{_fixed(percent, decimals).replace(',', '')}%"


def format_probability(probability: float | None, *, short: bool = False) -> str:
    """Write a probability from resampling: never as certain, never as impossible."""
    if probability is None or math.isnan(probability):
        return MISSING
    if probability > SUREST:
        return f"{'>' if short else 'more than '}{SUREST:.0%}"
    if probability < 1 - SUREST:
        return f"{'<' if short else 'less than '}{1 - SUREST:.0%}"
    return f"{probability:.0%}"


def format_seconds(seconds: float | None) -> str:
    """Write a time with the unit that suits it: ``12.3 ms``, ``1.20 s``, ``3 min 20 s``."""
    if seconds is None or math.isnan(seconds):
        return MISSING
    if abs(seconds) < 1e-3:  # noqa: PLR2004 (below a millisecond)
        return "0 s" if abs(seconds) < LEAST_S else f"{format_number(seconds * 1e6)} µs"
    if abs(seconds) < 1:
        return f"{format_number(seconds * 1e3)} ms"
    if abs(seconds) < 120:  # noqa: PLR2004 (two minutes: above, minutes read better)
        return f"{format_number(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the unit that suits a time, in seconds, and its name."""
    return next(((unit_s, name) for at, unit_s, name in TIME_UNITS if seconds >= at), (1e-3, "ms"))


def format_time(seconds: float) -> str:
    """Write a time in one unit: ``2.40 minutes``."""
    unit_s, unit = time_unit(seconds)
    return f"{format_number(seconds / unit_s)} {unit}"


def format_bytes(size: float | None) -> str:
    """Write a size in binary units: ``24.0 GiB``."""
    if size is None or math.isnan(size):
        return MISSING
    power = 0
    while abs(size) >= 1024 and power < len(BYTE_UNITS) - 1:  # noqa: PLR2004 (binary units)
        size /= 1024
        power += 1
    return f"{format_number(size)} {BYTE_UNITS[power]}"


def format_count(count: int, noun: str, plural: str | None = None) -> str:
    """Write ``1 process`` and ``2 processes``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
