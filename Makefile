# make niah   an executed notebook with the model inside, from a fresh clone
# make test   lint, types, all tests, all notebooks

PYTHON ?= python3
LENGTH ?= 32768
BIN := .venv/bin
# Notebooks find kernels and commands in the virtual environment without its being activated.
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help niah results book test test-vllm lint format benchmark clean

help:
	@sed -n 's/^# //p' Makefile | head -n 2
	@echo "make book   the site, in _build/html; runs every notebook once"
	@echo "make results   the book's own results, from nothing; takes long, and resumes"
	@echo "make lint   ruff, mypy, notebooks without outputs; make format mends what it can"
	@echo "make test-vllm   the same texts from vLLM's CPU build, in an environment of its own"
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

.venv/test.stamp: .venv/book.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[hf,words,notebook,book,dev]'
	touch $@

niah: .venv/run.stamp
	mkdir -p runs
	papermill notebooks/niah.ipynb runs/niah-$(LENGTH).ipynb -p length $(LENGTH)
	@echo "The executed notebook: runs/niah-$(LENGTH).ipynb"

# Every number of the page of results. What was asked stays in runs/results.
results: .venv/run.stamp
	python -m book.tables params/results.yaml book/results

# The notebooks are executed where something changed; what Sphinx warns of is an error.
book: .venv/book.stamp
	python -m book.execute
	jupyter-book build . -W -n --keep-going $(if $(OUTPUT),--path-output $(OUTPUT))
	@echo "The site: $(or $(OUTPUT),.)/_build/html/index.html"

test: .venv/test.stamp lint
	pytest --nbmake

# vLLM pins packages of its own, so it gets an environment of its own.
VLLM ?= .venv-vllm
test-vllm:
	$(PYTHON) tests/install_vllm.py $(VLLM)
	OMP_NUM_THREADS=1 $(VLLM)/bin/python -m pytest -s -p no:cacheprovider tests/test_vllm_engine.py

lint: .venv/test.stamp
	ruff check .
	ruff format --check rulerlib tests training benchmarks notebooks book
	mypy
	nbstripout --verify --keep-id --extra-keys "$$(cat .nbstripout)" notebooks/*.ipynb book/*.ipynb

format: .venv/test.stamp
	ruff check --fix .
	ruff format rulerlib tests training benchmarks notebooks book
	nbstripout --keep-id --extra-keys "$$(cat .nbstripout)" notebooks/*.ipynb book/*.ipynb

benchmark: .venv/test.stamp
	python benchmarks/generation.py

clean:
	rm -rf .venv .venv-vllm runs _build
