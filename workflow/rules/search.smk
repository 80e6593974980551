# reads:  plan.json, machine.json, all records; the workload's files; the code that measures
# writes: rounds/<round>.json, measure/<launch>/<replicate>.jsonl, rounds/<round>-<node>.done,
#         searched.json; after each round the report

ROUNDS = range(rounds.most(60 * PLAN.search.budget_minutes))
NODES = range(PLAN.search.nodes)


rule decide:
    """Say what a round measures: a pure function of the plan, the machine and all records."""
    input:
        # Not ancient: Snakemake would look at no other reason where the plan is written anew. Where
        # nothing that counts has changed, the race is over as before.
        plan=f"{RESULTS}/plan.json",
        machine=f"{RESULTS}/machine.json",
        before=round_before,
    output:
        f"{RESULTS}/rounds/{{round}}.json",
    log:
        f"{RESULTS}/logs/decide/{{round}}.log",
    resources:
        quiet=1,
    params:
        job=race_of,
    message:
        "Decide what round {wildcards.round} measures"
    shell:
        f"{STAGE} decide --job {{params.job:q}} --study-folder {RESULTS}"
        " --output {output:q} 2>&1 | tee {log:q}"


rule race:
    """Measure a node's part of a round, alone on the machine (resource quiet)."""
    input:
        round=f"{RESULTS}/rounds/{{round}}.json",
        build=build_of if BUILT else [],
    output:
        # The records are not named here: which there are is known when the round is decided.
        f"{RESULTS}/rounds/{{round}}-{{node}}.done",
    log:
        f"{RESULTS}/logs/race/{{round}}-{{node}}.log",
    resources:
        quiet=100,
    params:
        job=race_of,
    message:
        "Measure round {wildcards.round}, node {wildcards.node}"
        if len(NODES) > 1
        else "Measure round {wildcards.round}"
    shell:
        f"{MEASURING} race --job {{params.job:q}} --round {{input.round:q}}"
        f" --node {{wildcards.node}} --nodes {len(NODES)}"
        f" --builds {BUILDS} --log {{log:q}} --output {{output:q}}"


rule answer:
    """The report as far as a round has come, and what the next one is about."""
    input:
        lambda wildcards: measured_in(wildcards.round),
        following=round_after,
    output:
        touch(f"{RESULTS}/rounds/{{round}}.answered"),
    log:
        f"{RESULTS}/logs/answer/{{round}}.log",
    # Before the next round: it is what a person waits for.
    priority: 1
    resources:
        quiet=1,
    message:
        "Report what is known after round {wildcards.round}"
    shell:
        f"{STAGE} answer --study-folder {RESULTS} --round {RESULTS}/rounds/{{wildcards.round}}.json"
        f" --following {{input.following:q}} --report {REPORT} 2>&1 | tee {{log:q}}"


rule searched:
    """The plan with the combinations that the race has made, and what became of the race."""
    input:
        plan=f"{RESULTS}/plan.json",
        rounds=expand(f"{RESULTS}/rounds/{{round}}.json", round=ROUNDS),
        done=measured_in(ROUNDS[-1]),
        answered=expand(f"{RESULTS}/rounds/{{round}}.answered", round=ROUNDS),
    output:
        PLANNED,
    log:
        f"{RESULTS}/logs/searched.log",
    resources:
        quiet=1,
    message:
        "The race is over"
    shell:
        f"{STAGE} searched --study-folder {RESULTS} --rounds {{input.rounds:q}}"
        " --output {output:q} 2>&1 | tee {log:q}"
