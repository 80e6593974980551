# reads:  the machine
# writes: machine.json


rule probe:
    """Describe this machine."""
    output:
        f"{RESULTS}/machine.json",
    log:
        f"{RESULTS}/logs/probe.log",
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=1,
    message:
        "Probe this machine"
    shell:
        "python scripts/probe.py --output {output:q} 2>&1 | tee {log:q}"
