# reads:  the launch's entry of the plan; the workload's files; the code that measures
# writes: measure/<launch>/<replicate>.jsonl
ALONE = {**STUDY.node_resources, "quiet": 100}  # of all rules, each of which takes 1 at least


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
