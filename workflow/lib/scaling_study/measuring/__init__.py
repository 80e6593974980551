"""Cohorts, windows, counters: from one launch of the plan to its records."""
