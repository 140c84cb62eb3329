# Everything a developer types. `make` alone lists it.
# Needs Python 3.11 or newer, git and make; uv and all packages are installed into this folder.

PYTHON ?= python3
UV_VERSION := 0.13.8
TOOLS := .tools
UV := $(TOOLS)/bin/uv
BIN := .venv/bin
SETUP := .venv/.setup
export UV_PROJECT_ENVIRONMENT := $(CURDIR)/.venv
# Each sweep is dozens of short processes, which take twice as long where nothing is kept compiled.
unexport PYTHONDONTWRITEBYTECODE

# The demo and the tests never see the caller's W&B account, key or state folder.
DEMO_HOME := $(CURDIR)/.demo
ISOLATED := env -u WANDB_API_KEY -u WANDB_BASE_URL -u WANDB_ENTITY -u WANDB_PROJECT \
	HOME=$(DEMO_HOME) DEPLOYER_HOME=$(DEMO_HOME)/deployer

# Bigger data sets than the bundled digits, in torchvision's layout, for the tests marked `data`.
DEPLOYER_TEST_DATA ?= ../shared/data
ifeq ($(wildcard $(DEPLOYER_TEST_DATA)/mnist),)
WITHOUT_DATA := and not data
DATA_NOTE := echo "not run: tests marked 'data' (set DEPLOYER_TEST_DATA to a folder with mnist/)"
else
DATA_NOTE := true
endif
export DEPLOYER_TEST_DATA

# Hundreds of real processes share the machine: what fails among them is run once more by itself,
# for all to see, and must pass then.
ONCE_MORE := { echo "failed; once more, one at a time:"; $(BIN)/pytest --last-failed --last-failed-no-failures none; }

# Most of them wait for the 5 s loop of `wandb agent`: more at once than there are cores, the next one
# to whoever is free.
SIDE_BY_SIDE := -n 6 --dist load --maxschedchunk 1

# The tests on a cluster start real nodes, which takes root; they run one after another.
ifeq ($(shell id -u),0)
CLUSTER_TESTS := $(BIN)/python -m tests.cluster.control_plane.binaries && \
	$(BIN)/pytest --durations=10 tests/cluster -m "not full"
else
CLUSTER_TESTS := echo "not run: the tests on a cluster (tests/cluster) need root"
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-kubernetes check test test-full bench format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SETUP) ## install uv and every package, as the lock file says

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: $(PYTHON) is older than 3.11"; echo "hint: make setup PYTHON=python3.12"; exit 1; }
	@echo "installing uv $(UV_VERSION) into $(TOOLS)"
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

$(SETUP): $(UV) pyproject.toml uv.lock
	@echo "installing the packages of uv.lock into .venv (once; about 6 GB with torch)"
	@$(UV) sync --quiet --frozen --all-extras --python $(PYTHON)
	@touch $@

demo: $(SETUP) ## run the main job: a sweep of 12 runs with 2 agents on this machine
	@mkdir -p $(DEMO_HOME)
	@$(ISOLATED) $(BIN)/deployer up sweeps/digits.yaml --replicas 2 --new --wandb embedded

demo-kubernetes: $(SETUP) ## the same with 4 agents in a real cluster that it starts; needs root
	@mkdir -p $(DEMO_HOME)
	@$(ISOLATED) $(BIN)/python -m tests.cluster.demo

# The example trainer's tests are for `make test`: torch alone takes each worker 5 s to load.
check: $(SETUP) ## lint, types, unit tests and one small sweep, in under 90 seconds
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy
	@said=$$($(BIN)/lint-imports --no-logo) || { echo "$$said"; exit 1; }
	@$(BIN)/pytest -q -n 3 --dist worksteal --ignore tests/trainer -m "not slow and not full and not data"

test: $(SETUP) ## every test
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy
	@said=$$($(BIN)/lint-imports --no-logo) || { echo "$$said"; exit 1; }
	@$(BIN)/pytest $(SIDE_BY_SIDE) --durations=10 --ignore tests/cluster -m "not full $(WITHOUT_DATA)" || $(ONCE_MORE)
	@$(CLUSTER_TESTS) || $(ONCE_MORE)
	@$(DATA_NOTE)

test-full: $(SETUP) ## repeated faults, an older Kubernetes: about an hour
	@$(BIN)/pytest -n 3 --dist worksteal --durations=10 --ignore tests/cluster -m full
	@$(BIN)/pytest --durations=10 tests/cluster -m full

bench: $(SETUP) ## benchmarks: ratios within one run
	@$(BIN)/python -m tests.bench

format: $(SETUP) ## format and mend what lint can mend
	@$(BIN)/ruff check --fix --quiet
	@$(BIN)/ruff format --quiet

clean: ## delete what make made, the demo's results included
	@if [ -x $(BIN)/deployer ]; then $(ISOLATED) $(BIN)/deployer down --all; fi
	@rm -rf .venv $(TOOLS) $(DEMO_HOME) .pytest_cache .mypy_cache .ruff_cache
