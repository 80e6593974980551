"""A study of a program that trains in processes of its own."""

from jobs import WORKLOADS, config

POOL = WORKLOADS / "pool.py"


def study(how, *, n=2):
    """A study of the pool: a window of each count."""
    args = ["--how", how, "--jobs", "{n}", "--steps", "200000"]
    return config(POOL, args=args, processes=[n], windows=1, window_s=[0.5, 60.0])
