# reads:  the recommended launch; the analysis
# writes: feed/<replicate>.jsonl; analysis/feed.json

FED = f"{HERE}/analysis/feed.json"


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
    conda:
        "../../envs/study.yaml"
    resources:
        **node_resources(),
        quiet=100,
    params:
        job=feed_of,
    shell:
        "exec python -P -m scaling_study.measuring.keep --watch $PPID --"
        ' python "$STUDY_SCRIPTS"/feed.py --job {params.job:q} --replicate {wildcards.replicate}'
        f" --builds {BUILDS} --plan {{input.plan:q}}"
        " --recommendation {input.recommendation:q} --probed {input.probed:q}"
        " --log {log:q} --output {output:q}"


rule feed_parts:
    """Divide a step into waiting for the loader, training, and what gets in its way."""
    input:
        runs=FEEDING,
        code=[*CODE, f"{SCRIPTS}/feed_parts.py"],
    output:
        FED,
    log:
        f"{HERE}/logs/feed-parts.log",
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=1,
    message:
        "Say what the data loader costs"
    shell:
        'python "$STUDY_SCRIPTS"/feed_parts.py --runs {input.runs:q} --output {output:q} 2>&1 | tee {log:q}'
