"""The types of axes' values, in plans, records and verdicts alike."""

from collections.abc import Mapping

Value = str | int | float | tuple[str, ...]
"""Of one axis, or of a parameter of the workload."""
Axes = Mapping[str, Value]
"""Of a launch, by axis."""
