# reads:  plan.json, the tables, all records
# writes: analysis/*.json

ANALYSES = multiext(
    f"{HERE}/analysis/",
    "scaling.json",
    "noise.json",
    "recommendation.json",
    "pareto.json",
    "single_changes.json",
    "failures.json",
    "attestation.json",
    "provenance.json",
)


rule analyse:
    """Intervals, scaling laws, the recommendation, and what went wrong."""
    input:
        plan=PLANNED,
        tables=rules.collect.output,
        code=[*CODE, f"{SCRIPTS}/analyse.py"],
    output:
        ANALYSES,
    log:
        f"{HERE}/logs/analyse.log",
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=1,
    params:
        study=lambda _, output: Path(output[0]).parents[1],
    message:
        "Analyse"
    shell:
        'python "$STUDY_SCRIPTS"/analyse.py --study-folder {params.study:q} --plan {input.plan:q} 2>&1 | tee {log:q}'
