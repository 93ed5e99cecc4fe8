# Two commands for a newcomer: `make demo` and `make test`. Both build .venv from pyproject.toml and constraints.txt.
PYTHON ?= python3.11
BIN := .venv/bin

.PHONY: demo test lint study bench clean

demo: .venv/installed
	$(BIN)/certus demo --out certus-demo

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not study"

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

study: .venv/installed
	$(BIN)/python -m pytest -m study
	$(BIN)/python studies/objectives.py --out study/objectives

bench: .venv/installed
	$(BIN)/python benchmarks/throughput.py

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[test]"
	touch $@

clean:
	rm -rf .venv build certus-demo .pytest_cache .mypy_cache .ruff_cache study *.egg-info
