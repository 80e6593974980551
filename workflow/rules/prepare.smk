# reads:  the config, the machine, envs/<build>.txt
# writes: plan.json; machine.json, of each machine that the config names; results/.builds/
rule plan:
    """Write down what will be measured."""
    output:
        f"{RESULTS}/plan.json",
    log:
        f"{RESULTS}/logs/plan.log",
    # Before all measuring, which tells by the plan how far it is.
    priority: 2**40
    resources:
        quiet=1,
    params:
        plan=lambda _: json.dumps(PLAN_JSON),
    message:
        "Plan: {output}"
    script:
        "../plan_file.py"


rule probe:
    """Describe this machine."""
    output:
        f"{HERE}/machine.json",
    log:
        f"{HERE}/logs/probe.log",
    # What measures under a machine's name waits for its probe, which is a job of its own then.
    group:
        None if MACHINES else group_of("replicate-0")
    resources:
        **node_resources(),
        quiet=1,
    params:
        cores=lambda wildcards: MACHINES[wildcards.machine].cores if MACHINES else None,
    message:
        "Probe {wildcards.machine}" if MACHINES else "Probe this machine"
    shell:
        f"{STAGE} probe --cores {{params.cores:q}} --output {{output:q}} 2>&1 | tee {{log:q}}"


rule build:
    """Make the environment of a build from its requirements file."""
    input:
        "envs/{build}.txt",
    output:
        f"{BUILDS}/{{build}}.txt",
    log:
        f"{BUILDS}/{{build}}.log",
    resources:
        quiet=1,
    params:
        folder=lambda _, output: Path(output[0]).with_suffix(""),
        cache=f"{BUILDS}/.pip",
    message:
        "Build the environment {wildcards.build}"
    shell:
        "( python -P -m venv --clear {params.folder:q}"
        " && {params.folder:q}/bin/python -P -m pip install --cache-dir {params.cache:q}"
        " --requirement {input:q}"
        " && {params.folder:q}/bin/python -P -m pip freeze > {output:q} ) > {log:q} 2>&1"
