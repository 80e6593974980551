# make report   create the environment, run the quick study of this machine, write reports/quick.html
# make test     create the environment, check the style, run the tests that every change must pass
# make nightly  long, faults, slurm and emulated
# make long     the longer tests: whole studies, real experiments, a thousand simulated studies
# make faults   tests with kills, full disks and scripts that misbehave, and of the rerun after each
# make slurm    a whole study through profiles/slurm on a real SLURM of three nodes (needs root)
# make emulated placements on emulated machines with sockets, NUMA nodes and SMT (installs QEMU as root)
# make steady   the tests that read clocks and counters, 20 times beside a program that takes a CPU: an hour at most
# make speeds   make test on a machine that is faster, slower, busy: training of a tenth, of ten times the work, a hog
# make lint     style and types
# make lines    lines of code by folder
# make bench    the cost of being measured, of the coordinator and of large studies, measured here

PYTHON ?= python3
ENV := .venv
BIN := $(ENV)/bin
CORES ?= all
# The tests that `make test` runs. A -m on the command line replaces pytest's own default.
TODAY := not long and not faults and not slurm and not emulated
TOGETHER := --numprocesses 3 --dist loadfile --no-loadscope-reorder

.PHONY: report test nightly long faults slurm emulated steady speeds lint lines bench clean
.DELETE_ON_ERROR:

report: $(ENV)/study
	$(BIN)/snakemake --cores $(CORES) --configfile config/quick.yaml

test: $(ENV)/tests lint
	$(BIN)/python -m pytest -m '$(TODAY) and not alone' $(TOGETHER)
	$(BIN)/python -m pytest -m '$(TODAY) and alone' --durations 50

nightly: long faults slurm emulated

long: $(ENV)/long
	$(BIN)/python -m pytest -m 'long and not alone' $(TOGETHER)
	$(BIN)/python -m pytest -m 'long and alone' --durations 50

faults: $(ENV)/tests
	$(BIN)/python -m pytest -m '' tests/faults

slurm: $(ENV)/tests
	# The daemons end with the tests, however these end.
	$(BIN)/python -m scaling_study.runner.supervisor --watch $$PPID -- $(BIN)/python -m pytest -m slurm tests/slurm

emulated: $(ENV)/tests
	bash tests/emulated/run.sh $(BIN)/python

steady: $(ENV)/tests
	$(BIN)/python benchmarks/injected_faults/outside.py --hog cpu -- timeout 3600 bash -c 'for run in {1..20}; do \
	  $(BIN)/python -m pytest --quiet -m "timing and $(TODAY)" || exit; done'

speeds: $(ENV)/tests
	TEST_WORK=0.1 $(MAKE) test
	TEST_WORK=10 $(MAKE) test
	$(BIN)/python benchmarks/injected_faults/outside.py --hog cpu -- $(MAKE) test

lint: $(ENV)/tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/mypy
	for config in tsmixerx import-example; do \
	  $(BIN)/snakemake --lint --configfile config/$$config.yaml 2>&1 | awk '/^Lints for/ {where = $$0} \
	    /^    \* / {linted = 1; if (!/conda environment or container/) {print where; print; other = 1}} \
	    END {exit other || !linted}' || exit; done

lines:
	$(PYTHON) scripts/count_lines.py

bench: $(ENV)/tests
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(ENV) .snakemake results reports/*.html

# The environment of a study; a changed lock file updates it.
$(ENV)/study: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.x")'
	$(PYTHON) -m venv $(ENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q workflow/lib scripts
	@touch $@

# The packages that the tests need besides.
$(ENV)/tests: $(ENV)/study requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.lock
	@touch $@

# The packages that only the longer tests try.
$(ENV)/long: $(ENV)/tests requirements-long.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-long.lock
	@touch $@
