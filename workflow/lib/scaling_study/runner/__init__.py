"""Measures launches of the plan: cohorts, their windows, and the journals of record files."""
