"""The code inside a measured process: it needs torch and the standard library, nothing else."""
