# reads:  plan.json, machine.json, the tables, analysis/*.json, profile/, the report's templates
# writes: figures/*.svg, launch/recommended.sh, reports/<study>.html


rule render:
    """Figures, the launch script and the report."""
    input:
        plan=f"{RESULTS}/plan.json",
        machine=rules.probe.output,
        tables=rules.collect.output,
        analyses=ANALYSES,
        inflation=INFLATION,
        causes=CAUSES,
        profiles=PROFILES,
        code=[
            *CODE,
            str(PACKAGE / "profiling/operator_groups.yaml"),
            "scripts/render.py",
        ],
        templates=TEMPLATES,
    output:
        report=REPORT,
        launch=f"{RESULTS}/launch/recommended.sh",
        throughput=report(
            f"{RESULTS}/figures/throughput.svg",
            caption="../report/throughput.rst",
            category="Scaling",
        ),
        step_time=report(
            f"{RESULTS}/figures/step_time.svg",
            caption="../report/step_time.rst",
            category="Scaling",
        ),
    log:
        f"{RESULTS}/logs/render.log",
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=1,
    params:
        study=lambda _, input: Path(input.plan).parent,
    message:
        "Render {REPORT}"
    shell:
        "python scripts/render.py --study-folder {params.study:q} --report {output.report:q} 2>&1 | tee {log:q}"
