# reads:  the machine
# writes: machine.json, of each machine that the config names


rule probe:
    """Describe this machine."""
    output:
        f"{HERE}/machine.json",
    log:
        f"{HERE}/logs/probe.log",
    # What measures under a machine's name waits for its probe, which is a job of its own then.
    group:
        None if MACHINES else group_of("replicate-0")
    conda:
        "../../envs/study.yaml"
    resources:
        **node_resources(),
        quiet=1,
    params:
        cores=lambda wildcards: MACHINES[wildcards.machine].cores if MACHINES else None,
    message:
        "Probe {wildcards.machine}" if MACHINES else "Probe this machine"
    shell:
        'python "$STUDY_SCRIPTS"/probe.py --cores {params.cores:q} --output {output:q} 2>&1 | tee {log:q}'
