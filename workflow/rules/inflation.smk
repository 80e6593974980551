# reads:  profile/<launch>/
# writes: tables/operators, as parquet and CSV; analysis/inflation.json

INFLATION = f"{HERE}/analysis/inflation.json"


rule inflation:
    """Gather the profiled operators into a table, and compare few processes with many."""
    input:
        profiles=PROFILES,
        code=[
            *CODE,
            str(PACKAGE / "profiling/operator_groups.yaml"),
            f"{SCRIPTS}/inflation.py",
        ],
    output:
        tables=multiext(f"{HERE}/tables/operators", ".parquet", ".csv"),
        inflation=INFLATION,
    log:
        f"{HERE}/logs/inflation.log",
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=1,
    params:
        study=lambda _, output: Path(output.inflation).parents[1],
    message:
        "Compare the profiles of few processes and many"
    shell:
        'python "$STUDY_SCRIPTS"/inflation.py --study-folder {params.study:q} --profiles {input.profiles:q}'
        " 2>&1 | tee {log:q}"
