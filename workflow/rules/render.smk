# reads:  plan.json, machine.json, the tables, analysis/*.json, profile/, the report's templates
# writes: figures/*.svg, launch/recommended.sh, reports/<study>.html; of several machines, figures
#         and scripts with their names


rule render:
    """Figures, the launch script and the report."""
    input:
        plan=PLANNED,
        machine=of_chosen(rules.probe.output),
        analysed=of_chosen(rules.analyse.output),
        judged=of_chosen(rules.judge.output),
        profiles=of_chosen(PROFILES),
        compared=[COMPARED] if MACHINES else [],
        code=[
            *CODE,
            str(PACKAGE / "profiling/operator_groups.yaml"),
        ],
        templates=TEMPLATES,
    output:
        report=REPORT,
        launch=of_chosen(LAUNCH_SCRIPT),
        throughput=report(
            of_chosen(f"{RESULTS}/figures/throughput{SUFFIX}.svg"),
            caption="../report/throughput.rst",
            category="Scaling",
        ),
        step_time=report(
            of_chosen(f"{RESULTS}/figures/step_time{SUFFIX}.svg"),
            caption="../report/step_time.rst",
            category="Scaling",
        ),
    log:
        f"{RESULTS}/logs/render.log",
    resources:
        quiet=1,
    params:
        words=RENDER,
    message:
        "Render {output.report}"
    shell:
        "python {params.words:q} 2>&1 | tee {log:q}"
