# Snakemake finds this file in the folder of the project, and the workflow catalog the other one.
include: "workflow/Snakefile"
