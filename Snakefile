from snakemake.utils import min_version

min_version("9.0")


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"


rule all:
    """The study: its report, and the script that starts the recommended launch of each machine."""
    input:
        STUDY.targets,


# On a cluster, local rules run where Snakemake runs: they take seconds, and a build needs a network.
localrules:
    all,


if isinstance(STUDY, study_files.ImportedStudy):

    include: "workflow/rules/tables.smk"

else:

    include: "workflow/rules/prepare.smk"
    include: "workflow/rules/measure.smk"

    if STUDY.raced:

        include: "workflow/rules/search.smk"
    include: "workflow/rules/analyse.smk"
    include: "workflow/rules/explain.smk"
    include: "workflow/rules/render.smk"
