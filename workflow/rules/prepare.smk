# reads:  the config, the machine, envs/<build>.txt
# writes: plan.json; machine.json, of each machine that the config names; results/.builds/
localrules:
    plan,
    build,


rule plan:
    """Write down what will be measured."""
    output:
        f"{RESULTS}/plan.json",
    log:
        f"{RESULTS}/logs/plan.log",
    # First, so that a study that stops early has its plan.
    priority: 2**40
    resources:
        quiet=1,
    params:
        plan=lambda _: json.dumps(STUDY.content),
    script:
        "../plan_file.py"


rule probe:
    """Describe this machine."""
    output:
        f"{HERE}/machine.json",
    log:
        f"{HERE}/logs/probe.log",
    # Jobs that measure a named machine wait for its probe, which is then a job of its own.
    group:
        None if STUDY.machines else RUN.group("replicate-0")
    resources:
        **STUDY.node_resources,
        quiet=1,
    params:
        cores=STUDY.cores,
    shell:
        f"{STAGE} probe --cores {{params.cores:q}} {FILES}"


rule build:
    """Make the environment of a build from its requirements file."""
    input:
        "envs/{build}.txt",
    output:
        f"{study_files.BUILDS}/{{build}}.txt",
    log:
        f"{study_files.BUILDS}/{{build}}.log",
    resources:
        quiet=1,
    shell:
        f"{STAGE} build --requirements {{input:q}} {FILES}"
