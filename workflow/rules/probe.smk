# reads:  the machine
# writes: machine.json


rule probe:
    """Describe this machine."""
    output:
        f"{RESULTS}/machine.json",
    log:
        f"{RESULTS}/logs/probe.log",
    message:
        "Probe this machine"
    shell:
        "{PYTHON:q} scripts/probe.py --output {output:q} 2> {log:q}"
