"""The code inside a measured process: it imports torch and the standard library, nothing else."""
