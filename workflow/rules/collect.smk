# reads:  plan.json, all records
# writes: tables/windows, replicates and points, as parquet and CSV; tables/cohorts.json


rule collect:
    """Gather the records of all launches into tables."""
    input:
        # By path: a reference to a rule makes Snakemake hash all records once for each of them.
        plan=f"{RESULTS}/plan.json",
        records=RECORDS,
        code=[*CODE, "scripts/collect.py"],
    output:
        expand(
            f"{RESULTS}/tables/{{table}}.{{kind}}",
            table=["windows", "replicates", "points"],
            kind=["parquet", "csv"],
        ),
        f"{RESULTS}/tables/cohorts.json",
    log:
        f"{RESULTS}/logs/collect.log",
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=1,
    params:
        study=lambda _, input: Path(input.plan).parent,
    message:
        "Collect records into tables"
    shell:
        "python scripts/collect.py --study-folder {params.study:q} 2>&1 | tee {log:q}"
