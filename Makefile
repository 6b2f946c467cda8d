# `make test` is all that a fresh clone needs: it makes its own environment in .venv.
# `make help` lists the rest.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
# Tests of processes wait for each other, sockets and disks most of their time.
TEST_JOBS ?= 4
# Byte code is kept: otherwise each of the thousands of processes of the tests compiles rollq anew.
unexport PYTHONDONTWRITEBYTECODE

BENCH_VENV ?= .venv-bench
BENCH_RESULTS ?= bench-results
FUZZ_VENV ?= .venv-fuzz
FUZZ_ARGS ?=
BENCH_ARGS ?=

SEEDS ?= 1000
START ?= 0
SEEDS_IN_TEST ?= 100
HOURS ?= 24
ROUNDS ?=
CHAOS_ARGS ?=
LIST ?=
SIGN_KEY ?=
# An upgrade starts from the last release; from some time ago while there is none.
FROM ?= $(shell git describe --tags --abbrev=0 2>/dev/null || echo HEAD~100)
FEATURES ?=

SPARKS ?= 4.0 4.1 4.2 4.3
CONNECTORS ?= snakemake airflow prefect

# Folders of tests that are no part of `make unit`.
ELSEWHERE := tidy integration browser spark

PY := $(VENV)/bin/python
READY := $(VENV)/.ready
BENCH_PY := $(BENCH_VENV)/bin/python
BENCH_READY := $(BENCH_VENV)/.ready
FUZZ_PY := $(FUZZ_VENV)/bin/python
FUZZ_READY := $(FUZZ_VENV)/.ready
BROWSER := $(VENV)/.browser

