# reads:  plan.json, machine.json, the tables, analysis/*.json, profile/, the report's templates
# writes: figures/*.svg, launch/recommended.sh, reports/<study>.html; of several machines, figures
#         and scripts with their names
localrules:
    render,


rule render:
    """Render the figures, the launch script and the report."""
    input:
        plan=STUDY.planned,
        machine=STUDY.of_chosen(rules.probe.output),
        analysed=STUDY.of_chosen(rules.analyse.output),
        judged=STUDY.of_chosen(rules.judge.output),
        profiles=STUDY.of_chosen(STUDY.profiles),
        compared=[STUDY.compared] if STUDY.machines else [],
        code=CODE,
        templates=TEMPLATES,
    output:
        report=REPORT,
        launch=STUDY.of_chosen(STUDY.launch_script),
        throughput=report(
            STUDY.figures("throughput"),
            caption="../report/throughput.rst",
            category="Scaling",
        ),
        step_time=report(
            STUDY.figures("step_time"),
            caption="../report/step_time.rst",
            category="Scaling",
        ),
    log:
        f"{RESULTS}/logs/render.log",
    resources:
        quiet=1,
    params:
        words=STUDY.render_words,
    shell:
        "python {params.words:q} --log {log:q}"
