# reads:  plan.json, analysis/recommendation.json, the workload's files; the code that confirms
# writes: confirm/rounds.jsonl; analysis/confirmation.json

CONFIRMATION = f"{HERE}/analysis/confirmation.json"


rule confirm:
    """Run the recommended launch and the default one as a user would, alone on the machine."""
    input:
        plan=PLANNED,
        # Another analysis may choose another launch. The job does nothing where it has not.
        recommendation=f"{HERE}/analysis/recommendation.json",
        build=build_of if BUILT else [],
        probed=PROBED,
    output:
        f"{HERE}/confirm/rounds.jsonl",
    log:
        f"{HERE}/logs/confirm.log",
    # Before profiles and experiments: it is what a person waits for first.
    priority: 1
    conda:
        "../../envs/study.yaml"
    resources:
        **node_resources(),
        quiet=100,
    params:
        job=confirm_of,
    shell:
        "exec python -P -m scaling_study.measuring.keep --watch $PPID --"
        ' python "$STUDY_SCRIPTS"/confirm.py --job {params.job:q}'
        f" --builds {BUILDS} --plan {{input.plan:q}}"
        " --recommendation {input.recommendation:q} --probed {input.probed:q}"
        " --log {log:q} --output {output:q}"


rule confirmation:
    """What the rounds show, beside what was predicted."""
    input:
        rounds=CONFIRMED,
        plan=PLANNED,
        recommendation=f"{HERE}/analysis/recommendation.json",
        windows=f"{HERE}/tables/windows.parquet",
        cohorts=f"{HERE}/tables/cohorts.json",
        code=[*CODE, f"{SCRIPTS}/confirmation.py"],
    output:
        CONFIRMATION,
    log:
        f"{HERE}/logs/confirmation.log",
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=1,
    params:
        study=lambda _, output: Path(output[0]).parents[1],
    message:
        "Compare what was confirmed with what was predicted"
    shell:
        'python "$STUDY_SCRIPTS"/confirmation.py --study-folder {params.study:q} --plan {input.plan:q}'
        " --rounds {input.rounds:q} 2>&1 | tee {log:q}"
