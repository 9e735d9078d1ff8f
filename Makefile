# Every target works in a fresh clone: the environment is made when it is missing or out of date.
#   make demo ARGS="--for 20 --json"     make test ARGS="tests/unit -k settings"

PYTHON ?= python3.11
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
ARGS   ?=

# Seconds that a single test may take.
TEST_TIMEOUT ?= 120

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test check format bench bench-large bench-peers soak autopsy-score early-alerts dashboards-preview dashboards-live screenshots lock vendor clean system-packages

help:  ## Show the targets.
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What runs is what the lock file says: the package itself is installed without dependencies.
$(VENV)/.locked: requirements.lock
	@echo "making $(VENV) from $< (once, under a minute)" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --requirement requirements.lock
	@touch $@

$(READY): pyproject.toml $(VENV)/.locked
	@$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

demo: $(READY)  ## Show it at work on a throw-away store; ARGS are those of `supervisor demo`.
	@$(BIN)/supervisor demo $(ARGS)

# Most side by side (TEST_PROCESSES=3), then what is marked `light` two by two, and `alone` one by one.
test: $(READY) system-packages  ## Run the tests; ARGS are those of pytest. With CI=true a skip is a failure.
	@$(BIN)/python -m tools.run_tests -q --timeout=$(TEST_TIMEOUT) $(if $(filter true,$(CI)),-p tools.pytest_no_skip) $(ARGS)

# What the tests need beside Python; done in no time when all of it is there.
system-packages:
	@tools/install_system_packages

check: $(READY)  ## Lint, format, types, layers, and generated pages in step.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict supervisor autopsy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/generate_docs.py --check
	@$(BIN)/python tools/vendor_assets.py --check
	@$(BIN)/python tools/translations.py --check

format: $(READY)  ## Format the code, sort imports, write the generated pages.
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .
	@$(BIN)/python tools/generate_docs.py

bench: $(READY)  ## Measure; ARGS are those of `python -m bench`.
	@$(BIN)/python -m bench $(ARGS)

# About ten minutes; makes the peers' environments. redis-server and PostgreSQL: ARGS=--install.
bench-peers: $(READY)  ## Measure other task queues beside ours; --help lists the ARGS.
	@$(BIN)/python -m bench.peers $(ARGS)

# Some minutes and 4 GB of disk; needs PostgreSQL, unless ARGS=sqlite.
bench-large: $(READY)  ## Measure on a store with millions of rows; ARGS=--quick takes a tenth.
	@$(BIN)/python -m bench.large $(ARGS)

# About a quarter of an hour on two cores as it stands; not part of CI.
soak: $(READY)  ## Kill workers and nodes under load, look for leaks; --help lists the ARGS.
	@PYTHONPATH=tests $(BIN)/python -m soak $(ARGS)

# A minute on two cores, four more with --blind; starts a PostgreSQL and a Redis of its own.
autopsy-score: $(READY)  ## Examine programs that are stuck for a known reason; ARGS as --help says.
	@PYTHONPATH=tests $(BIN)/python -m score $(ARGS)

# Half a minute on two cores.
early-alerts: $(READY) system-packages  ## Measure how long before their limits trends are told.
	@PYTHONPATH=tests $(BIN)/python -m rules

# Needs node, Chromium and Prometheus; the first time npm installs some 400 MB into tools/.
PREVIEW := tools/dashboard-preview
define BUILD_PREVIEW
test -d $(PREVIEW)/node_modules || nice -n 10 npm --prefix $(PREVIEW) ci --ignore-scripts
nice -n 10 npm --prefix $(PREVIEW) run --silent build >/dev/null
endef
dashboards-preview: $(READY)  ## Draw the dashboards of made-up incidents; ARGS=--help.
	@set -e; $(BUILD_PREVIEW); $(BIN)/python tools/preview_dashboards.py $(ARGS)

# A quarter of an hour, on top of what dashboards-preview needs.
dashboards-live: $(READY)  ## Draw the dashboards of a live demo; ARGS=--help.
	@set -e; $(BUILD_PREVIEW); $(BIN)/python tools/live_dashboards.py $(ARGS)

# Some minutes: a live demo works first, so that there is something of everything.
screenshots: $(READY) system-packages  ## Take pictures of every page into docs/pictures; ARGS=--help.
	@$(BIN)/python tools/picture_pages.py $(ARGS)

# Three files: all of it, what of it the image has, and what builds the wheel in the image.
COMPILE = $(BIN)/pip-compile --quiet --generate-hashes --no-emit-find-links \
	--no-emit-index-url --no-emit-trusted-host --strip-extras
lock: $(READY)  ## Write the lock files anew from pyproject.toml.
	@$(BIN)/python -m pip install --quiet pip-tools
	@$(COMPILE) --extra=dev --extra=otel --output-file=requirements.lock pyproject.toml
	@$(COMPILE) --constraint=requirements.lock --extra=otel --output-file=deploy/requirements.lock pyproject.toml
	@$(COMPILE) --allow-unsafe --only-build-deps --build-deps-for=wheel \
		--output-file=deploy/build-requirements.lock pyproject.toml

vendor: $(READY)  ## Fetch the scripts of others that the pages use, in the versions pinned.
	@$(BIN)/python tools/vendor_assets.py

clean:  ## Remove the environment and what tools left behind.
	@rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
