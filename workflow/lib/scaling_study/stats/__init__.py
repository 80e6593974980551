"""Intervals, ratios, and how much starts of one launch differ."""
