# reads:  the launch's entry of the plan; for the recommended launch, the analysis
# writes: profile/<launch>/: profile.json, operators, traces, stacks


rule profile:
    """Profile one launch at its lowest and highest counts, alone on the machine."""
    input:
        known=known_before,
        build=build_of,
    output:
        directory(f"{RESULTS}/profile/{{launch}}"),
    log:
        f"{RESULTS}/logs/profile/{{launch}}.log",
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=100,
    params:
        job=profile_of,
        study=lambda _, output: Path(output[0]).parents[1],
    shell:
        "python -m scaling_study.measuring.keep --watch $PPID --"
        " python scripts/profile_launch.py --job {params.job:q} --target {wildcards.launch:q}"
        f" --builds {BUILDS}"
        " --study-folder {params.study:q} --log {log:q} --output {output:q}"
