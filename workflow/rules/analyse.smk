# reads:  plan.json, the tables, all records
# writes: analysis/*.json

ANALYSES = multiext(
    f"{RESULTS}/analysis/",
    "scaling.json",
    "noise.json",
    "recommendation.json",
    "failures.json",
    "attestation.json",
    "provenance.json",
)


rule analyse:
    """Intervals, scaling laws, the recommendation, and what went wrong."""
    input:
        plan=f"{RESULTS}/plan.json",
        tables=rules.collect.output,
        code=[*CODE, "scripts/analyse.py"],
    output:
        ANALYSES,
    log:
        f"{RESULTS}/logs/analyse.log",
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=1,
    params:
        study=lambda _, input: Path(input.plan).parent,
    message:
        "Analyse"
    shell:
        "python scripts/analyse.py --study-folder {params.study:q} 2>&1 | tee {log:q}"
