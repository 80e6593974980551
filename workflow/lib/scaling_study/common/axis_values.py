"""The types of axes' values, in plans, records and verdicts alike."""

from collections.abc import Mapping

Value = str | int | float | tuple[str, ...]
"""The value of one axis, or of a parameter of the workload."""
Axes = Mapping[str, Value]
"""The values of a launch, by axis."""
