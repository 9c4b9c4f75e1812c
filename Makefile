# Everything a developer types. `make` alone lists it.
PYTHON ?= python3
BIN := .venv/bin
SHOWN := $(PYTHON) scripts/progress.py
PYTEST := $(BIN)/pytest -q -n 3 --durations 5
QUICK := tests/unit tests/contract tests/agent tests/cli tests/tui

# Where it is set, each dcron that a test starts compiles the program again, which takes as long as its work.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test slow short lint check format faults bench screenshots recording clean

help: ## list these words
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/pip:
	@echo "Creating the environment in .venv with $(PYTHON) ..."
	@$(SHOWN) $(PYTHON) -m venv .venv
	@$(SHOWN) $(BIN)/python -m pip install --upgrade pip
	@touch $@

.venv/dcron: .venv/pip pyproject.toml
	@echo "Installing dcron and the libraries it needs: up to a minute ..."
	@$(SHOWN) $(BIN)/pip install --progress-bar off --editable .
	@touch $@

.venv/development: .venv/dcron
	@echo "Installing the tools for development: up to a minute ..."
	@$(SHOWN) $(BIN)/pip install --progress-bar off --group dev
	@touch $@

setup: .venv/development ## make the environment in .venv

demo: .venv/dcron ## three agents on a throw-away crontab, watched in the screen
	$(BIN)/dcron demo

test: .venv/development ## the quick tests, on SQLite and on a Postgres of its own
	$(PYTEST) --dist worksteal -m "not slow" $(QUICK)

slow: .venv/development ## the other tests, and a longer search for counterexamples
	$(PYTEST) --dist worksteal -m "slow or hypothesis" --hypothesis-profile full

# Four at once: these tests wait for agents most of the time.
short: .venv/development ## of `make slow` what takes no half minute, with fewer examples: .ci/run
	DCRON_TEST_SEEDS=20 $(PYTEST) -n 4 --dist worksteal -m "(slow or hypothesis) and not long" --hypothesis-profile short

lint: .venv/development ## formatting, style, types, layers, import circles
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test slow ## all that must pass before a commit

format: .venv/development ## put the code into its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

faults: .venv/development ## every fault for half a minute, recovery, growth: docs/reliability.md (an hour)
	DCRON_TEST_HERD=1000 DCRON_TEST_ALL_VARIANTS=1 $(BIN)/pytest -q tests/faults
	$(BIN)/python -W ignore -m tests.faults --all --seconds 30 --recovery 5 --growth 10000

bench: .venv/development ## figures: runs a second, lateness, idle cost, start-up
	$(BIN)/python -W ignore -m benchmarks

screenshots: .venv/development ## pictures of the screen in screenshots/
	$(BIN)/python -W ignore -m scripts.screenshots

recording: .venv/development ## an animated picture of the program at work
	$(BIN)/python -W ignore -m scripts.recording

clean: ## remove the environment and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
