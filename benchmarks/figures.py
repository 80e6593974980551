"""How the benchmarks of ``make bench`` print what they promise."""


def figure(what: str, target: str, measured: str, *, met: bool) -> None:
    """Print a figure: what it is, what it should be, what it is here."""
    print(f"{'ok  ' if met else 'MISS'} {what:44} {target:22} {measured}", flush=True)
