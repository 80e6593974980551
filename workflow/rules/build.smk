# reads:  envs/<build>.txt
# writes: results/.builds/<build>.txt, and the environment beside it


rule build:
    """Make the environment of a build from its requirements file."""
    input:
        "envs/{build}.txt",
    output:
        f"{BUILDS}/{{build}}.txt",
    log:
        f"{BUILDS}/{{build}}.log",
    conda:
        "../../envs/study.yaml"
    resources:
        quiet=1,
    params:
        folder=lambda _, output: Path(output[0]).with_suffix(""),
        cache=f"{BUILDS}/.pip",
    message:
        "Build the environment {wildcards.build}"
    shell:
        "( python -P -m venv --clear {params.folder:q}"
        " && {params.folder:q}/bin/python -P -m pip install --cache-dir {params.cache:q}"
        " --requirement {input:q}"
        " && {params.folder:q}/bin/python -P -m pip freeze > {output:q} ) > {log:q} 2>&1"
