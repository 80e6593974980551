"""Thresholds that several stages share, so that all of them agree on growth and noise.

A threshold of one stage alone is defined where it is used.
"""

import math

CONFIDENCE = 0.95
"""The level of all intervals and tests."""
NOTICEABLE = 0.05
"""A part or a change below this is neither examined nor reported: two windows of one launch differ
by some 3 to 5%."""
GROWS = 1.10
"""From this ratio of two step times on, there is something to explain."""
GROWS_AT_LEAST = 1 + NOTICEABLE
"""The lower end of this ratio's interval must be above this."""
SHARE = 0.10
"""A cause is named from this share on. A smaller share is not worth a change, and is within the
error of such experiments."""
SHARE_AT_LEAST = NOTICEABLE
"""The lower end of this share's interval must be above this."""
FOREIGN_CPUS = 0.05
"""Other programs that keep fewer CPUs busy do not count: /proc/stat counts each CPU in units of
10 ms, and the kernel has work of its own."""


def grows(ratio: float, low: float | None) -> bool:
    """Return whether a step takes longer with more processes, by more than noise.

    Args:
        ratio: of the step times.
        low: the lower end of its interval; None or NaN without one, which is no growth.
    """
    return ratio >= GROWS and low is not None and not math.isnan(low) and low > GROWS_AT_LEAST
