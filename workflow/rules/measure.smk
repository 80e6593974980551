# reads:  the launch's entry of the plan, the workload's files, the measuring code
# writes: measure/<launch>/<replicate>.jsonl


def build_of(wildcards):
    """The environment that a launch needs, where it is one of ours."""
    build = LAUNCHES[wildcards.launch].axes["build"]
    return f"{BUILDS}/{Path(build).stem}.txt" if build.endswith(".txt") else []


def order_of(wildcards):
    """Replicate by replicate, each in an order of its own that the seed decides."""
    return plan.priority(PLAN, LAUNCHES[wildcards.launch], int(wildcards.replicate))


rule measure:
    """Measure one launch and replicate, alone on the machine (resource quiet)."""
    input:
        workload=lambda _: [PLAN.workload.script, *PLAN.workload.inputs],
        harness=HARNESS,
        build=build_of,
    output:
        f"{RESULTS}/measure/{{launch}}/{{replicate}}.jsonl",
    params:
        job=lambda wildcards: measure.job_text(PLAN.to_dict(), wildcards.launch),
    log:
        f"{RESULTS}/logs/measure/{{launch}}-{{replicate}}.log",
    resources:
        quiet=100,
    priority:
        order_of
    shell:
        "{PYTHON:q} -m scaling_study.keep --watch $PPID --"
        " {PYTHON:q} scripts/measure.py --job {params.job:q}"
        " --replicate {wildcards.replicate} --builds {BUILDS:q} --log {log:q} --output {output:q}"
