# `make demo` and `make test` do all their own set-up in .venv, and nothing twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Python compiles a module when it is first imported; pip would compile all of them, used or not.
INSTALL := $(PIP) install --quiet --no-compile
# The paper's data sets, where they lie beside the checkout; EUPG_DATA wins if it is set.
SHARED := $(wildcard ../shared/data)
export EUPG_DATA ?= $(abspath $(SHARED))

.PHONY: demo serve test coverage lint docs check dist bench soak clean help
help:
	@echo "make demo      one person's erasure on real data, with a page of results"
	@echo "make serve     the service with two models and requests in it, on this machine"
	@echo "make test      all tests"
	@echo "make coverage  all tests, and a floor under the share of lines that they run"
	@echo "make lint      style, types and import rules"
	@echo "make docs      the documentation site, in build/site"
	@echo "make check     lint and test"
	@echo "make dist      wheels and source archives, built, checked and installed"
	@echo "make bench     speed, as ratios against a named peer"
	@echo "make soak      kill a workspace at thousands of points, and see that nothing is lost"

demo: $(VENV)/.demo
	$(BIN)/eupg demo

serve: $(VENV)/.test
	$(BIN)/eupg serve --demo build/service

test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# The same tests, each once: tests/conftest.py says in which of them the tracer is off.
coverage:
	mkdir -p build
	PYTEST_ADDOPTS=--cov $(MAKE) test

lint: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

check: lint test

dist: $(VENV)/.test
	$(BIN)/python .ci/dist.py

bench: $(VENV)/.test
	cd reproduction && ../$(BIN)/python -m benchmarks

soak: $(VENV)/.test
	OMP_NUM_THREADS=1 EUPG_KILL_POINTS=3000 $(BIN)/python -m pytest tests/e2e/test_crash.py

clean:
	rm -rf $(VENV) build dist demo-report .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/.venv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "EUPG needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: requirements/demo.txt pyproject.toml | $(VENV)/.venv
	$(INSTALL) -r requirements/demo.txt
	$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.test: requirements/test.txt requirements/demo.txt pyproject.toml reproduction/pyproject.toml | $(VENV)/.venv
	$(INSTALL) -r requirements/test.txt
	$(INSTALL) --no-deps --no-build-isolation -e . -e reproduction
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: requirements/docs.txt $(VENV)/.test
	$(INSTALL) -r requirements/docs.txt
	@touch $@
