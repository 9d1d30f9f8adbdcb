# `make demo` and `make test` need Python 3.10 or later, and nothing else on the machine.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test pytest lint bench format reference gallery clean

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/.installed ## a small real job that hangs, and what rankdbg says about it
	@$(BIN)/rankdbg demo

test: $(VENV)/.tested-with ## install what the tests need, and run all tests
	@$(MAKE) --no-print-directory -j 2 lint pytest

pytest: $(VENV)/.tested-with
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.tested-with ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.tested-with ## let ruff format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.tested-with ## all benchmarks, each with the peer's figure
	@for each in benchmarks/[a-z]*.py; do echo "== $$each"; $(BIN)/python $$each || exit 1; done

reference: $(VENV)/.installed ## write the pages of docs/reference that are made from the code
	$(BIN)/python docs/make_reference.py

gallery: $(VENV)/.tested-with ## run all jobs that hang, and write what rankdbg says into docs/gallery.md
	$(BIN)/python tests/gallery.py

clean: ## remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.installed: pyproject.toml rankdbg_agent.pth
	@echo "installing rankdbg into $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --editable . 2>&1 | grep -v '^WARNING: Location' || true
	@$(BIN)/rankdbg --version >/dev/null
	@touch $@

# Without its dependencies, and those that are small by name: torch is here already, and
# what it asks for beyond these it does without.
MONARCH_NEEDS := cloudpickle lark numpy opentelemetry-api pyarrow pyre-extensions pyzmq requests \
  tabulate typing-extensions xxhash

# torch first, and this very version: a plain `torch` would pull gigabytes of CUDA packages.
# The system's packages come meanwhile. Modules are compiled at the end, on all cores.
$(VENV)/.tested-with: $(VENV)/.installed tests/system-packages
	@tests/system-packages & system=$$!; \
	$(BIN)/pip install --quiet --no-compile torch==2.13.0 && \
	$(BIN)/pip install --quiet --no-compile --editable '.[test]'; python=$$?; \
	wait $$system && exit $$python
	$(BIN)/pip install --quiet --no-compile $(MONARCH_NEEDS) && \
	  $(BIN)/pip install --quiet --no-compile --no-deps torchmonarch==0.7.0 clusterscope || \
	  echo "tests of Monarch will be skipped: there is no torchmonarch for this Python or machine" >&2
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@
