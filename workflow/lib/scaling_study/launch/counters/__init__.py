"""What is counted inside members, besides what the kernel counts."""
