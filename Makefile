# make report   create the environment, run the quick study of this machine, write reports/quick.html
# make test     create the environment, run the tests
# make long     the tests that take minutes each: real experiments, a thousand simulated studies
# make faults   kills, full disks, scripts that misbehave: what is left, and that a rerun goes on
# make slurm    a whole study through profiles/slurm on a real SLURM of three nodes (needs root)
# make emulated placements on emulated machines with sockets, NUMA nodes and SMT (installs QEMU as root)
# make lint     style, types, and Snakemake's own check
# make bench    the benchmarks: every figure that the project promises, measured here

PYTHON ?= python3
ENV := .venv
BIN := $(ENV)/bin
CORES ?= all

.PHONY: report test long faults slurm emulated lint bench clean
.DELETE_ON_ERROR:

report: $(ENV)/study
	$(BIN)/snakemake --cores $(CORES) --configfile config/quick.yaml

test: $(ENV)/tests lint
	$(BIN)/python -m pytest

long: $(ENV)/tests
	$(BIN)/python -m pytest -m long

faults: $(ENV)/tests
	$(BIN)/python -m pytest -m faults tests/faults

slurm: $(ENV)/tests
	# The daemons end with the tests, however these end.
	$(BIN)/python -m scaling_study.measuring.keep --watch $$PPID -- $(BIN)/python -m pytest -m slurm tests/slurm

emulated: $(ENV)/tests
	bash tests/emulated/run.sh $(BIN)/python

lint: $(ENV)/tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint --configfile config/quick.yaml
	$(BIN)/mypy

bench: $(ENV)/tests
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(ENV) .snakemake results reports/*.html

# What a study needs; a changed lock file updates the environment.
$(ENV)/study: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.x")'
	$(PYTHON) -m venv $(ENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q workflow/lib scripts
	@touch $@

# What its tests need besides.
$(ENV)/tests: $(ENV)/study requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.lock
	@touch $@
