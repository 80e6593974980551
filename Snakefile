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
localrules:
    all,


if IMPORTED:

    localrules:
        tables,

    include: "workflow/rules/tables.smk"

else:

    localrules:
        plan,
        build,
        analyse,
        judge,
        render,

    include: "workflow/rules/prepare.smk"
    include: "workflow/rules/measure.smk"

    if RACED:

        localrules:
            decide,
            answer,
            searched,

        include: "workflow/rules/search.smk"
    include: "workflow/rules/analyse.smk"
    include: "workflow/rules/explain.smk"
    include: "workflow/rules/render.smk"
