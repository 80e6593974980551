# reads:  plan.json, all records, profile/, why/, data_loader/, confirm/
# writes: tables/ as parquet and CSV; analysis/*.json; with named machines analysis/machines.json
localrules:
    analyse,
    judge,


ANALYSES = multiext(
    f"{HERE}/analysis/",
    *("scaling.json", "noise.json", "recommendation.json", "pareto.json"),
    *("single_changes.json", "failures.json", "readback.json", "provenance.json"),
)


rule analyse:
    """Make tables of the records, and analyse them: intervals, laws, recommendation, failures."""
    input:
        # By path: a reference to a rule makes Snakemake hash all records once for each of them.
        plan=STUDY.planned,
        records=STUDY.records,
        code=CODE,
    output:
        ANALYSES,
        f"{HERE}/tables/cohorts.json",
        tables("windows", "replicates", "between", "points"),
    log:
        f"{HERE}/logs/analyse.log",
    resources:
        quiet=1,
    shell:
        f"{STAGE} analyse --study-folder {FOLDER} --plan {{input.plan:q}} --log {{log:q}}"


rule judge:
    """Judge the confirmation, the profiles and the experiments."""
    input:
        plan=STUDY.planned,
        analysed=rules.analyse.output,
        rounds=STUDY.confirmed,
        profiles=STUDY.profiles,
        why=STUDY.explained,
        microbenchmarks=[f"{HERE}/microbenchmarks.json"] if STUDY.explained else [],
        data_loader=STUDY.loader,
        code=CODE,
    output:
        multiext(
            f"{HERE}/analysis/", "confirmation.json", "inflation.json", "causes.json"
        ),
        [f"{HERE}/analysis/data_loader.json"] if STUDY.loader else [],
        tables("operators", "experiments"),
    log:
        f"{HERE}/logs/judge.log",
    resources:
        quiet=1,
    params:
        # A change in a user's own cause makes this job run again.
        own=[file.read_text() for file in entries.files_outside("causes")],
    shell:
        f"{STAGE} judge --study-folder {FOLDER} --plan {{input.plan:q}} --log {{log:q}}"


if STUDY.machines:

    localrules:
        compare,

    rule compare:
        """Compare the machines; one that this run leaves out keeps its earlier results."""
        input:
            plan=f"{RESULTS}/plan.json",
            # If a record is missing, the analysis does not cover all that was asked for.
            records=STUDY.of_chosen(STUDY.records),
            machines=STUDY.of_chosen([*rules.probe.output, *rules.analyse.output]),
            code=CODE,
        output:
            STUDY.compared,
        log:
            f"{RESULTS}/logs/compare.log",
        resources:
            quiet=1,
        params:
            words=STUDY.compare_words,
            # By content, and not among the inputs: this run must not make them.
            others=STUDY.others_compared(),
        shell:
            "python {params.words:q} --log {log:q}"
