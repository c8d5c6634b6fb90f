# One command per gate, the same at home and in CI. `make` alone lists them.
#
# A target's description is the comment after its `##`; tests/unit/repository demands one for each.
# Everything is installed into .venv, so the targets need Python >= 3.11 and nothing else; the envtest
# ones also need Go and gcc.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
# Touched when the environment is complete, so that a second run costs nothing.
STAMP := $(VENV)/.complete
LOCK := requirements-dev.lock
# What trains the model of examples/learned_score, in the same environment, for `test-slow` only.
TRAINING_STAMP := $(VENV)/.training
# The first interpreter that is new enough; `make PYTHON=/path/to/python3.12 demo` chooses another.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
  if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
  then echo $$name; break; fi; done)
# The tools of `sbom` and `audit`, apart from what runs and is tested.
TOOLS := .venv-tools
TOOLS_STAMP := $(TOOLS)/.complete
# MkDocs, for `docs` only.
DOCS := .venv-docs
DOCS_STAMP := $(DOCS)/.complete
# Installs the packages of a lock file ($(2)) into an environment ($(1)). Where registries and proxies are named in
# pip's configuration, which uv does not read, it is pip that finds them.
define INSTALL
$(BIN)/uv pip install --compile-bytecode --python $(1)/bin/python --require-hashes -r $(2) || \
  $(1)/bin/python -m pip install --disable-pip-version-check --require-hashes -r $(2)
endef
# Images with Python often set it. Each of the hundreds of processes that the tests start would then compile
# all modules again, which takes longer than the rest of its start.
unexport PYTHONDONTWRITEBYTECODE
# More arguments for pytest: `make test PYTEST_ARGS="-k queue -x"`.
PYTEST_ARGS ?=

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(STAMP) ## Schedule a small cluster live in the terminal (embedded API server, about 15 s)
	@$(BIN)/kubestow demo

# How many processes `make test` uses.
PROCESSES ?= auto
# The tests of the tree's own texts, which `make lint` runs.
REPOSITORY_TESTS := tests/unit/repository
SLOW := slow and not (envtest or thirdparty or chart or older_servers or browser or soak or bench)

