# reads:  the launch's entry of the plan; the analysis; the workload's files; the code that measures
# writes: confirm/rounds.jsonl, profile/<launch>/, why/<launch>/<replicate>.jsonl, fingerprint.json,
#         feed/<replicate>.jsonl
rule confirm:
    """Run the recommended launch and the default one as a user would, alone on the machine."""
    input:
        plan=PLANNED,
        # Another analysis may choose another launch. The job does nothing where it has not.
        recommendation=f"{HERE}/analysis/recommendation.json",
        build=build_of if BUILT else [],
        probed=PROBED,
    output:
        f"{HERE}/confirm/rounds.jsonl",
    log:
        f"{HERE}/logs/confirm.log",
    # Before profiles and experiments: it is what a person waits for first.
    priority: 1
    resources:
        **node_resources(),
        quiet=100,
    params:
        job=confirm_of,
        study=lambda _, output: Path(output[0]).parents[1],
    shell:
        f"{MEASURING} confirm {JOB} --study-folder {{params.study:q}} --plan {PLANNED}"


rule profile:
    """Profile one launch at its lowest and highest counts, alone on the machine."""
    input:
        known=known_before,
        build=build_of,
        probed=PROBED,
    output:
        directory(f"{HERE}/profile/{{launch}}"),
    log:
        f"{HERE}/logs/profile/{{launch}}.log",
    group:
        group_of("profiles")
    resources:
        **node_resources(),
        quiet=100,
    params:
        job=profile_of,
        study=lambda _, output: Path(output[0]).parents[1],
    shell:
        f"{MEASURING} profile {JOB} --target {{wildcards.launch:q}}"
        f" --study-folder {{params.study:q}} --plan {PLANNED}"


rule why:
    """Find out by experiment why one launch stops scaling, alone on the machine."""
    input:
        # The knee is known after the analysis; another analysis of the same points moves it little.
        analyses=ancient(ANALYSES),
        known=known_before,
        build=build_of,
        probed=PROBED,
    output:
        f"{HERE}/why/{{launch}}/{{replicate}}.jsonl",
    log:
        f"{HERE}/logs/why/{{launch}}-{{replicate}}.log",
    resources:
        **node_resources(),
        quiet=100,
    params:
        job=why_of,
        study=lambda _, output: Path(output[0]).parents[2],
    shell:
        f"{MEASURING} why {JOB} --target {{wildcards.launch:q}} --replicate {{wildcards.replicate}}"
        f" --study-folder {{params.study:q}} --plan {PLANNED}"


rule fingerprint:
    """How much each part of the machine slows down with more members: once per machine."""
    input:
        # It comes after what a person waits for first.
        analyses=ancient(ANALYSES),
        probed=PROBED,
    output:
        f"{HERE}/fingerprint.json",
    log:
        f"{HERE}/logs/fingerprint.log",
    resources:
        **node_resources(),
        quiet=100,
    params:
        code=FINGERPRINT_FILES,
    shell:
        f"{MEASURING} fingerprint --code {{params.code:q}} --kept {FINGERPRINTS}"
        " --probed {input.probed:q} --log {log:q} --output {output:q}"


rule feed:
    """Measure the recommended launch with its data loader, without it, and with it alone."""
    input:
        plan=PLANNED,
        # Another analysis of the same points seldom chooses another launch.
        recommendation=ancient(f"{HERE}/analysis/recommendation.json"),
        build=build_of if BUILT else [],
        probed=PROBED,
    output:
        f"{HERE}/feed/{{replicate}}.jsonl",
    log:
        f"{HERE}/logs/feed-{{replicate}}.log",
    resources:
        **node_resources(),
        quiet=100,
    params:
        job=feed_of,
        study=lambda _, output: Path(output[0]).parents[1],
    shell:
        f"{MEASURING} feed {JOB} --replicate {{wildcards.replicate}}"
        f" --study-folder {{params.study:q}} --plan {PLANNED}"
