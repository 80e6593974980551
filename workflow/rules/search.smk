# reads:  plan.json, machine.json, all records; the workload's files; the code that measures
# writes: rounds/<round>.json, measure/<launch>/<replicate>.jsonl, rounds/<round>-<node>.done,
#         searched.json; after each round of a longer race the report
localrules:
    decide,
    answer,
    searched,


def rounds_needed(_):
    """The rounds of the race, as far as they are decided; the last one measures nothing."""
    for number in STUDY.rounds:
        checkpoints.decide.get(round=number)
        if STUDY.is_over(number):
            break
    return expand(f"{RESULTS}/rounds/{{round}}.json", round=range(number + 1))


def rounds_measured(wildcards):
    """What is there once each round of the race is measured and reported."""
    measured = [
        number
        for number in range(len(rounds_needed(wildcards)))
        if not STUDY.is_over(number)
    ]
    last = STUDY.measured(measured[-1]) if measured else []
    return [*STUDY.answered(measured), *last]


checkpoint decide:
    """Say what a round measures: a pure function of the plan, the machine and all records."""
    input:
        # Not ancient: Snakemake would look at no other reason where the plan is written anew. Where
        # nothing that counts has changed, the race is over as before.
        plan=f"{RESULTS}/plan.json",
        machine=f"{RESULTS}/machine.json",
        before=STUDY.round_before,
        # So that a report does not wait for the whole race; nothing is read from it.
        answered=ancient(STUDY.answered_before),
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
        # The records are not named here: which there are is known when the round is decided.
        f"{RESULTS}/rounds/{{round}}-{{node}}.done",
    log:
        f"{RESULTS}/logs/race/{{round}}-{{node}}.log",
    resources:
        quiet=100,
    params:
        job=STUDY.job("measure"),
    shell:
        f"{MEASURING} race {JOB} --round {{input.round:q}} --node {{wildcards.node}}"
        f" --nodes {len(STUDY.nodes)}"


rule answer:
    """The report as far as a round has come, and what the next one is about."""
    input:
        lambda wildcards: STUDY.measured(wildcards.round),
        following=STUDY.round_after,
    output:
        touch(f"{RESULTS}/rounds/{{round}}.answered"),
    log:
        f"{RESULTS}/logs/answer/{{round}}.log",
    # Before the next round: it is what a person waits for.
    priority: 1
    resources:
        quiet=1,
    shell:
        f"{STAGE} answer --study-folder {RESULTS} --round {RESULTS}/rounds/{{wildcards.round}}.json"
        f" --following {{input.following:q}} --report {REPORT} --log {{log:q}}"


rule searched:
    """The plan with the combinations that the race has made, and what became of the race."""
    input:
        rounds_measured,
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