PURE := base wire subjects raft grid policy
comma := ,
empty :=
PURE_FILES := $(subst $(empty) ,$(comma),$(PURE:%=src/rollq/%/*))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help env test check lint types tidy unit integration properties features spark-tests spark-main-standalone spark-main-connect spark-kinds spark-local spark-standalone spark-connect spark-versions spark-formats connectors sim sim-mutants endurance bench bench-core bench-decisions bench-budget bench-files bench-subjects bench-spark bench-pipeline subjects fuzz chaos demo docs dist upgrade coverage house clean

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: $(READY) ## Everything that must be green: check, docs, all tests, a small simulation.
	+$(MAKE) --no-print-directory --jobs=$(JOBS) --output-sync=target check docs
	+$(MAKE) --no-print-directory unit integration spark-tests
	$(PY) -m rollq.testing.sim --seeds $(SEEDS_IN_TEST) --start 0 --jobs $(JOBS)

check: lint types tidy ## Linter, format, types (strict) and the house rules.

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(READY)
	$(PY) -m mypy

tidy: $(READY)
	$(PY) -m pytest -n $(JOBS) tests/tidy

# A process gets tests that are neighbours, and has few grids to start for those of one file.
unit: $(READY) ## Tests within one process: units, scenarios, properties, contracts, formats.
	$(PY) -m pytest -n $(JOBS) --dist worksteal $(ELSEWHERE:%=--ignore=tests/%)

integration: $(READY) $(BROWSER) ## Tests of real processes, sockets, disks and pages in a browser.
	$(PY) -m pytest -n $(TEST_JOBS) --dist worksteal tests/integration tests/browser

properties: $(READY) ## Property tests, with twenty times the inputs of `make unit`.
	$(PY) -m pytest -n $(JOBS) --dist worksteal tests/properties tests/unit -m hypothesis --hypothesis-profile thorough

features: $(READY) ## The tests of every feature that was asked for, and a table: make features FEATURES=B6,B7
	$(PY) -m tests.features --jobs $(JOBS) $(FEATURES:%=--only %)

spark-tests: $(READY) ## The tests of Spark: all of them embedded, the main ones on a master and worker and by Connect.
	$(PY) -m pytest tests/spark --spark local -n $(JOBS) --dist loadfile
	+$(MAKE) --no-print-directory --jobs=$(JOBS) --output-sync=target spark-main-standalone spark-main-connect

# Beside each other: each of them waits most of its time for one thing after another.
spark-main-standalone spark-main-connect: spark-main-%: $(READY)
	$(PY) -m pytest tests/spark --spark $* -m each_spark

spark-kinds: spark-local spark-standalone spark-connect ## All tests of Spark embedded, on a master and worker, and by Connect.

spark-local spark-standalone spark-connect: spark-%: $(READY)
	$(PY) -m pytest tests/spark --spark $*

spark-versions: $(SPARKS:%=spark-%) ## The tests of Spark, embedded, on each version: make spark-versions SPARKS='4.0 4.1'

spark-4.%: .venv-spark-4.%/.ready
	.venv-spark-4.$*/bin/python -m pytest tests/spark --spark local

# The newest version that both have packages for.
spark-formats: .venv-spark-4.1/.ready ## The pipeline on tables of Iceberg and Delta, whose packages Spark fetches.
	.venv-spark-4.1/bin/python -m pytest tests/spark/test_formats.py tests/spark/test_formats_s3.py --spark local -rs

connectors: $(CONNECTORS:%=connectors-%) ## The connectors, each with its real package: make connectors CONNECTORS=snakemake

connectors-%: .venv-connectors-%/.ready
	.venv-connectors-$*/bin/python -m pytest tests/connectors/test_$*.py -rs

sim: $(READY) ## Simulate whole clusters under faults: make sim SEEDS=10000 START=0
	$(PY) -m rollq.testing.sim --seeds $(SEEDS) --start $(START) --jobs $(JOBS)

sim-mutants: $(READY) ## Switch on each deliberate bug; the simulator must find every one.
	$(PY) -m rollq.testing.mutants

endurance: $(READY) ## A day of a cluster's life, some minutes: make endurance HOURS=24
	$(PY) -m rollq.testing.endurance --hours $(HOURS)

bench: $(BENCH_READY) ## rollq beside its peers, 70 minutes: make bench BENCH_ARGS='--quick --only noop'
	@mkdir -p $(BENCH_RESULTS)
	$(BENCH_PY) -m bench --json $(BENCH_RESULTS)/report.json --plot $(BENCH_RESULTS)/report.svg $(BENCH_ARGS)

bench-core: $(READY) ## Speed and memory of the core, without disk or network.
	$(PY) -m bench.core

bench-decisions: $(READY) ## What needs, limits and many workers add to a decision.
	$(PY) -m bench.decisions

bench-budget: $(READY) ## CPU time of a no-op job by process and stage: make bench-budget BENCH_ARGS='--members 3'
	$(PY) -m bench.budget $(BENCH_ARGS)

bench-files: $(READY) ## How files move: caches, uploads beside jobs: make bench-files BENCH_ARGS='--size 256M'
	$(PY) -m bench.files $(BENCH_ARGS)

bench-subjects: $(BENCH_READY) ## Publishing beside core NATS: make bench-subjects BENCH_ARGS=--quick
	$(BENCH_PY) -m bench.subjects $(BENCH_ARGS)

bench-spark: $(READY) ## Spark reads history and writes jobs: make bench-spark BENCH_ARGS='--only read'
	$(PY) -m bench.spark $(BENCH_ARGS)

bench-pipeline: $(READY) ## The tables of 5,000,000 events, beside DuckDB: make bench-pipeline BENCH_ARGS='--kills 20'
	$(PY) -m bench.pipeline $(BENCH_ARGS)

subjects: $(BENCH_READY) ## Patterns and subjects asked of a real NATS server and of rollq: make subjects BENCH_ARGS='--seed 2'
	$(BENCH_PY) -m bench.nats_subjects $(BENCH_ARGS)

fuzz: $(FUZZ_READY) ## Arbitrary bytes into all that strangers reach, 5,000,000 each: make fuzz FUZZ_ARGS='--only login,frame'
	nice -n 19 $(FUZZ_PY) -m tests.fuzz $(FUZZ_ARGS)

chaos: $(READY) ## Faults on real processes, 15 minutes, and a table: make chaos ROUNDS=leader-stop,leader-cut
	$(PY) -m bench.chaos --rounds '$(ROUNDS)' $(CHAOS_ARGS)

demo: $(READY) ## Three members, a thousand jobs, kill -9 of the leader; the history is checked and told as a page.
	$(PY) -m rollq demo

docs: $(READY) ## The site of docs/ in `site`; fails on a dead link.
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet

dist: $(READY) ## sdist and wheel, checked in an empty environment, SBOM, checksums: make dist SIGN_KEY=key.pem
	$(PY) -m tests.release $(SIGN_KEY:%=--sign-key %)

upgrade: $(READY) ## Three members with data go from an earlier commit to this one under load: make upgrade FROM=v0.1.0
	$(PY) -m tests.release.upgrade $(FROM)

coverage: $(READY) ## Line coverage of the pure packages; fails under 95 %.
	$(PY) -m coverage run -m pytest --ignore=tests/tidy
	$(PY) -m coverage report --include='$(PURE_FILES)' --fail-under=95

house: $(READY) ## Figures of the code: sizes, the files that one job touches, ambiguous names: make house LIST=long-calls
	@$(PY) -m tests.tidy.house $(LIST:%=--list %)

env: $(READY) ## Make the environment in .venv (the other targets do it by themselves).

# The stamp is younger than pyproject.toml if the environment holds what it asks for. An environment
# that somebody made by hand is brought up to date, never replaced.
$(READY): pyproject.toml
	@test -x $(PY) || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	    "rollq needs Python 3.11 or newer; say which: make PYTHON=python3.12 test")'
	@test -x $(PY) || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# The tests of the pages drive Chromium, which is a package of the system. Where it cannot be had
# they skip, and say so.
$(BROWSER): $(READY)
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	    echo "installing chromium" && apt-get -qq update && apt-get -qq install -y chromium >/dev/null; } || \
	    echo "no chromium here: the tests of the pages will be skipped (Debian: apt-get install chromium)"
	@touch $@

# The peers have an environment of their own: none of their libraries is among ours.
$(BENCH_READY): pyproject.toml
	@test -x $(BENCH_PY) || { echo "making $(BENCH_VENV)"; $(PYTHON) -m venv $(BENCH_VENV); }
	$(BENCH_PY) -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

$(FUZZ_READY): pyproject.toml
	@test -x $(FUZZ_PY) || { echo "making $(FUZZ_VENV)"; $(PYTHON) -m venv $(FUZZ_VENV); }
	$(FUZZ_PY) -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	@touch $@

# Every other version of Spark has an environment of its own.
.PRECIOUS: .venv-spark-4.%/.ready
.venv-spark-4.%/.ready: pyproject.toml
	@test -x $(@D)/bin/python || { echo "making $(@D)"; $(PYTHON) -m venv $(@D); }
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' 'pyspark[connect]==4.$*.*'
	@touch $@

# What connectors connect to pins versions of much else. The server of Prefect before 3.9 does not
# run with FastAPI 0.151 or newer, which it does not rule out.
CONNECTOR_NEEDS_prefect := 'fastapi<0.151'
.PRECIOUS: .venv-connectors-%/.ready
.venv-connectors-%/.ready: pyproject.toml
	@test -x $(@D)/bin/python || { echo "making $(@D)"; $(PYTHON) -m venv $(@D); }
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[$*,pickle]' 'pytest>=8.3' 'hypothesis>=6.110' $(CONNECTOR_NEEDS_$*)
	@touch $@

clean: ## Remove caches and build output; keeps .venv.
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
