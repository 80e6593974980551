"""Profiler tables that were made elsewhere."""
