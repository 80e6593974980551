"""Times and numbers that are counted inside members, beside the kernel's counters."""
