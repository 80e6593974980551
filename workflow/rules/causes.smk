# reads:  why/<target>/<replicate>.jsonl, fingerprint.json, tables/points and replicates
# writes: tables/experiments, as parquet and CSV; analysis/causes.json

CAUSES = f"{HERE}/analysis/causes.json"


rule causes:
    """Gather the experiments into a table, and judge what they show."""
    input:
        why=WHY,
        fingerprint=[f"{HERE}/fingerprint.json"] if WHY else [],
        points=expand(
            f"{HERE}/tables/{{table}}.parquet",
            allow_missing=True,
            table=["points", "replicates"],
        ),
        code=[*CODE, f"{SCRIPTS}/causes.py"],
    output:
        tables=multiext(f"{HERE}/tables/experiments", ".parquet", ".csv"),
        causes=CAUSES,
    log:
        f"{HERE}/logs/causes.log",
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=1,
    params:
        study=lambda _, output: Path(output.causes).parents[1],
        # A cause of a user's own that has changed judges anew.
        own=[file.read_text() for file in entries.files_outside("causes")],
        fingerprint=lambda _, input: [
            word for path in input.fingerprint for word in ("--fingerprint", path)
        ],
    message:
        "Judge what the experiments show"
    shell:
        'python "$STUDY_SCRIPTS"/causes.py --study-folder {params.study:q} {params.fingerprint:q}'
        " --why {input.why:q} 2>&1 | tee {log:q}"
