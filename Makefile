# Two commands for a newcomer: `make demo` and `make test`. Both build .venv from pyproject.toml and constraints.txt.
# Any Python from 3.11 to 3.13; the first found, unless told: make test PYTHON=/path/to/python3.12
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do $$p $(NEW_ENOUGH) 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
# Exactly what was tested; the newest of everything instead: make test CONSTRAINTS=/dev/null
CONSTRAINTS ?= constraints.txt

.PHONY: demo check test test-browser screenshots notebooks lint docs wheel release-check study bench clean

demo: .venv/installed
	$(BIN)/smoothcert demo --out smoothcert-demo

# While you work: lint, types and the tests that are quick. `make test` is what decides.
check: lint
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not study and not slow"

test: lint
	rm -rf notebooks/runs
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not study" --nbmake tests notebooks

# The report and the page of the service in headless Chromium; says so where there is none to be had.
test-browser: .venv/installed
	tests/browser/run

# The pictures in docs/img: certifies two networks of the zoo on CIFAR-10 first, minutes on a core.
screenshots: .venv/installed
	$(BIN)/python tests/browser/screenshots.py --out docs/img

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell *.md docs smoothcert tests studies benchmarks examples
	$(BIN)/mypy

# Run the notebooks again and keep what they show.
notebooks: .venv/installed
	rm -rf notebooks/runs
	$(BIN)/python -m pytest --nbmake --overwrite notebooks

# The pages of docs/ with an API reference, into site/; nothing in them is fetched from elsewhere.
docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The wheel and the sdist, into dist/.
wheel: .venv/installed
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	rm -rf build

# Before a release: the wheel in an environment of its own, the whole demo included, and the journeys.
release-check: .venv/installed
	$(BIN)/python -m pytest tests/release tests/journeys

study: .venv/installed
	$(BIN)/python -m pytest -m study
	$(BIN)/python studies/objectives.py --out study/objectives

bench: .venv/installed
	$(BIN)/python benchmarks/throughput.py

.venv/installed: pyproject.toml constraints.txt
	$(if $(shell $(PYTHON) $(NEW_ENOUGH) 2>/dev/null && echo yes),,$(error needs Python 3.11 to 3.13; got $(or $(PYTHON),none): say which by PYTHON=/path/to/python3.12))
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable ".[test]"
	touch $@

.venv/docs: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable ".[docs]"
	touch $@

clean:
	rm -rf .venv build dist site smoothcert-demo tests/browser/node_modules .pytest_cache .mypy_cache .ruff_cache study notebooks/runs notebooks/*.html *.egg-info
