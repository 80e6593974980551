# reads:  the config, the saved tables that it names, the report's templates
# writes: tables/operators.*, analysis/tables.json and inflation.json, figures/*.svg,
#         reports/<study>.html
rule tables:
    """Read saved tables of torch's profiler, compare their operators, and report on them."""
    input:
        tables=list(STUDY.tables.values()),
        code=CODE,
        templates=TEMPLATES,
        decide=f"{ROOT}/config/decide.yaml",
    output:
        multiext(f"{RESULTS}/tables/operators", ".parquet", ".csv"),
        multiext(f"{RESULTS}/analysis/", "tables.json", "inflation.json"),
        report=REPORT,
    log:
        f"{RESULTS}/logs/tables.log",
    resources:
        quiet=1,
    params:
        study=json.dumps(STUDY.to_dict()),
        folder=RESULTS,
    message:
        "Read the tables"
    shell:
        f"{STAGE} tables --study {{params.study:q}} --study-folder {{params.folder:q}}"
        " --report {output.report:q} --decide {input.decide:q} 2>&1 | tee {log:q}"
