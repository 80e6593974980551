# reads:  the config, the saved tables that it names, the report's templates
# writes: tables/operators.*, analysis/tables.json and inflation.json, figures/*.svg,
#         reports/<study>.html


rule import_tables:
    """Read saved tables of torch's profiler, and compare their operators."""
    input:
        tables=list(STUDY.tables.values()),
        code=[*CODE, f"{SCRIPTS}/import_tables.py"],
    output:
        multiext(f"{RESULTS}/tables/operators", ".parquet", ".csv"),
        multiext(f"{RESULTS}/analysis/", "tables.json", "inflation.json"),
    log:
        f"{RESULTS}/logs/import_tables.log",
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=1,
    params:
        study=json.dumps(STUDY.to_dict()),
        folder=lambda _, output: Path(output[0]).parents[1],
    message:
        "Read the tables"
    shell:
        'python "$STUDY_SCRIPTS"/import_tables.py --study {params.study:q} --study-folder {params.folder:q}'
        " 2>&1 | tee {log:q}"


rule render_tables:
    """Figures and the report of saved tables."""
    input:
        tables=rules.import_tables.output,
        code=[*CODE, f"{SCRIPTS}/render_tables.py"],
        templates=TEMPLATES,
        decide=f"{ROOT}/config/decide.yaml",
    output:
        report=REPORT,
    log:
        f"{RESULTS}/logs/render_tables.log",
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=1,
    params:
        folder=lambda _, input: Path(input.tables[0]).parents[1],
    message:
        "Render {output.report}"
    shell:
        'python "$STUDY_SCRIPTS"/render_tables.py --study-folder {params.folder:q} --report {output.report:q}'
        " --decide {input.decide:q} 2>&1 | tee {log:q}"
