# Everything a person does with this repository. `make help` lists it.
# A first `make demo` or `make test` sets the machine up; later ones find it done and need no network.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_READY := $(VENV)/.bench-ready
STORE_READY := $(VENV)/.store-ready
DEPLOY_READY := $(VENV)/.deploy-ready
PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(shell \
	$(name) -c 'import sys; print("$(name)") if sys.version_info >= (3, 11) else None' 2>/dev/null | grep -v None)))

.DEFAULT_GOAL := help
.PHONY: help install install-s3 demo test test-bench test-browser test-long test-mutations test-faults faults \
	test-dagster test-sources test-cluster test-object-store test-deploy lint format ui bench bench-cost lock clean

help: ## List what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

install: $(READY) ## Set up .venv: packages, Delta jars, a class-data archive, and Java if there is none

$(READY): requirements.lock requirements-jdk.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Tailrace needs Python 3.11 or newer on the PATH, or: make PYTHON=/path/to/python3.11"; exit 4; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m pipelines.runtime.java >/dev/null || { \
		echo "no Java 17 or 21 here: bringing one"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-jdk.lock && \
		$(BIN)/python -m pipelines.runtime.java --install-shim; }
	@echo 'bringing jars, and laying out the classes of a session, once: about a minute'
	$(BIN)/tailrace setup
	@touch $(READY)

install-s3: $(READY) ## Add what Spark needs for a lakehouse on S3: Hadoop's client, and a log store that loses no commit
	$(BIN)/tailrace setup --s3

demo: $(READY) ## Replay a year of real departures and show a week of it
	@$(BIN)/tailrace demo

test: $(READY) ## Run the tests, in two processes with one Spark session each
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --ignore tests/bench

test-bench: $(READY) ## Run the tests of the benchmark itself
	$(BIN)/python -m pytest tests/bench

lint: $(READY) ## Check style, types and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## Fix style automatically
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test-browser: $(READY) ## Look at the report in a real Chromium (found on the PATH, or named by TAILRACE_CHROMIUM)
	$(BIN)/python -m pytest tests/browser

test-long: $(READY) ## Run thousands of random cases, reference against Spark in two processes (an hour or more)
	TAILRACE_PROPERTY_CASES=2000 $(BIN)/python -m pytest -n 2 --dist load -m "slow or not slow" tests/properties \
		tests/engines/test_batch_methods.py

test-mutations: $(READY) ## Move a bound of each rule in each engine; the transcripts must fail (ONLY=S3, ONLY=live)
	$(BIN)/python tests/mutations.py $(ONLY)

test-faults: $(READY) ## Kill ingests, replays and the live run at bad moments (minutes)
	$(BIN)/python -m pytest -m slow tests/faults tests/engines

faults: $(READY) ## Kill, race, lay out and fuzz, and print one table (SEED=1 KILLS=200 RACES=100 LAYOUTS=100 RECORDS=1000000)
	@PYTHONPATH=tests/faults $(BIN)/python -W ignore tests/faults/table.py \
		$(foreach name,SEED KILLS REFUSALS RACES LAYOUTS FUZZ RECORDS,$(if $($(name)),--$(shell echo $(name) | tr A-Z a-z) $($(name))))

ui: $(READY) ## Open Dagster's UI on your job files (webserver, daemon and code, stopped together by Ctrl-C)
	@exec $(BIN)/python deploy/ui.py $(ARGS)

test-dagster: $(READY) ## Run Dagster end to end: backfills, kills, a broken day, its UI, PostgreSQL (half an hour)
	$(BIN)/python -m pytest -m slow tests/dagster

test-sources: $(READY) ## Ingest from a real Kafka broker, started on this machine from pinned jars (minutes)
	$(BIN)/python -m pytest -m slow tests/sources

test-cluster: $(READY) ## Run the demo and transcripts on a Spark master and workers of this machine, and kill workers (minutes)
	$(BIN)/python -m pytest -m slow tests/cluster

bench-cost: $(READY) ## Measure what a replay costs at 1, 10 and 30 times the demo (SIZE=1,10,100)
	PYTHONPATH=tests $(BIN)/python -m bench.cost $(if $(SIZE),--size $(SIZE))

test-object-store: $(STORE_READY) ## Work on S3: a real server on this machine, races of writers, lost answers (minutes)
	$(BIN)/python -m pytest -m slow tests/object_stores

$(STORE_READY): $(READY) requirements-store.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-store.lock
	@touch $(STORE_READY)

test-deploy: $(DEPLOY_READY) ## Check the files of deploy/ by their own tools, and run the image's build steps (minutes)
	$(BIN)/python -m pytest -m slow tests/deploy

$(DEPLOY_READY): $(READY) requirements-deploy.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-deploy.lock
	@touch $(DEPLOY_READY)

bench: $(BENCH_READY) ## Measure how fast exact is (SIZE=1,10 ARGS="--rounds 3 --only plain,window,tailrace")
	@PYTHONPATH=tests $(BIN)/python -m bench $(if $(SIZE),--size $(SIZE)) $(ARGS)
	@$(if $(SIZE)$(ARGS),,PYTHONPATH=tests $(BIN)/python -m bench.ingest --docs)

$(BENCH_READY): $(READY) requirements-bench.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock
	@touch $(BENCH_READY)

lock: $(READY) ## Pin what the files requirements*.in ask for, with hashes
	$(BIN)/uv pip compile --quiet --python-version 3.11 --universal --no-strip-extras --generate-hashes \
		--no-emit-index-url --no-header requirements.in -o requirements.lock
	$(BIN)/uv pip compile --quiet --python-version 3.11 --universal --no-strip-extras --generate-hashes \
		--no-emit-index-url --no-header requirements-jdk.in -o requirements-jdk.lock
	$(BIN)/uv pip compile --quiet --python-version 3.11 --universal --no-strip-extras --generate-hashes \
		--no-emit-index-url --no-header -c requirements.lock requirements-bench.in -o requirements-bench.lock
	$(BIN)/uv pip compile --quiet --python-version 3.11 --universal --no-strip-extras --generate-hashes \
		--no-emit-index-url --no-header -c requirements.lock requirements-store.in -o requirements-store.lock
	$(BIN)/uv pip compile --quiet --python-version 3.11 --universal --no-strip-extras --generate-hashes \
		--no-emit-index-url --no-header -c requirements.lock requirements-deploy.in -o requirements-deploy.lock
	$(BIN)/uv pip compile --quiet --python-version 3.11 --universal --no-strip-extras --generate-hashes \
		--no-emit-index-url --no-header -c requirements.lock deploy/requirements-image.in \
		-o deploy/requirements-image.lock

clean: ## Remove everything made here: environment, caches, the demo's lakehouse
	rm -rf $(VENV) lakehouse .dagster_home .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
		spark-warehouse metastore_db derby.log build dist *.egg-info
