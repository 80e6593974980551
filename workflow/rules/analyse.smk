# reads:  plan.json, all records, profile/, why/, feed/, confirm/
# writes: tables/ as parquet and CSV; analysis/*.json
def tables(*names):
    return expand(
        f"{HERE}/tables/{{table}}.{{kind}}",
        allow_missing=True,
        table=names,
        kind=["parquet", "csv"],
    )


ANALYSES = multiext(
    f"{HERE}/analysis/",
    "scaling.json",
    "noise.json",
    "recommendation.json",
    "pareto.json",
    "single_changes.json",
    "failures.json",
    "attestation.json",
    "provenance.json",
)
JUDGED = multiext(
    f"{HERE}/analysis/",
    *("confirmation.json", "inflation.json", "causes.json"),
    *(["feed.json"] if FEEDING else []),
)


rule analyse:
    """Records as tables; intervals, laws, the recommendation, and what went wrong."""
    input:
        # By path: a reference to a rule makes Snakemake hash all records once for each of them.
        plan=PLANNED,
        records=RECORDS,
        code=CODE,
    output:
        ANALYSES,
        f"{HERE}/tables/cohorts.json",
        tables("windows", "replicates", "between", "points"),
    log:
        f"{HERE}/logs/analyse.log",
    resources:
        quiet=1,
    params:
        study=lambda _, output: Path(output[0]).parents[1],
    message:
        "Analyse the records"
    shell:
        f"{STAGE} analyse --study-folder {{params.study:q}} --plan {{input.plan:q}} 2>&1 | tee {{log:q}}"


rule judge:
    """What the confirmation, the profiles and the experiments show."""
    input:
        plan=PLANNED,
        analysed=rules.analyse.output,
        rounds=CONFIRMED,
        profiles=PROFILES,
        why=WHY,
        fingerprint=[f"{HERE}/fingerprint.json"] if WHY else [],
        feed=FEEDING,
        code=[*CODE, str(PACKAGE / "profiling/operator_groups.yaml")],
    output:
        JUDGED,
        tables("operators", "experiments"),
    log:
        f"{HERE}/logs/judge.log",
    resources:
        quiet=1,
    params:
        study=lambda _, output: Path(output[0]).parents[1],
        # A cause of a user's own that has changed judges anew.
        own=[file.read_text() for file in entries.files_outside("causes")],
    message:
        "Judge what was confirmed, profiled and tried"
    shell:
        f"{STAGE} judge --study-folder {{params.study:q}} --plan {{input.plan:q}} 2>&1 | tee {{log:q}}"


if MACHINES:

    localrules:
        compare,

    rule compare:
        """Set the machines side by side; one that this run leaves out is taken as it is."""
        input:
            plan=f"{RESULTS}/plan.json",
            # Where one is missing, what was analysed is not all that is asked for.
            records=of_chosen(RECORDS),
            machines=of_chosen([*rules.probe.output, *rules.analyse.output]),
            code=CODE,
        output:
            COMPARED,
        log:
            f"{RESULTS}/logs/compare.log",
        resources:
            quiet=1,
        params:
            words=COMPARE,
            # By content, and not among the inputs: this run must not make them.
            others=[
                measure.digest(Path(path).read_text())
                for path in expand(
                    PROVENANCE, machine=sorted(set(MACHINES) - set(CHOSEN))
                )
                if Path(path).exists()
            ],
        message:
            "Compare {machines}".format(machines=", ".join(MACHINES))
        shell:
            "python {params.words:q} 2>&1 | tee {log:q}"
