# Two commands for people: `make demo` and `make test`. Both set up what they need.

PYTHON ?= $(shell for each in python3 python3.13 python3.12 python3.11; do \
	"$$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$each" && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
ENOUGH := $(VENV)/.installed
STAMP  := $(VENV)/.ready
JOBS   ?= 2
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: help setup demo test lint bench bench-stores bench-core bench-surfaces experiments coverage-map docs clean

help:  ## list what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## *' '{ printf "  %-13s %s\n", $$1, $$2 }'

setup: $(STAMP)  ## make the environment in .venv; the others do it when needed

# What running needs, without what testing needs: a first look should not wait for it.
# An environment without pip is half made: some systems ship venv without ensurepip.
$(ENOUGH): pyproject.toml
	@test -n "$(PYTHON)" || { echo 'ctxmgr needs Python 3.11 or newer' >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); } \
		|| { rm -rf $(VENV); $(PYTHON) -m virtualenv --quiet $(VENV); } \
		|| { rm -rf $(VENV); echo 'cannot make .venv: install python3-venv (or virtualenv)' >&2; exit 1; }
	@$(PIP) install --editable .
	@touch $(ENOUGH)

$(STAMP): $(ENOUGH)
	@$(PIP) install --upgrade 'pip>=25.1'
	@$(PIP) install --group dev
	@touch $(STAMP)

demo: $(ENOUGH)  ## watch an agent at work; STORE=xtdb or STORE=URL for another store
	@$(BIN)/ctxmgr demo $(if $(filter xtdb,$(STORE)),--xtdb,$(if $(STORE),--store '$(STORE)'))

test: $(STAMP)  ## run every test; starts and stops its own servers
	@if command -v java >/dev/null && command -v mvn >/dev/null; then sh xtdb/start --fetch; fi
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

lint: $(STAMP)  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: bench-stores bench-core bench-surfaces  ## short benchmarks; misses are shown, not fatal

bench-stores bench-core bench-surfaces: bench-%: $(STAMP)
	@$(BIN)/ctxmgr bench $* --quick --report-only

experiments: $(ENOUGH)  ## run every experiment and write its report
	@for each in experiments/*/run.py; do \
		$(BIN)/python -m "$$(echo "$${each%.py}" | tr / .)" || exit 1; done

coverage-map: $(STAMP)  ## which requirement rows no test names
	@$(BIN)/python -m tests.coverage_map

docs: $(STAMP)  ## write the command reference, then run every block in README and docs
	@$(BIN)/python -m tests.reference
	@$(BIN)/python -m pytest -q tests/test_docs.py tests/surfaces/test_help.py

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
