# reads:  why/<target>/<replicate>.jsonl, fingerprint.json, tables/points and replicates
# writes: tables/experiments, as parquet and CSV; analysis/causes.json

CAUSES = f"{RESULTS}/analysis/causes.json"


rule causes:
    """Gather the experiments into a table, and judge what they show."""
    input:
        why=WHY,
        fingerprint=[f"{RESULTS}/fingerprint.json"] if WHY else [],
        points=expand(
            f"{RESULTS}/tables/{{table}}.parquet", table=["points", "replicates"]
        ),
        code=[*CODE, "scripts/causes.py"],
    output:
        tables=multiext(f"{RESULTS}/tables/experiments", ".parquet", ".csv"),
        causes=CAUSES,
    log:
        f"{RESULTS}/logs/causes.log",
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=1,
    params:
        study=lambda _, output: Path(output.causes).parents[1],
        fingerprint=lambda _, input: [
            word for path in input.fingerprint for word in ("--fingerprint", path)
        ],
    message:
        "Judge what the experiments show"
    shell:
        "python scripts/causes.py --study-folder {params.study:q} {params.fingerprint:q}"
        " --why {input.why:q} 2>&1 | tee {log:q}"
