# reads:  the launch's entry of the plan; the workload's files; the code that measures
# writes: measure/<launch>/<replicate>.jsonl
rule measure:
    """Measure one launch and replicate, alone on the machine (resource quiet)."""
    input:
        # Most studies build nothing, and Snakemake asks a function once for every launch.
        build=build_of if BUILT else [],
        probed=PROBED,
    output:
        f"{HERE}/measure/{{launch}}/{{replicate}}.jsonl",
    log:
        f"{HERE}/logs/measure/{{launch}}-{{replicate}}.log",
    priority: order_of
    group:
        group_of("replicate-{replicate}")
    resources:
        **node_resources(),
        quiet=100,
    params:
        # Snakemake works through every parameter of every job: one holds all that counts.
        job=lambda wildcards: measure.job_text(PLAN_JSON, JOBS[wildcards.launch], FILES),
    shell:
        f"{MEASURING} measure {JOB} --replicate {{wildcards.replicate}} --plan {RESULTS}/plan.json"
