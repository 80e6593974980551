# reads:  plan.json, machine.json, the tables and analysis/*.json of each machine
# writes: analysis/machines.json

if MACHINES:

    localrules:
        compare,

    rule compare:
        """Set the machines side by side; one that this run leaves out is taken as it is."""
        input:
            plan=f"{RESULTS}/plan.json",
            # Where one is missing, what was analysed is not all that is asked for.
            records=of_chosen(RECORDS),
            machines=of_chosen([*rules.probe.output, *rules.collect.output, *ANALYSES]),
            code=[*CODE, f"{SCRIPTS}/compare.py"],
        output:
            COMPARED,
        log:
            f"{RESULTS}/logs/compare.log",
        conda:
            "../../envs/study.yaml"
        resources:
            quiet=1,
        params:
            words=COMPARE,
            # By content, and not among the inputs: this run must not make them.
            others=[
                measure.digest(Path(path).read_text())
                for path in expand(
                    PROVENANCE, machine=sorted(set(MACHINES) - set(CHOSEN))
                )
                if Path(path).exists()
            ],
        message:
            "Compare {machines}".format(machines=", ".join(MACHINES))
        shell:
            "python {params.words:q} 2>&1 | tee {log:q}"
