from snakemake.utils import min_version

min_version("9.0")


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"


if IMPORTED:

    include: "workflow/rules/import.smk"

else:

    include: "workflow/rules/plan.smk"
    include: "workflow/rules/probe.smk"
    include: "workflow/rules/build.smk"
    include: "workflow/rules/measure.smk"
    include: "workflow/rules/profile.smk"
    include: "workflow/rules/collect.smk"
    include: "workflow/rules/analyse.smk"
    include: "workflow/rules/inflation.smk"
    include: "workflow/rules/why.smk"
    include: "workflow/rules/causes.smk"
    include: "workflow/rules/render.smk"


rule all:
    """The study: its report, and the script that starts the recommended launch."""
    default_target: True
    input:
        report=REPORT,
        launch=[] if IMPORTED else f"{RESULTS}/launch/recommended.sh",


onstart:
    announce()


onsuccess:
    conclude()


onerror:
    explain()
