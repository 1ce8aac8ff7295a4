# `make demo` and `make test` are the two main targets. Both install what they need.

PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11; do \
	"$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$candidate" && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
ENOUGH := $(VENV)/.installed
STAMP  := $(VENV)/.ready
JOBS   ?= 2
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
UV_PIP := uv pip install --quiet --python $(BIN)/python

# The tests start hundreds of Python processes. Without bytecode each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-long test-clients lint bench bench-stores bench-core bench-surfaces bench-experience experiments coverage-map mutants docs clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## *' '{ printf "  %-13s %s\n", $$1, $$2 }'

setup: $(STAMP)  ## create the environment in .venv; other targets do this when needed

# Only the runtime dependencies, so that `make demo` need not wait for those of the tests.
# Where uv is installed and works, this takes 3 s, and otherwise venv and pip take some 25 s.
# An environment without pip is incomplete: some systems ship venv without ensurepip.
$(ENOUGH): pyproject.toml
	@test -n "$(PYTHON)" || { echo 'ctxmgr needs Python 3.11 or newer' >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 \
		|| uv venv --quiet --clear --seed --python "$$(command -v $(PYTHON))" $(VENV) 2>/dev/null \
		|| { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); } \
		|| { rm -rf $(VENV); $(PYTHON) -m virtualenv --quiet $(VENV); } \
		|| { rm -rf $(VENV); echo 'cannot create .venv: install python3-venv (or virtualenv)' >&2; exit 1; }
	@$(UV_PIP) --editable . 2>/dev/null || $(PIP) install --no-compile --editable .
	@touch $(ENOUGH)

$(VENV)/.xtdb: $(ENOUGH)
	@$(PIP) install --editable '.[xtdb]'
	@touch $(VENV)/.xtdb

$(STAMP): $(ENOUGH)
	@$(UV_PIP) --group dev 2>/dev/null || { $(PIP) install --upgrade 'pip>=25.1' && $(PIP) install --group dev; }
	@touch $(STAMP)

demo: $(ENOUGH) $(if $(findstring xtdb,$(STORE)),$(VENV)/.xtdb)  ## watch an agent fix a small project; STORE=xtdb or STORE=URL selects a store
	@$(BIN)/ctxmgr demo $(if $(filter xtdb,$(STORE)),--xtdb,$(if $(STORE),--store '$(STORE)'))

test: $(STAMP)  ## run every test; starts and stops its own servers
	@if command -v java >/dev/null && command -v mvn >/dev/null; then \
		sh xtdb/start $$(command -v jar >/dev/null && echo --archive || echo --fetch); fi
	@$(BIN)/python -m tests.run -n $(JOBS) --dist loadfile --no-loadscope-reorder

test-long:  ## run every test with some seventy times as many generated cases: hours
	@CTXMGR_TEST_LONG=1 $(MAKE) test

test-clients: $(STAMP)  ## run five real agents from npm, with hooks, MCP and the proxy: 1.4 GB
	@CTXMGR_TEST_CLIENTS=1 $(BIN)/python -m pytest -q -n0 tests/clients

lint: $(STAMP)  ## run ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: bench-stores bench-core bench-surfaces bench-experience  ## run short benchmarks; missed targets are reported but do not fail

bench-stores bench-core bench-surfaces bench-experience: bench-%: $(STAMP)
	@$(BIN)/ctxmgr bench $* --quick --report-only

experiments: $(ENOUGH)  ## run every experiment on the recorded sessions in SESSIONS, and write the reports
	@for script in experiments/*/run.py; do \
		$(BIN)/python -m "$$(echo "$${script%.py}" | tr / .)" || exit 1; done

coverage-map: $(STAMP)  ## list the requirement rows that no test names
	@$(BIN)/python -m tests.coverage_map

mutants: $(STAMP)  ## break the code in chosen places, and list what no test notices
	@$(BIN)/python -m tests.mutants --jobs $(JOBS)

docs: $(STAMP)  ## write docs/reference, then run the code in README and docs
	@$(BIN)/python -m tests.reference
	@$(BIN)/python -m pytest -q tests/test_docs.py tests/surfaces/terminal/test_help.py

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
