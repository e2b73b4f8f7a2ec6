PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test lint docs bench fuzz soak kafka screenshots conformance

run: .venv/installed
	@$(BIN)/gateway run

test: .venv/tested
	$(BIN)/python -m pytest

lint: .venv/tested
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

docs: .venv/tested
	$(BIN)/python -m gateway.conformance.translation
	$(BIN)/python -m gateway.conformance.upstreams

bench: .venv/tested
	@$(BIN)/gateway bench

soak: .venv/tested
	$(BIN)/python -m pytest -m long

# What docs/conformance says of this gateway and of the real clients; some minutes.
conformance: .venv/tested
	$(BIN)/python -m gateway.conformance.publishing docs/conformance .venv/clients

# A real Kafka on loopback, in the foreground; needs Maven and Java 17.
kafka: .venv/tested
	@PYTHONPATH=.:tests $(BIN)/python -m system.kafka

# The pictures of the page in docs; needs Chromium.
screenshots: .venv/tested
	@PYTHONPATH=.:tests $(BIN)/python -m system.screenshots

fuzz: .venv/tested
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest tests/core tests/dialects tests/backends

# `make .venv` builds the environment alone.
.venv: .venv/installed

.venv/installed: setup.cfg pyproject.toml
	@echo "installing into .venv, once ..."
	@$(PYTHON) -m venv .venv
	@$(PIP) --editable .
	@touch $@

# Real clients stand apart from each other and from us: some of them come in several versions.
.venv/tested: .venv/installed tests/clients.txt
	@echo "installing what the tests need ..."
	@$(PIP) --editable '.[test]'
	@for client in $$(cat tests/clients.txt); do $(PIP) --upgrade --target .venv/clients/$$client $$client || exit 1; done
	@touch $@
