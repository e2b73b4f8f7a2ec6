PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test lint bench fuzz soak

run: .venv/installed
	$(BIN)/gateway run

test: .venv/tested
	$(BIN)/python -m pytest

lint: .venv/tested
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

bench: .venv/tested
	$(BIN)/gateway bench

soak: .venv/tested
	GATEWAY_LONG=1 $(BIN)/python -m pytest -m long

fuzz: .venv/tested
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest tests/core tests/dialects tests/backends

# `make .venv` builds the environment alone.
.venv: .venv/installed

.venv/installed: setup.cfg pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/tested: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@
