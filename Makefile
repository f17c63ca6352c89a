# make install | demo | test | lint | docs | accuracy
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: install demo test lint docs accuracy clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@

# The thesis in two steps: the numbers agree, and the graph alone makes the difference.
demo: install
	$(BIN)/edgewise verify
	rm -rf runs/demo
	$(BIN)/edgewise compare digits model.graph "empty()" "grid(4, 4)" "window(1)" "complete()" --out runs/demo

test: install lint
	$(BIN)/pytest --numprocesses $(WORKERS)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Rewrites what is generated: the README's table of architectures.
docs: install
	$(BIN)/python docs/generate.py

# Trains to the published figures, 10 seeds each: about half an hour on 2 cores.
accuracy: install
	$(BIN)/pytest -m accuracy

clean:
	rm -rf $(VENV) runs build dist .pytest_cache .mypy_cache .ruff_cache
