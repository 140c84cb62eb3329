# Everything a developer types. `make` alone lists it.
# Needs Python 3.11 or newer, git and make; uv and all packages are installed into this folder.

PYTHON ?= python3
UV_VERSION := 0.13.8
TOOLS := .tools
UV := $(TOOLS)/bin/uv
BIN := .venv/bin
SETUP := .venv/.setup
export UV_PROJECT_ENVIRONMENT := $(CURDIR)/.venv
# Beside .venv, whose files are hard links to it: the disk holds each of them once.
UV_CACHE_DIR ?= $(CURDIR)/$(TOOLS)/cache
export UV_CACHE_DIR
# The machine's own certificates: a company that opens TLS has its authority there, and uv's list has
# not. pip, which installs uv, asks PIP_CERT and its own configuration.
UV_SYSTEM_CERTS ?= 1
export UV_SYSTEM_CERTS
# Each sweep is dozens of short processes, which take twice as long where nothing is kept compiled.
unexport PYTHONDONTWRITEBYTECODE
# Nothing here depends on the Python that the caller has activated, or on its packages.
unexport VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHOME

# The demo never sees the caller's W&B account, key, settings or state folder; its runs have our Python.
DEMO_HOME := $(CURDIR)/.demo
ISOLATED := env $(addprefix -u ,$(filter WANDB_% DEPLOYER_%,$(.VARIABLES))) HOME=$(DEMO_HOME) \
	DEPLOYER_HOME=$(DEMO_HOME)/deployer

# Bigger data sets than the bundled digits, in torchvision's layout, for the tests marked `data`.
DEPLOYER_TEST_DATA ?= ../shared/data
ifeq ($(wildcard $(DEPLOYER_TEST_DATA)/mnist),)
WITHOUT_DATA := and not data
DATA_NOTE := echo "not run: tests marked 'data' (set DEPLOYER_TEST_DATA to a folder with mnist/)"
else
DATA_NOTE := true
endif
export DEPLOYER_TEST_DATA

# A test that fails is run once more, alone: it fails the target if it fails again, and so do three
# that pass only then. Tests that call make know nothing of this one.
TESTS := env -u MAKEFLAGS -u MAKELEVEL $(BIN)/python -m tests.rerun --durations=10
IN_MAKE_TEST := --limit 2400 -m "not kube and not browser and not full $(WITHOUT_DATA)"

# Most tests wait for processes: more at once than there are cores, the next one to whoever is free.
SIDE_BY_SIDE := -n 4 --dist load --maxschedchunk 1
# Three files at a time, which wait for pods mostly, each test in a namespace of one cluster (fixtures
# keep apart what must be).
IN_NAMESPACES := -n 3 --dist loadfile --no-loadscope-reorder

# torch takes a process 4 s of a core to load, Google's clients 1.3 s: one process has all tests that
# need them. They run beside the others and print what became of them at their end.
WITH_TORCH := tests/trainer tests/analysis tests/backend/scheduling/test_bayes.py
WITH_GOOGLE := tests/gke
AT_THE_END = >.venv/.$@ 2>&1; code=$$?; cat .venv/.$@; exit $$code

# What tests import is compiled once, not by each of their processes beside the others.
COMPILED := .venv/.compiled

# Targets that run beside each other; all come to their end, also after one has failed.
BESIDE := @$(MAKE) --no-print-directory --jobs --keep-going

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-kubernetes check test test-kubernetes test-browser test-wandb test-outside test-full bench pictures docs format clean \
	lint quick-tests tests-with-torch tests-with-google other-tests cluster-programs chromium root

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SETUP) ## install uv and every package, as the lock file says

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: $(PYTHON) is older than 3.11"; echo "hint: make setup PYTHON=python3.12"; exit 1; }
	@echo "installing uv $(UV_VERSION) into $(TOOLS)"
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check \
		uv==$(UV_VERSION)

$(SETUP): $(UV) pyproject.toml uv.lock
	@echo "installing the packages of uv.lock into .venv (once; about 6 GB with torch)"
	@echo "keeping the downloads in $(UV_CACHE_DIR) (hard links to the same 6 GB)"
	@$(UV) sync --quiet --frozen --all-extras --python $(PYTHON)
	@touch $@

$(COMPILED): $(SETUP)
	@$(BIN)/pytest --collect-only -q >/dev/null || true
	@touch $@

demo: $(SETUP) ## run the main job: a sweep of 12 runs with 2 agents on this machine
	@mkdir -p $(DEMO_HOME)
	@$(ISOLATED) $(BIN)/deployer up sweeps/digits.yaml --replicas 2 --new --wandb embedded

