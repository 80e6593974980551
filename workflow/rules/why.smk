# reads:  the launch's entry of the plan; the analysis
# writes: why/<launch>/<replicate>.jsonl; fingerprint.json


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
    conda:
        "../../envs/study.yaml"
    resources:
        **node_resources(),
        quiet=100,
    params:
        job=why_of,
        study=lambda _, output: Path(output[0]).parents[2],
    shell:
        "exec python -P -m scaling_study.measuring.keep --watch $PPID --"
        ' python "$STUDY_SCRIPTS"/why.py --job {params.job:q} --target {wildcards.launch:q}'
        f" --replicate {{wildcards.replicate}} --builds {BUILDS} --plan {PLANNED}"
        " --probed {input.probed:q}"
        " --study-folder {params.study:q} --log {log:q} --output {output:q}"


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
    conda:
        "../../envs/study.yaml"
    resources:
        **node_resources(),
        quiet=100,
    params:
        code=FINGERPRINT_FILES,
    shell:
        "exec python -P -m scaling_study.measuring.keep --watch $PPID --"
        f' python "$STUDY_SCRIPTS"/fingerprint.py --code {{params.code:q}} --kept {FINGERPRINTS}'
        " --probed {input.probed:q}"
        " --log {log:q} --output {output:q}"
