from snakemake.utils import min_version

min_version("9.0")


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/messages.smk"


rule all:
    """The study: its report, and the script that starts the recommended launch of each machine."""
    input:
        report=REPORT,
        launch=[] if IMPORTED else of_chosen(LAUNCH_SCRIPT),
        # By name: Snakemake makes no deleted file anew while what is made of it is there.
        kept=[] if IMPORTED else [f"{RESULTS}/plan.json", *of_chosen(KEPT)],


# On a cluster, local rules run where Snakemake runs: they take seconds, and a build needs a network.
if IMPORTED:

    localrules:
        all,
        import_tables,
        render_tables,

    include: "workflow/rules/import.smk"

else:

    localrules:
        all,
        plan,
        build,
        collect,
        analyse,
        confirmation,
        inflation,
        causes,
        feed_parts,
        render,

    include: "workflow/rules/plan.smk"
    include: "workflow/rules/probe.smk"
    include: "workflow/rules/build.smk"
    include: "workflow/rules/measure.smk"

    if RACED:

        localrules:
            decide,
            answer,
            searched,

        include: "workflow/rules/search.smk"
    include: "workflow/rules/profile.smk"
    include: "workflow/rules/collect.smk"
    include: "workflow/rules/analyse.smk"
    include: "workflow/rules/confirm.smk"
    include: "workflow/rules/inflation.smk"
    include: "workflow/rules/why.smk"
    include: "workflow/rules/causes.smk"
    include: "workflow/rules/feed.smk"
    include: "workflow/rules/compare.smk"
    include: "workflow/rules/render.smk"