demo-kubernetes: $(SETUP) ## the same with 4 agents in a real cluster that it starts; needs root
	@mkdir -p $(DEMO_HOME)
	@$(ISOLATED) $(BIN)/python -m tests.cluster.demo

check: $(SETUP) ## lint, types, unit tests and one small sweep, in about 4 minutes on 2 cores
	$(BESIDE) lint quick-tests

test: $(SETUP) ## everything that needs no root, in about 10 minutes on 2 cores
	$(BESIDE) lint tests-with-torch tests-with-google other-tests
	@$(DATA_NOTE)

lint: $(SETUP)
	@$(BIN)/ruff check --quiet && $(BIN)/ruff format --check --quiet && $(BIN)/mypy && \
		{ said=$$($(BIN)/lint-imports --no-logo) || { echo "$$said"; exit 1; }; } || \
		{ echo "error: lint or types, see above"; exit 1; }

# The example trainer's tests are for `make test`.
quick-tests: $(COMPILED)
	@$(BIN)/pytest -q -n 3 --dist worksteal --ignore tests/trainer \
		-m "not slow and not full and not data and not kube and not browser"

tests-with-torch: $(COMPILED)
	@$(TESTS) $(IN_MAKE_TEST) $(WITH_TORCH) $(AT_THE_END)

tests-with-google: $(COMPILED)
	@$(TESTS) $(IN_MAKE_TEST) $(WITH_GOOGLE) $(AT_THE_END)

other-tests: $(COMPILED)
	@$(TESTS) $(IN_MAKE_TEST) $(SIDE_BY_SIDE) $(addprefix --ignore ,$(WITH_TORCH) $(WITH_GOOGLE))

root:
	@[ "$$(id -u)" = 0 ] || { echo "error: a real cluster node needs root"; \
		echo "hint: sudo make $(MAKECMDGOALS), or without a cluster: make test"; exit 1; }

cluster-programs: $(SETUP)
	@$(BIN)/python -m tests.cluster.control_plane.binaries kubernetes containerd etcd coredns

test-kubernetes: root $(COMPILED) cluster-programs ## a real cluster; needs root, builds its programs once
	@$(TESTS) --limit 1200 --each 300 $(IN_NAMESPACES) -m "kube and not full $(WITHOUT_DATA)"

test-browser: chromium $(COMPILED) ## the page in a real browser; root installs Debian's chromium if there is none
	@$(UV) sync --quiet --frozen --all-extras --group browser
	@$(TESTS) --limit 300 -n 2 --dist loadfile -m "browser and not full" tests/browser

chromium:
	@command -v chromium >/dev/null || [ "$$(id -u)" = 0 ] || { echo "error: there is no chromium"; \
		echo "hint: sudo apt-get install chromium"; exit 1; }
	@command -v chromium >/dev/null || { apt-get -qq update && \
		apt-get -qq install --no-install-recommends chromium >/dev/null; }

test-wandb: $(SETUP) ## our claims on a W&B server, with your key: make test-wandb URL=https://...
	@$(BIN)/python -m tests.any_wandb $(URL)

test-outside: $(COMPILED) ## what W&B, clusters and clouds say today, and which of it is older than six months
	@$(BIN)/pytest -q -n 2 --dist loadfile -m "not full" tests/outside
	@$(BIN)/python -m tests.outside

test-full: root $(COMPILED) chromium ## all other tests: variants, repeated faults, older SDKs; 1 to 2 hours; needs root
	@$(BIN)/python -m tests.cluster.control_plane.binaries
	@$(BIN)/python -m tests.cluster.control_plane.binaries kubernetes-1.31
	@$(UV) sync --quiet --frozen --all-extras --group browser
	@$(TESTS) -n 3 --dist worksteal -m "full and not kube and not browser"
	@$(TESTS) -m "full and browser" tests/browser
	@$(TESTS) $(IN_NAMESPACES) -m "full and kube"

bench: $(SETUP) ## benchmarks: ratios within one run
	@$(BIN)/python -m tests.bench

pictures: chromium ## run the README's sweep, and draw its pictures
	@$(UV) sync --quiet --frozen --all-extras --group browser
	@$(ISOLATED) $(BIN)/python -m tests.docs.pictures record && $(ISOLATED) $(BIN)/deployer down --all

docs: $(SETUP) ## build the documentation as a site in .site/
	@$(BIN)/zensical build --strict

format: $(SETUP) ## format and mend what lint can mend
	@$(BIN)/ruff check --fix --quiet
	@$(BIN)/ruff format --quiet

clean: ## delete what make made, the demo's results included
	@if [ -x $(BIN)/deployer ]; then $(ISOLATED) $(BIN)/deployer down --all; fi
	@rm -rf .venv $(TOOLS) $(DEMO_HOME) .pytest_cache .mypy_cache .ruff_cache
