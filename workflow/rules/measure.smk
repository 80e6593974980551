# reads:  the launch's entry of the plan; the workload's files; the code that measures
# writes: measure/<launch>/<replicate>.jsonl

# All of the resource quiet, of which every other rule takes 1.
ALONE = {**STUDY.node_resources, "quiet": 100}


rule measure:
    """Measure one launch and replicate, alone on the machine (resource quiet)."""
    input:
        build=STUDY.any_builds,
        probed=PROBED,
    output:
        f"{HERE}/measure/{{launch}}/{{replicate}}.jsonl",
    log:
        f"{HERE}/logs/measure/{{launch}}-{{replicate}}.log",
    priority: STUDY.order
    group:
        RUN.group("replicate-{replicate}")
    resources:
        **ALONE,
    params:
        job=STUDY.job("measure"),
    shell:
        f"{MEASURING} measure {JOB} --replicate {{wildcards.replicate}}"
