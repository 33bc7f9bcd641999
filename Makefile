# Needs Python 3.11 or newer and make. Another interpreter: PYTHON=python3.12 make test

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PEERS := benchmarks/.venv
AUDIT := .venv-audit

# Both variables: older versions of pip read only the first when they build the package itself.
PIP_INSTALL := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet

# By its plain version: a range could bring a build for graphics cards, gigabytes larger.
TORCH := torch==2.13.0

EXTRAS := dev,demo,docs,dp,images,nvflare,parquet,secure,serve,simulation,sklearn

# typer 0.20, which Flower holds us to, goes with click 8.3; before 8.3.3 it has CVE-2026-7246.
CLICK := "click>=8.3.3,<8.4"

# What the quick loop checks: all that needs neither torch nor an engine.
CORE := _base tables scores summaries guarantees calibration evaluation verification.py privacy
QUICK := $(CORE:%=src/fedconformal/%)
QUICK_TESTS := base tables scores summaries guarantees calibration evaluation contracts privacy cli

PARALLEL := --numprocesses auto --maxprocesses 4 --dist worksteal --durations 10
PYTEST := $(BIN)/pytest $(PARALLEL)
SHORT := -m "not long and not slow and not engine" --hypothesis-profile quick

# Python keeps what it has compiled, also where the environment says otherwise: it halves the start of the tests.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: demo page deployment quick test fresh prove full slow coverage fuzz mutants lint format docs dist results bench constraints lock audit licences clean help

demo: $(VENV)/.demo ## run the main job end to end on a small data set
	$(BIN)/fedconformal demo

page: ## build the page for sites that install nothing, into the package (needs node and npm)
	npm --prefix web ci --silent --no-audit --no-fund
	web/node_modules/.bin/tsc -p web
	$(PYTHON) scripts/build_page.py

deployment: $(VENV)/.dev ## run on Flower with TLS and node keys: four sites on this machine, with sums and noise too (about ten minutes)
	PYTHONPATH=. $(BIN)/python scripts/deployment.py

quick: $(VENV)/.core ## lint, types and tests of the core: under a minute once the caches are warm
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/mypy $(QUICK)
	$(PYTEST) $(SHORT) $(QUICK) $(QUICK_TESTS:%=tests/%)

test: lint ## lint, check types and run all tests but the longest (under four minutes)
	$(PYTEST) -m "not slow" --hypothesis-profile test

# As users install it: the wheel, and no pins. The server is in one of the extras, so its tests run too.
fresh: $(VENV)/.core ## install the wheel without pins, with the newest versions and with the lowest, and use it (five minutes)
	$(BIN)/python scripts/fresh.py $(PARALLEL) $(SHORT) $(QUICK_TESTS:%=tests/%) tests/serving tests/test_docs.py

prove: full slow fuzz ## all examples of all tests, simulations, a real deployment and fuzzing (half an hour)

full: $(VENV)/.dev
	$(PYTEST) -m "not slow"

# File by file: the tests of a deployment share it.
slow: $(VENV)/.dev
	$(PYTEST) --dist loadfile -m slow

coverage: $(VENV)/.dev ## run all tests and show which lines they do not reach (twice as long as without)
	$(PYTEST) --cov

fuzz: $(VENV)/.dev ## decode hostile summaries, and hostile states of watches
	$(BIN)/python -m scripts.fuzz --count 1000000
	$(BIN)/python -m scripts.fuzz_watches --count 100000

mutants: $(VENV)/.dev ## break the package in many places, one at a time: the tests must notice each (about ten minutes)
	$(BIN)/python scripts/mutate.py

lint: $(VENV)/.dev ## lint and check types only
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(VENV)/.dev ## format the code and apply safe fixes
	$(BIN)/ruff check --fix-only --show-fixes
	$(BIN)/ruff format

docs: $(VENV)/.dev ## build the documentation site in build/docs; open index.html there, no server is needed
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --jobs auto --builder html --doctree-dir build/doctrees docs build/docs
	@echo "open build/docs/index.html"

