"""From one launch of the plan to its record file: cohorts, windows, journal."""
