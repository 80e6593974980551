# reads:  plan.json, all records
# writes: tables/windows, replicates, between and points, as parquet and CSV; tables/cohorts.json


rule collect:
    """Gather the records of all launches into tables."""
    input:
        # By path: a reference to a rule makes Snakemake hash all records once for each of them.
        plan=PLANNED,
        records=RECORDS,
        code=[*CODE, f"{SCRIPTS}/collect.py"],
    output:
        expand(
            f"{HERE}/tables/{{table}}.{{kind}}",
            allow_missing=True,
            table=["windows", "replicates", "between", "points"],
            kind=["parquet", "csv"],
        ),
        f"{HERE}/tables/cohorts.json",
    log:
        f"{HERE}/logs/collect.log",
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=1,
    params:
        study=lambda _, output: Path(output[0]).parents[1],
    message:
        "Collect records into tables"
    shell:
        'python "$STUDY_SCRIPTS"/collect.py --study-folder {params.study:q} --plan {input.plan:q} 2>&1 | tee {log:q}'
