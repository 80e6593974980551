# reads:  the launch's entry of the plan; the analysis; the workload's files; the code that measures
# writes: confirm/rounds.jsonl, profile/<launch>/, why/<launch>/<replicate>.jsonl, microbenchmarks.json,
#         data_loader/<replicate>.jsonl
STUDIED = f"{JOB} --study-folder {FOLDER} --plan {STUDY.planned}"


rule confirm:
    """Run the recommended launch and the default one as a user would, alone on the machine."""
    input:
        plan=STUDY.planned,
        # A new analysis may choose another launch. If it has not, the job does nothing.
        recommendation=f"{HERE}/analysis/recommendation.json",
        build=STUDY.any_builds,
        probed=PROBED,
    output:
        f"{HERE}/confirm/rounds.jsonl",
    log:
        f"{HERE}/logs/confirm.log",
    # Before profiles and experiments: users wait for the confirmation first.
    priority: 1
    resources:
        **ALONE,
    params:
        job=STUDY.job("confirm"),
    shell:
        f"{MEASURING} confirm {STUDIED}"


rule profile:
    """Profile one launch at its lowest and highest counts, alone on the machine."""
    input:
        known=STUDY.known_before,
        build=STUDY.builds,
        probed=PROBED,
    output:
        directory(f"{HERE}/profile/{{launch}}"),
    log:
        f"{HERE}/logs/profile/{{launch}}.log",
    group:
        RUN.group("profiles")
    resources:
        **ALONE,
    params:
        job=STUDY.job("profile"),
    shell:
        f"{MEASURING} profile {STUDIED} --target {{wildcards.launch:q}}"


rule why:
    """Find out by experiment why one launch stops scaling, alone on the machine."""
    input:
        # The knee is known after the analysis; a new analysis of the same points moves it little.
        analyses=ancient(ANALYSES),
        known=STUDY.known_before,
        build=STUDY.builds,
        probed=PROBED,
    output:
        f"{HERE}/why/{{launch}}/{{replicate}}.jsonl",
    log:
        f"{HERE}/logs/why/{{launch}}-{{replicate}}.log",
    resources:
        **ALONE,
    params:
        job=STUDY.job("why"),
    shell:
        f"{MEASURING} why {STUDIED} --target {{wildcards.launch:q}}"
        " --replicate {wildcards.replicate}"


rule microbenchmarks:
    """Measure how much each part of the machine slows down with more members, once per machine."""
    input:
        # After the analysis, which users wait for first.
        analyses=ancient(ANALYSES),
        probed=PROBED,
    output:
        f"{HERE}/microbenchmarks.json",
    log:
        f"{HERE}/logs/microbenchmarks.log",
    resources:
        **ALONE,
    params:
        code=study_files.microbenchmarks_digest(),
    shell:
        f"{MEASURING} microbenchmarks --code {{params.code:q}}"
        f" --kept {study_files.KEPT_MICROBENCHMARKS} --probed {{input.probed:q}} {FILES}"


rule loader_experiment:
    """Measure the recommended launch with its data loader, without it, and with it alone."""
    input:
        plan=STUDY.planned,
        # A new analysis of the same points seldom chooses another launch.
        recommendation=ancient(f"{HERE}/analysis/recommendation.json"),
        build=STUDY.any_builds,
        probed=PROBED,
    output:
        f"{HERE}/data_loader/{{replicate}}.jsonl",
    log:
        f"{HERE}/logs/data_loader-{{replicate}}.log",
    resources:
        **ALONE,
    params:
        job=STUDY.job("loader_experiment"),
    shell:
        f"{MEASURING} loader_experiment {STUDIED} --replicate {{wildcards.replicate}}"
