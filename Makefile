# Everything a checkout needs: `make setup` once (the others do it by themselves), then the target.

# Any Python from 3.11 on; empty: the first of python3.11, python3, python3.12, ... that is new enough
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.9
# Two workers, each with servers of its own; PYTEST_ARGS narrows a run: make test PYTEST_ARGS="-n0 tests/dev"
PYTEST_ARGS ?= -n 2 --dist loadfile
# Tests that take turns; the matrix is in each way in any case
DRIVEN := --ignore-glob "tests/workflow/test_matrix*" $(addprefix tests/,attacks cli client docs doctor engine examples execution patterns services survival workflow)
# Modules that register actions, for the worker of `make dev`: make dev IMPORT=orders
IMPORT ?=

# What soak-simulation simulates
SEEDS ?= 100000
FIRST ?= 1000

.DEFAULT_GOAL := help
.PHONY: help setup demo dev test soak soak-exit soak-simulation soak-survival check format bench lock wheel clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Make .venv with the locked requirements (quick when nothing changed)

demo: setup ## Run the permits example on embedded servers
	@$(BIN)/python examples/permits/demo.py

dev: setup ## Run embedded servers, with IMPORT=module a worker too; keeps its data in .almanac/
	@$(BIN)/almanac dev $(addprefix --import ,$(IMPORT))

test: setup ## Run the tests: about 6 minutes on two idle cores
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

soak: setup ## Run the tests that take turns, driven in two other ways: about 15 minutes
	@ALMANAC_TEST_DRIVING=continued $(BIN)/python -m pytest $(PYTEST_ARGS) $(DRIVEN)
	@ALMANAC_TEST_DRIVING=twice $(BIN)/python -m pytest $(PYTEST_ARGS) $(DRIVEN)

soak-exit: setup ## End more than a hundred processes that used Temporal: about 5 minutes
	@ALMANAC_TEST_EXITS=8 $(BIN)/python -m pytest $(PYTEST_ARGS) tests/test_exits.py

soak-simulation: setup ## Simulate 100,000 seeds; SEEDS=... and FIRST=... choose others: about an hour
	@$(BIN)/python -m adapter.testing.simulation --first $(FIRST) --count $(SEEDS) --jobs 2

soak-survival: setup ## Kill workers and servers in the long form: about 40 minutes
	@ALMANAC_TEST_SURVIVAL=long $(BIN)/python -m pytest $(PYTEST_ARGS) tests/survival

check: setup ## Lint, formatting, types and the import rule
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/deptry .

format: setup ## Put the code in form
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup $(VENV)/.bench ## Measure chains of steps beside other engines: some minutes
	@$(BIN)/python -m benchmarks chains

lock: setup ## Resolve requirements/*.txt again from pyproject.toml
	@$(BIN)/python -m pip install --quiet "uv==$(UV_VERSION)"
	@$(BIN)/python requirements/lock.py

wheel: setup ## Build the wheel into dist/
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

clean: ## Remove what was made; data in .almanac/ stays
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.ready: requirements/dev.txt pyproject.toml requirements/make_venv.sh
	@sh requirements/make_venv.sh "$(VENV)" $(PYTHON)

$(VENV)/.bench: requirements/bench.txt $(VENV)/.ready
	@echo "Installing what the benchmarks compare with"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt
	@touch $@
