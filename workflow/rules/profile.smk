# reads:  the launch's entry of the plan; for the recommended launch, the analysis
# writes: profile/<launch>/: profile.json, operators, traces, stacks


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
    conda:
        "../../envs/study.yaml"
    resources:
        **node_resources(),
        quiet=100,
    params:
        job=profile_of,
        study=lambda _, output: Path(output[0]).parents[1],
    shell:
        "exec python -P -m scaling_study.measuring.keep --watch $PPID --"
        ' python "$STUDY_SCRIPTS"/profile_launch.py --job {params.job:q} --target {wildcards.launch:q}'
        f" --builds {BUILDS} --plan {PLANNED} --probed {{input.probed:q}}"
        " --study-folder {params.study:q} --log {log:q} --output {output:q}"