dist: $(VENV)/.dev ## build what is published, in dist/, and check it (CONTRIBUTING.md has the steps around it)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m build --no-isolation --outdir dist paper
	$(BIN)/twine check --strict dist/*

results: $(VENV)/.dev ## redo the paper's tables and figures in docs/results.md and docs/results, from the logits at hand (half a minute)
	$(BIN)/fedconformal paper results -o docs/results.md --runs results

bench: $(PEERS)/.installed $(VENV)/.dev ## measure speed and memory beside MAPIE and TorchCP (about half an hour)
	$(PEERS)/bin/python benchmarks/imports.py
	$(PEERS)/bin/python benchmarks/one_row.py
	$(PEERS)/bin/python benchmarks/scores.py
	$(PEERS)/bin/python benchmarks/sites.py
	PYTHONPATH=. $(BIN)/python benchmarks/risk_sites.py
	$(PEERS)/bin/python benchmarks/losses.py
	$(PEERS)/bin/python benchmarks/monitoring.py
	PYTHONPATH=. $(BIN)/python benchmarks/false_alarms.py
	$(PEERS)/bin/python benchmarks/tct.py
	test -z "$$FEDCONFORMAL_DATA" || $(PEERS)/bin/python benchmarks/tct_solvers.py
	test -z "$$FEDCONFORMAL_DATA" || $(PEERS)/bin/python benchmarks/tct_ridge.py cifar100
	$(PEERS)/bin/python benchmarks/training.py
	$(PEERS)/bin/python benchmarks/privacy.py
	$(PEERS)/bin/python benchmarks/noise_shares.py
	$(PEERS)/bin/python benchmarks/peers_agree.py
	$(PEERS)/bin/python benchmarks/many_predictors.py
	test -z "$$FEDCONFORMAL_DATA" || $(PEERS)/bin/python benchmarks/price_of_sites.py
	test -z "$$FEDCONFORMAL_DATA" || $(PEERS)/bin/python benchmarks/torchcp_scores.py
	$(BIN)/python benchmarks/flower.py
	PYTHONPATH=. $(BIN)/python benchmarks/flower_engines.py
	PYTHONPATH=. $(BIN)/python benchmarks/sums_leak.py
	PYTHONPATH=. $(BIN)/python benchmarks/membership.py
	$(BIN)/python -W ignore benchmarks/serving.py
	test -z "$$FEDCONFORMAL_DATA" || $(PEERS)/bin/python benchmarks/paper.py "$$FEDCONFORMAL_DATA/logits"
	$(PEERS)/bin/python benchmarks/page.py

constraints: ## renew the pins in constraints.txt (run it with Python 3.11)
	@set -e; fresh=$$(mktemp -d); trap 'rm -rf "$$fresh" constraints.new' EXIT; \
	$(PYTHON) -m venv "$$fresh"; \
	"$$fresh/bin/python" -m pip install --quiet $(TORCH); \
	"$$fresh/bin/python" -m pip install --quiet -e ".[$(EXTRAS)]" -e "paper[pdf]" editables $(CLICK); \
	grep '^#' constraints.txt > constraints.new; \
	"$$fresh/bin/python" -m pip freeze --exclude-editable | grep -v '^torch==' >> constraints.new; \
	mv constraints.new constraints.txt; \
	echo "constraints.txt is renewed: see git diff, then make test"

lock: $(VENV)/.core ## renew the lock files: what the Docker image installs (after make constraints), and what the page is built with
	echo hatchling | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make lock" --constraints constraints.txt --extra serve --output-file requirements-serve.txt pyproject.toml -
	npm --prefix web install --silent --package-lock-only --no-audit --no-fund

# Everything that is installed but fedconformal itself, without the tags of builds (2.13.0+cpu), which no advisory names;
# the Docker image's lock; and the lowest versions that pyproject allows, as `make fresh` installs them and with all extras.
# Strict: a package that could not be looked up is an error, not a clean result.
audit: $(AUDIT)/bin/pip-audit $(VENV)/.dev ## look up known vulnerabilities of all that is installed, and of the lowest allowed versions (needs a network)
	$(BIN)/python -m pip check
	$(BIN)/python -m pip freeze --exclude-editable > $(AUDIT)/frozen.txt
	sed 's/+.*//' $(AUDIT)/frozen.txt > $(AUDIT)/installed.txt
	$(BIN)/python scripts/fresh.py --floors > $(AUDIT)/lowest.txt
	$(BIN)/python scripts/fresh.py --floors all > $(AUDIT)/lowest-all.txt
	@clean=yes; for list in $(AUDIT)/installed.txt requirements-serve.txt $(AUDIT)/lowest.txt $(AUDIT)/lowest-all.txt; do \
	echo "$$list:"; $(AUDIT)/bin/pip-audit --strict --no-deps --disable-pip --requirement $$list || clean=no; done; test $$clean = yes || \
	{ echo "The audit is not clean: either it names a vulnerability above, or it could not be made (is there a network?)." >&2; \
	exit 2; }

licences: $(VENV)/.dev ## write docs/licences.md from the metadata of all dependencies
	$(BIN)/python scripts/licences.py

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) $(PEERS) $(AUDIT) fedconformal-demo fedconformal-deployment build dist .coverage htmlcov .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

# A PYTHON given by hand that is not the one in the environment: start afresh.
ifneq ($(origin PYTHON),file)
ifneq ($(wildcard $(BIN)/python),)
ifneq ($(shell $(PYTHON) -V),$(shell $(BIN)/python -V))
.PHONY: $(VENV)/pyvenv.cfg
endif
endif
endif

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "Python 3.11 or newer is needed: try PYTHON=python3.12 make ..." >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)

$(VENV)/.demo: $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	$(PIP_INSTALL) $(TORCH)
	$(PIP_INSTALL) -e ".[demo]"
	touch $@

$(VENV)/.core: $(VENV)/pyvenv.cfg pyproject.toml paper/pyproject.toml constraints.txt
	$(PIP_INSTALL) -e ".[dev,dp,secure]" -e paper
	touch $@

$(VENV)/.dev: $(VENV)/pyvenv.cfg pyproject.toml paper/pyproject.toml constraints.txt
	$(PIP_INSTALL) $(TORCH)
	$(PIP_INSTALL) -e ".[$(EXTRAS)]" -e "paper[pdf]"
	touch $@ $(VENV)/.demo $(VENV)/.core

$(AUDIT)/bin/pip-audit:
	$(PYTHON) -m venv --clear $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet "pip-audit>=2.10,<3" || \
	{ echo "Nothing was audited: pip-audit cannot be installed (is there a network?)." >&2; exit 2; }

$(PEERS)/.installed: benchmarks/requirements.txt pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(PEERS)
	PIP_CONSTRAINT=constraints.txt $(PEERS)/bin/python -m pip install --quiet -e ".[dp,secure]"
	@for peer in $$(grep -v '^#' benchmarks/requirements.txt); do \
	case $$peer in torchcp*) alone=--no-deps ;; *) alone= ;; esac; \
	PIP_CONSTRAINT=constraints.txt $(PEERS)/bin/python -m pip install --quiet $$alone "$$peer" || \
	echo "$$peer cannot be installed; the benchmarks go on without it" >&2; \
	done
	touch $@
