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
        plan=rules.plan.output,
        tables=rules.collect.output,
        code=[*CODE, "scripts/analyse.py"],
    output:
        ANALYSES,
    log:
        f"{RESULTS}/logs/analyse.log",
    message:
        "Analyse"
    shell:
        "{PYTHON:q} scripts/analyse.py --study-folder {RESULTS:q} 2> {log:q}"
