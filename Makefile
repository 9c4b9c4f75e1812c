# Everything a developer types. `make` alone lists it.
PYTHON ?= python3
# Another environment for another Python: make test VENV=.venv-3.13 PYTHON=python3.13
VENV ?= .venv
BIN := $(VENV)/bin
SHOWN := $(PYTHON) scripts/progress.py
PYTEST := $(BIN)/pytest -q -n 3 --durations 5
QUICK := tests/unit tests/contract tests/agent tests/cli tests/tui

# Where it is set, each dcron that a test starts compiles the program again, which takes as long as its work.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-pythons slow short install-test lint check format faults faults-install bench screenshots recording release deb clean

help: ## list these words
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/pip:
	@echo "Creating the environment in $(VENV) with $(PYTHON) ..."
	@$(SHOWN) sh scripts/environment.sh $(PYTHON) $(VENV)
	@$(SHOWN) $(BIN)/python -m pip install --upgrade pip
	@touch $@

$(VENV)/dcron: $(VENV)/pip pyproject.toml
	@echo "Installing dcron and the libraries it needs: up to a minute ..."
	@$(SHOWN) $(BIN)/pip install --progress-bar off --editable .
	@touch $@

$(VENV)/development: $(VENV)/dcron
	@echo "Installing the tools for development: up to a minute ..."
	@$(SHOWN) $(BIN)/pip install --progress-bar off --group dev
	@touch $@

setup: $(VENV)/development ## make the environment in .venv

demo: $(VENV)/dcron ## three agents on a throw-away crontab, watched in the screen
	$(BIN)/dcron demo

test: $(VENV)/development ## the quick tests, on SQLite and on a Postgres of its own
	$(PYTEST) --dist worksteal -m "not slow" $(QUICK)

test-pythons: ## the quick tests on the oldest and the newest Python of this machine, besides $(PYTHON); WHICH=oldest
	@set -e; for python in $$($(PYTHON) scripts/pythons.py $(WHICH)); do \
		$(MAKE) test PYTHON=$$python VENV=.venv-$$($$python -c 'import platform; print(platform.python_version())'); \
	done

slow: $(VENV)/development ## the other tests, and a longer search for counterexamples
	$(PYTEST) --dist worksteal -m "slow or hypothesis" --hypothesis-profile full

# Four at once: these tests wait for agents most of the time.
short: $(VENV)/development ## of `make slow` what takes seconds, on one database each, with fewer examples: .ci/run
	DCRON_TEST_SEEDS=20 $(PYTEST) -n 4 --dist worksteal -m "(slow or hypothesis) and not long" --hypothesis-profile short

install-test: $(VENV)/development ## install dcron as users do, in empty environments: tests/install
	$(BIN)/pytest -q -o timeout=1800 --durations 5 tests/install

lint: $(VENV)/development ## formatting, style, types, layers, import circles
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test slow ## all that must pass before a commit

format: $(VENV)/development ## put the code into its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

faults: $(VENV)/development ## every fault for half a minute, recovery, growth: docs/reliability.md (an hour)
	DCRON_TEST_HERD=1000 DCRON_TEST_ALL_VARIANTS=1 $(BIN)/pytest -q tests/faults
	$(BIN)/python -W ignore -m tests.faults --all --seconds 30 --recovery 5 --growth 10000

faults-install: ## the programs of the campaigns with a pooler and with Patroni, on Debian (as root)
	apt-get install -y pgbouncer patroni etcd-server haproxy postgresql

bench: $(VENV)/development ## figures: runs a second, lateness, idle cost, start-up
	$(BIN)/python -W ignore -m benchmarks

screenshots: $(VENV)/development ## pictures of the screen in screenshots/
	$(BIN)/python -W ignore -m scripts.screenshots

recording: $(VENV)/development ## an animated picture of the program at work
	$(BIN)/python -W ignore -m scripts.recording

release: $(VENV)/development ## the sdist, the wheel and their checksums in dist/, of a tag; TRIAL=1: of what is there
	$(BIN)/python scripts/release.py $(if $(TRIAL),--trial)

deb: .venv/development ## a Debian package with an environment of its own in dist/
	sh scripts/deb.sh

clean: ## remove the environment and caches
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
