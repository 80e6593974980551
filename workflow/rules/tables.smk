# reads:  the config, the saved tables that it names, the report's templates
# writes: tables/operators.*, analysis/tables.json and inflation.json, figures/*.svg,
#         reports/<study>.html
localrules:
    tables,


rule tables:
    """Read saved tables of torch's profiler, compare their operators, and report on them."""
    input:
        tables=list(STUDY.study.tables.values()),
        code=CODE,
        templates=TEMPLATES,
    output:
        multiext(f"{RESULTS}/tables/operators", ".parquet", ".csv"),
        multiext(f"{RESULTS}/analysis/", "tables.json", "inflation.json"),
        report=REPORT,
    log:
        f"{RESULTS}/logs/tables.log",
    resources:
        quiet=1,
    params:
        study=json.dumps(STUDY.study.to_dict()),
    shell:
        f"{STAGE} tables --study {{params.study:q}} --study-folder {RESULTS}"
        " --report {output.report:q} --log {log:q}"
