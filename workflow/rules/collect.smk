# reads:  plan.json, all records
# writes: tables/windows and tables/points, as parquet and CSV


rule collect:
    """Gather the records of all launches into tables."""
    input:
        plan=f"{RESULTS}/plan.json",
        records=RECORDS,
        code=[*CODE, "scripts/collect.py"],
    output:
        multiext(f"{RESULTS}/tables/", "windows.parquet", "points.parquet", "windows.csv", "points.csv"),
    log:
        f"{RESULTS}/logs/collect.log",
    message:
        "Collect records into tables"
    shell:
        "{PYTHON:q} scripts/collect.py --study-folder {RESULTS:q} 2> {log:q}"
