# reads:  the config
# writes: plan.json


rule plan:
    """Write down what will be measured."""
    output:
        f"{RESULTS}/plan.json",
    log:
        f"{RESULTS}/logs/plan.log",
    # Before all measuring, which tells by the plan how far it is.
    priority: 2**40
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=1,
    params:
        plan=lambda _: json.dumps(PLAN_JSON),
    message:
        "Plan: {output}"
    script:
        "../../scripts/plan.py"
