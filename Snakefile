# Snakemake finds this file in the folder of the project, and the workflow catalog the other one.
include: "workflow/Snakefile"


rule study:
    """What Snakemake makes when it is started here: an included file has no default target."""
    input:
        rules.all.input,


localrules:
    study,
