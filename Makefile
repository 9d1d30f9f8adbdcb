# `make demo` and `make test` need Python 3.10 or later, and nothing else on the machine.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# These very versions: a new ruff, pytest or Ray must not turn a green commit red. `make pins` raises them.
PINS := tests/constraints.txt
INSTALL := $(BIN)/pip install --quiet --constraint $(PINS)
WORKERS := -n 4 --dist loadfile --no-loadscope-reorder
GATE = $(BIN)/python tests/gate.py $(WORKERS)

.PHONY: help demo check unit test test-all gate compiled lint coverage fuzz bench format docs reference gallery transcripts screenshots page pins clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

demo: $(VENV)/.installed ## a small real job that hangs, and what rankdbg says about it
	@$(BIN)/rankdbg demo

check: $(VENV)/.checked-with ## ruff, mypy and the quick unit tests: no torch, Ray, Slurm or root needed
	@$(MAKE) --no-print-directory -j 2 lint unit

unit: $(VENV)/.checked-with
	$(BIN)/pytest -n 3 --without-torch -m "not slow and not extra" tests/unit

test: $(VENV)/.tested-with ## install what the tests need, and run them
	@$(MAKE) --no-print-directory -j 2 lint compiled
	$(GATE)

test-all: $(VENV)/.tested-with ## the same, with every further case of what `make test` tries
	@$(MAKE) --no-print-directory -j 2 lint compiled
	RANKDBG_TEST_HANGS=all $(GATE) --all

gate: compiled
	$(GATE)

# Compiled once: each of some thousand processes that the tests start would compile what it imports,
# and each of pytest's would rewrite all tests, where PYTHONDONTWRITEBYTECODE is set. What has not
# changed since the last time needs nothing.
COMPILED := $(VENV)/.compiled
compiled: $(VENV)/.tested-with
	@$(BIN)/python -m compileall -qq -j 0 src tests || true
	@since=; [ ! $(COMPILED) -nt $(VENV)/.tested-with ] || since='-newer $(COMPILED)'; \
	touch $(COMPILED).now; \
	find tests \( -name 'test_*.py' -o -name conftest.py \) $$since \
	  | PYTHONDONTWRITEBYTECODE= xargs -r $(BIN)/pytest -qq --collect-only >/dev/null || true; \
	mv $(COMPILED).now $(COMPILED)

lint: $(VENV)/.checked-with ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

coverage: $(VENV)/.tested-with ## run all tests, and show which lines of src they never reach
	@$(INSTALL) '.[coverage]' --editable .
	@rm -rf build/coverage
	-$(BIN)/coverage run -m pytest $(WORKERS) -m "not machine"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet --directory build/coverage/html
	$(BIN)/coverage report

format: $(VENV)/.checked-with ## let ruff format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Of the command line: SECONDS is a variable of shells.
FUZZ := $(if $(filter command line,$(origin SECONDS)),--seconds $(SECONDS)) \
  $(if $(SEED),--seed $(SEED)) $(if $(REPLAY),--replay $(REPLAY)) $(TARGETS)
fuzz: $(VENV)/.checked-with ## random inputs for all readers, for 5 minutes; SECONDS=60 TARGETS="dap mcp" REPLAY=FILE
	@$(BIN)/python tests/fuzz/fuzz.py $(FUZZ)

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

screenshots: $(VENV)/.tested-with ## take the pictures of pages in docs/images
	$(BIN)/python docs/make_screenshots.py

page: ## build the page of --html from page/ into the package; needs Node
	npm --prefix page ci --no-audit --no-fund --silent
	npm --prefix page run --silent check
	npm --prefix page run --silent build

pins: $(VENV)/.tested-with ## raise the versions in tests/constraints.txt, on purpose
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 --no-header --no-annotate \
	  --extra test --extra coverage --output-file $(PINS) pyproject.toml tests/requirements.in

clean: ## remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.installed: $(PINS) pyproject.toml rankdbg_agent.pth bin/rankdbg
	@echo "installing rankdbg into $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --editable . 2>&1 | grep -v '^WARNING: Location' || true
	@$(BIN)/rankdbg --version >/dev/null
	@touch $@

$(VENV)/.checked-with: $(VENV)/.installed
	@$(INSTALL) --editable '.[check]'
	@touch $@

$(VENV)/.documented-with: $(VENV)/.installed
	@$(INSTALL) --editable '.[docs]'
	@touch $@

$(VENV)/.tested-with: $(VENV)/.installed tests/install tests/system-packages tests/requirements.in
	@tests/install $(BIN)/python
	@touch $(VENV)/.checked-with $(VENV)/.documented-with $@
