# reads:  plan.json, machine.json, all records; the workload's files; the code that measures
# writes: rounds/<round>.json, measure/<launch>/<replicate>.jsonl, rounds/<round>-<node>.done,
#         searched.json
localrules:
    decide,
    searched,


checkpoint decide:
    """Decide what a round measures: a pure function of plan, machine and all records."""
    input:
        # Not ancient: Snakemake would then ignore all other reasons if the plan is written anew. If
        # nothing that counts has changed, the race is over as before.
        plan=f"{RESULTS}/plan.json",
        machine=f"{RESULTS}/machine.json",
        before=STUDY.round_before,
    output:
        f"{RESULTS}/rounds/{{round}}.json",
    log:
        f"{RESULTS}/logs/decide/{{round}}.log",
    resources:
        quiet=1,
    params:
        job=STUDY.job("measure"),
    shell:
        f"{STAGE} decide --job {{params.job:q}} --study-folder {RESULTS} {FILES}"


rule race:
    """Measure a node's part of a round, alone on the machine (resource quiet)."""
    input:
        round=f"{RESULTS}/rounds/{{round}}.json",
        build=STUDY.any_builds,
        probed=[],
    output:
        # The records are not named here: they are known only when the round is decided.
        f"{RESULTS}/rounds/{{round}}-{{node}}.done",
    log:
        f"{RESULTS}/logs/race/{{round}}-{{node}}.log",
    resources:
        quiet=100,
    params:
        job=STUDY.job("measure"),
    shell:
        f"{MEASURING} race {JOB} --round {{input.round:q}} --node {{wildcards.node}}"
        f" --nodes {STUDY.plan.search.nodes}"


rule searched:
    """Write the plan with the combinations that the race has made, and the race's outcome."""
    input:
        last_measured,
        plan=f"{RESULTS}/plan.json",
        rounds=rounds_needed,
    output:
        STUDY.planned,
    log:
        f"{RESULTS}/logs/searched.log",
    resources:
        quiet=1,
    shell:
        f"{STAGE} searched --study-folder {RESULTS} --rounds {{input.rounds:q}} {FILES}"
