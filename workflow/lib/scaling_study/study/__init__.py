"""A study as a whole: its command, its files, its run in Snakemake, its progress and its stages."""
