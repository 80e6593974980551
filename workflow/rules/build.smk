# reads:  envs/<build>.txt
# writes: results/builds/<build>.txt, and the environment beside it


rule build:
    """Make the environment of a build from its requirements file."""
    input:
        "envs/{build}.txt",
    output:
        f"{BUILDS}/{{build}}.txt",
    params:
        folder=f"{BUILDS}/{{build}}",
    log:
        f"{BUILDS}/{{build}}.log",
    message:
        "Build the environment {wildcards.build}"
    shell:
        "( {PYTHON:q} -m venv --clear {params.folder:q}"
        " && {params.folder:q}/bin/python -m pip install --requirement {input:q}"
        " && {params.folder:q}/bin/python -m pip freeze > {output:q} ) > {log:q} 2>&1"