.PHONY: test
test: $(STAMP) ## Run unit, property, integration and conformance tests (5 minutes)
	$(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal --ignore $(REPOSITORY_TESTS) $(PYTEST_ARGS)

.PHONY: test-slow
test-slow: $(TRAINING_STAMP) ## Run the tests that take a second or more each: processes that die, replays, images, sweeps
	$(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal -m "$(SLOW)" $(PYTEST_ARGS)

# The revision since which: `make test-quick SINCE=main`; else what is not committed, or the last commit.
SINCE ?=

.PHONY: test-quick
test-quick: $(STAMP) ## Run the tests nearest to what changed, for less than a minute
	@$(BIN)/python -m devtools.quick $(if $(SINCE),--since "$(SINCE)")

# The tests of the repository's own files need no library of it, and those of the image need the locked ones.
LOWEST := .venv-lowest

.PHONY: test-lowest
test-lowest: $(STAMP) ## Run `make test` with the oldest dependencies that pyproject.toml allows
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
	  --group dev --editable ".[otel,sweep]"
	KUBESTOW_REQUIRE_OTEL=1 $(LOWEST)/bin/python -m pytest --numprocesses $(PROCESSES) --dist worksteal \
	  --ignore $(REPOSITORY_TESTS) $(PYTEST_ARGS)

.PHONY: conformance
conformance: $(STAMP) ## Compare every decision with the recorded ones of kube-scheduler v1.37
	$(BIN)/python -m tests.conformance tests/conformance/vectors

.PHONY: lint
lint: $(STAMP) ## Check style, format, the import contracts of the layers, and the repository's own files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q $(REPOSITORY_TESTS)

.PHONY: lint-workflows
lint-workflows: $(STAMP) ## Check .github/workflows with actionlint, which is built from its Go module
	$(BIN)/python -m tests.thirdparty.build actionlint
	.thirdparty/bin/actionlint

.PHONY: report
report: $(STAMP) ## Print the lines of code of each package, long files and long functions
	@$(BIN)/python -m devtools.report

.PHONY: types
types: $(STAMP) ## Check types (mypy --strict), also of code in documents and from `kubestow plugin new`
	$(BIN)/python -m devtools.strict_types

.PHONY: fmt
fmt: $(STAMP) ## Format the code and repair what ruff can repair
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: envtest-build
envtest-build: $(STAMP) ## Build etcd, kube-apiserver and their peers into .envtest/bin (once, minutes)
	$(BIN)/python -m devtools.control_plane.build

# How many processes run tests with a real control plane, each a file at a time with control planes of its own.
# They mostly wait for other programs: five keep two cores busy.
ENVTEST_PROCESSES ?= 5
# The files that take longest come first: one that begins last would run alone.
ENVTEST_LONGEST = tutorials node_provisioning_bridge hostile requeueing gpu_example restarts hostile_devices \
  leader_access benchmarks fallback_policies control_plane recording native_gangs permissions dynamic_resources \
  deferred_quota stuck_leader quota_parity deferred_quota_policies deployment fuzz gang_parity robustness
# To collect other files than those with such tests would take each process longer than many of these tests take,
# and whatever is collected makes each garbage collection longer.
ENVTEST_FILES = $$({ printf 'tests/envtest/test_%s.py\n' $(ENVTEST_LONGEST); \
  grep -rl --include='test_*.py' 'mark\.envtest' tests; } | awk '!seen[$$0]++')

.PHONY: envtest
envtest: envtest-build ## Run the tests against a real kube-apiserver
	KUBESTOW_REQUIRE_ENVTEST=1 $(BIN)/python -m pytest -m "envtest and not chart" \
	  --numprocesses $(ENVTEST_PROCESSES) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS) $(ENVTEST_FILES)

.PHONY: thirdparty-build
thirdparty-build: $(STAMP) ## Build Kueue, kwok and the others of tests/thirdparty into .thirdparty/bin
	$(BIN)/python -m tests.thirdparty.build

.PHONY: thirdparty
thirdparty: envtest-build thirdparty-build ## Run kubestow beside Kueue and other real controllers
	KUBESTOW_REQUIRE_ENVTEST=1 KUBESTOW_REQUIRE_THIRDPARTY=1 \
	  $(BIN)/python -m pytest -m thirdparty -s -o faulthandler_timeout=900 $(PYTEST_ARGS)

.PHONY: thirdparty-short-build
thirdparty-short-build: $(STAMP) ## Build Kueue, kwok and the checks of monitoring into .thirdparty/bin
	$(BIN)/python -m tests.thirdparty.build kueue kwok alertrules dashboard

.PHONY: thirdparty-short
thirdparty-short: envtest-build thirdparty-short-build ## Run the quick tests of thirdparty: beside Kueue, and of monitoring
	KUBESTOW_REQUIRE_ENVTEST=1 KUBESTOW_REQUIRE_THIRDPARTY=1 \
	  $(BIN)/python -m pytest -m thirdparty --numprocesses 2 --dist loadfile \
	  -k "plain_pods or larger_than_the_quota or test_alert_rules or test_dashboard" \
	  tests/thirdparty/test_kueue.py tests/thirdparty/test_alert_rules.py \
	  tests/thirdparty/test_dashboard.py $(PYTEST_ARGS)

.PHONY: chart-build
chart-build: $(STAMP) ## Build Helm into .helm/bin (once, minutes)
	$(BIN)/python -m tests.chart.build

.PHONY: chart
chart: envtest-build chart-build ## Test the Helm chart with Helm and a real kube-apiserver
	KUBESTOW_REQUIRE_ENVTEST=1 KUBESTOW_REQUIRE_HELM=1 \
	  $(BIN)/python -m pytest -m chart tests/chart $(PYTEST_ARGS)

# Which releases to build: `make older-servers-build RELEASES=v1.33`; all of tests/older_servers/modules by default.
RELEASES ?=

.PHONY: page-build
page-build: $(STAMP) ## Install Debian's Chromium if there is none, and fetch axe-core
	$(BIN)/python -m tests.page.build

.PHONY: page
page: page-build docs ## Test the page of `kubestow ui` and the search of the docs in a real Chromium
	KUBESTOW_REQUIRE_BROWSER=1 $(BIN)/python -m pytest -m browser tests/page $(PYTEST_ARGS)

.PHONY: page-libraries
page-libraries: $(STAMP) ## Fetch the JavaScript libraries of that page from npm, as their manifest pins them
	$(BIN)/python -m devtools.page_libraries

.PHONY: older-servers-build
older-servers-build: envtest-build ## Build kube-apiserver of older releases into .envtest/older (once, 5 minutes each)
	$(BIN)/python -m tests.older_servers.build $(RELEASES)

.PHONY: older-servers
older-servers: older-servers-build ## Run kubestow against API servers of older releases
	$(BIN)/python -m pytest -m older_servers tests/older_servers $(PYTEST_ARGS)

# Who serves default-scheduler in the end-to-end specs: `make e2e E2E_SCHEDULER=kube-scheduler` to compare.
# More arguments: `make e2e E2E="--only preemption"`.
E2E_SCHEDULER ?= kubestow
E2E ?=

.PHONY: e2e-build
e2e-build: envtest-build ## Build upstream's end-to-end specs into .envtest/bin (once, minutes)
	$(BIN)/python -m tests.e2e.build

.PHONY: e2e
e2e: e2e-build ## Run upstream's specs of scheduling with kubestow as default-scheduler (20 minutes)
	$(BIN)/python -m tests.e2e --scheduler $(E2E_SCHEDULER) $(E2E)

.PHONY: e2e-short
e2e-short: e2e-build ## Run the quick ones of these specs (5 minutes)
	$(BIN)/python -m tests.e2e --scheduler $(E2E_SCHEDULER) --short $(E2E)

# How long `make soak` churns and `make fuzz` fuzzes; `make soak SECONDS=900` for a quarter of an hour.
SECONDS ?= 60

.PHONY: soak
soak: $(STAMP) ## Churn pods under quota with random faults; nothing may be exceeded, lost or left
	$(BIN)/python -m benchmarks.quota_soak --seconds $(SECONDS)

# How many rounds `make robustness` takes: 5 to 20 seconds each.
ROUNDS ?= 20

.PHONY: robustness
robustness: envtest-build ## Let processes, connections and clocks fail at random; the audit log judges
	@mkdir -p build
	$(BIN)/python -m benchmarks.robustness --rounds $(ROUNDS) --json build/robustness.json

.PHONY: remedies
remedies: $(STAMP) ## Judge the remedies of 300 random worlds: each is carried out in a fresh world
	$(BIN)/python -m benchmarks.remedies

.PHONY: bench-offline
bench-offline: $(STAMP) ## Measure arrivals in an offline world, by the direct loop and by tasks, and loading
	$(BIN)/python -m benchmarks.offline

.PHONY: bench-remembering
bench-remembering: $(STAMP) ## Count the instructions that remembering a decision takes (needs Valgrind)
	$(BIN)/python -m benchmarks.remembering

# The folder with the traces, and optionally which runs: `make paper TRACES=FOLDER SEEDS=42,47 POLICIES=FGD`.
TRACES ?=
SEEDS ?=
POLICIES ?=

.PHONY: paper
paper: $(STAMP) ## Repeat the experiments of the FGD paper with the traces in the folder TRACES
	@if [ -z "$(TRACES)" ]; then \
	  echo "Name the folder with the traces: make paper TRACES=FOLDER" >&2; exit 2; \
	fi
	@$(BIN)/python -m benchmarks.paper "$(TRACES)" \
	  $(if $(SEEDS),--seeds "$(SEEDS)") $(if $(POLICIES),--policies "$(POLICIES)")

# `make fuzz SEED=1` mutates the same way each time; without it every run tries other inputs.
.PHONY: fuzz
fuzz: $(STAMP) ## Fuzz what reads bytes of others, for SECONDS together; finds go to build/fuzz
	$(BIN)/python -m tests.fuzzing --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

CONTENDERS := --contender kubestow --contender kube-scheduler \
  --contender "kube-scheduler, batching off" --contender "kube-scheduler, all nodes"

.PHONY: bench
bench: envtest-build ## Measure kubestow and kube-scheduler side by side, every workload (about an hour)
	@mkdir -p build
	$(BIN)/python -m benchmarks --json build/bench.json $(CONTENDERS)

.PHONY: bench-quick
bench-quick: envtest-build ## The same for eight workloads at 1000 nodes (under 10 minutes)
	@mkdir -p build
	$(BIN)/python -m benchmarks --quick --json build/bench-quick.json $(CONTENDERS)

.PHONY: bench-plot
bench-plot: $(STAMP) ## Draw docs/performance.svg from the last `make bench`, and print its table
	$(BIN)/python -m benchmarks.plot build/bench.json docs/performance.svg
	$(BIN)/python -m benchmarks.markdown build/bench.json

# More options: `make hostile HOSTILE="--nodes 1000 --case pods-resource-names"`.
HOSTILE ?=

.PHONY: hostile
hostile: envtest-build ## Measure what hostile pods do to kubestow and kube-scheduler (about half an hour)
	@mkdir -p build
	$(BIN)/python -m benchmarks.hostile --json build/hostile.json $(HOSTILE)

.PHONY: hostile-memory
hostile-memory: envtest-build ## Measure what hostile pods that came and went leave in memory (hours)
	@mkdir -p build
	$(BIN)/python -m benchmarks.hostile.memory --json build/hostile-memory.json $(HOSTILE)

.PHONY: references
references: $(STAMP) ## Write the generated pages of docs/, the JSON Schema, and its copy in the chart
	$(BIN)/python -m devtools.references
	$(BIN)/python -m devtools.chart_schema

# Addresses for a site that is published: `make docs SITE_URL=https://... SOURCE=https://.../blob/v1.2.3`.
SITE_URL ?=
SOURCE ?=

.PHONY: docs
docs: $(DOCS_STAMP) ## Build the docs site into build/site; a broken link or a page without a section is an error
	NO_MKDOCS_2_WARNING=1 SITE_URL="$(SITE_URL)" SOURCE="$(SOURCE)" $(DOCS)/bin/mkdocs build

.PHONY: docs-serve
docs-serve: $(DOCS_STAMP) ## Serve the docs site on 127.0.0.1:8000, built anew after each change
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs serve --no-strict

# One of them: `make casts CASTS=gpu-queue`.
CASTS ?=

.PHONY: casts
casts: $(STAMP) ## Record the demos as animated SVG in docs/casts (a minute; on a machine that is idle)
	$(BIN)/python -m devtools.casts $(CASTS)

.PHONY: wheel
wheel: $(STAMP) ## Build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

.PHONY: packages
packages: $(STAMP) ## Build the source distribution into dist/, and the wheel from it
	$(BIN)/python -m build --no-isolation --outdir dist .

# Outside of the clone, with the newest dependencies that pyproject.toml allows, as users install it.
.PHONY: check-packages
check-packages: packages ## Install the wheel into an empty environment and start it (needs the network)
	$(BIN)/python -m venv --clear build/installed
	build/installed/bin/python -m pip install --quiet --disable-pip-version-check dist/kubestow-*.whl
	cd build/installed && bin/kubestow --help && bin/kubestow demo --fast

.PHONY: venv
venv: $(STAMP) ## Create .venv with the locked dependencies and this project, editable

$(STAMP): pyproject.toml $(LOCK) requirements-installer.lock
	@python="$(PYTHON)"; \
	if [ -z "$$python" ]; then \
	  echo "No Python >= 3.11 on PATH. Install one, or name it:" \
	    "make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; \
	fi; \
	echo "Preparing $(VENV) with $$python (once; usually half a minute, on a busy machine several) ..."; \
	"$$python" -m venv --clear $(VENV) || { \
	  echo "$$python cannot create $(VENV). On Debian and Ubuntu: apt install python3-venv" >&2; \
	  exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-installer.lock
	@$(call INSTALL,$(VENV),$(LOCK))
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation --editable .
	@touch $@

# After the environment, whose renewal removes it.
$(TRAINING_STAMP): $(STAMP) requirements-training.lock
	@echo "Adding what trains the model of examples/learned_score (once) ..."
	@$(call INSTALL,$(VENV),requirements-training.lock)
	@touch $@

$(TOOLS_STAMP): requirements-tools.lock | $(STAMP)
	@echo "Preparing $(TOOLS) (once) ..."
	@$(BIN)/python -m venv --clear $(TOOLS)
	@$(call INSTALL,$(TOOLS),requirements-tools.lock)
	@touch $@

$(DOCS_STAMP): requirements-docs.lock | $(STAMP)
	@echo "Preparing $(DOCS) (once) ..."
	@$(BIN)/python -m venv --clear $(DOCS)
	@$(call INSTALL,$(DOCS),requirements-docs.lock)
	@touch $@

COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
  --generate-hashes --no-annotate --custom-compile-command "make lock"

.PHONY: lock
lock: $(STAMP) ## Renew the lock files from pyproject.toml
	$(COMPILE) pyproject.toml --extra otel --output-file requirements.lock
	$(COMPILE) --group installer --output-file requirements-installer.lock
	$(COMPILE) --group build --output-file requirements-build.lock
	$(COMPILE) --constraint requirements.lock pyproject.toml --all-extras --group dev --output-file $(LOCK)
	$(COMPILE) --constraint $(LOCK) --group training --output-file requirements-training.lock
	$(COMPILE) --group tools --output-file requirements-tools.lock
	$(COMPILE) --group docs --output-file requirements-docs.lock

.PHONY: sbom
sbom: $(TOOLS_STAMP) ## Write the bill of materials of the image (CycloneDX) to dist/kubestow.cdx.json
	@mkdir -p dist
	$(TOOLS)/bin/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml \
	  --output-reproducible --output-file dist/kubestow.cdx.json

# --strict: a package about which nothing could be asked is a failure.
.PHONY: audit
audit: $(TOOLS_STAMP) ## Look for known vulnerabilities in what the image installs (needs the network)
	$(TOOLS)/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements.lock

.PHONY: clean
clean: ## Remove .venv, caches and build results (.envtest, .helm and .thirdparty stay)
	rm -rf $(VENV) $(TOOLS) $(DOCS) $(LOWEST) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.envtest/*' -prune -exec rm -rf {} +
