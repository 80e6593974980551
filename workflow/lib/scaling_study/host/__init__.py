"""The machine: its hardware, limits and counters."""
