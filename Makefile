# `make demo` and `make test` need Python 3.10 or later, and nothing else on the machine.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo check unit test pytest lint coverage bench format docs reference gallery transcripts clean

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

demo: $(VENV)/.installed ## a small real job that hangs, and what rankdbg says about it
	@$(BIN)/rankdbg demo

check: $(VENV)/.checked-with ## ruff, mypy and the unit tests: no torch, Ray, Slurm or root needed
	@$(MAKE) --no-print-directory -j 2 lint unit

unit: $(VENV)/.checked-with
	$(BIN)/pytest -n 2 tests/unit

test: $(VENV)/.tested-with ## install what the tests need, and run all tests
	@$(MAKE) --no-print-directory -j 2 lint pytest

# Compiled once: each of some thousand processes that the tests start would compile what it imports,
# and each of pytest's would rewrite all tests, where PYTHONDONTWRITEBYTECODE is set.
pytest: $(VENV)/.tested-with
	@$(BIN)/python -m compileall -qq -j 0 src tests || true
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -qq --collect-only >/dev/null || true
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.checked-with ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

coverage: $(VENV)/.tested-with ## run all tests, and show which lines of src they never reach
	$(BIN)/pip install --quiet '.[coverage]' --editable .
	@rm -rf build/coverage
	-$(BIN)/coverage run -m pytest -n 4 --dist loadfile --no-loadscope-reorder
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet --directory build/coverage/html
	$(BIN)/coverage report

format: $(VENV)/.checked-with ## let ruff format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.tested-with ## all benchmarks, each with the peer's figure
	@for each in benchmarks/[a-z]*.py; do echo "== $$each"; $(BIN)/python $$each || exit 1; done

docs: $(VENV)/.documented-with ## build the site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

reference: $(VENV)/.installed ## write the pages of docs/reference that are made from the code
	$(BIN)/python docs/make_reference.py

gallery: $(VENV)/.tested-with ## run all jobs that hang, and write what rankdbg says into docs/gallery.md
	$(BIN)/python docs/make_gallery.py

transcripts: $(VENV)/.tested-with ## run the commands in README and docs, and put their output below them
	$(BIN)/python docs/make_transcripts.py

clean: ## remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.installed: pyproject.toml rankdbg_agent.pth bin/rankdbg
	@echo "installing rankdbg into $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --editable . 2>&1 | grep -v '^WARNING: Location' || true
	@$(BIN)/rankdbg --version >/dev/null
	@touch $@

$(VENV)/.checked-with: $(VENV)/.installed
	@$(BIN)/pip install --quiet --editable '.[check]'
	@touch $@

$(VENV)/.documented-with: $(VENV)/.installed
	@$(BIN)/pip install --quiet --editable '.[docs]'
	@touch $@

# Without its dependencies, and those that are small by name: torch is here already, and
# what it asks for beyond these it does without.
MONARCH_NEEDS := cloudpickle lark numpy opentelemetry-api pyarrow pyre-extensions pyzmq requests \
  tabulate typing-extensions xxhash

# torch first, and this very version: a plain `torch` would pull gigabytes of CUDA packages.
# The system's packages come meanwhile. Modules are compiled at the end, on all cores; a third of them
# is never loaded here.
NOT_LOADED := /tests?/|/testing/_internal/|/transformers/models/(?!auto/|llama/|__init__)|/ray/rllib/|/site-packages/pip/|/sympy/physics/
$(VENV)/.tested-with: $(VENV)/.installed tests/system-packages
	@tests/system-packages & system=$$!; \
	$(BIN)/pip install --quiet --no-compile torch==2.13.0 && \
	$(BIN)/pip install --quiet --no-compile --editable '.[test]'; python=$$?; \
	wait $$system && exit $$python
	$(BIN)/pip install --quiet --no-compile $(MONARCH_NEEDS) && \
	  $(BIN)/pip install --quiet --no-compile --no-deps torchmonarch==0.7.0 clusterscope || \
	  echo "tests of Monarch will be skipped: there is no torchmonarch for this Python or machine" >&2
	@$(BIN)/python -m compileall -qq -j 0 -x '$(NOT_LOADED)' $(VENV)/lib || true
	@touch $(VENV)/.checked-with $(VENV)/.documented-with $@
