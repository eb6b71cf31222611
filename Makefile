# Two commands do everything on a fresh Debian or Ubuntu machine: `make demo` and `make test`.
# PG=17 or PG_BIN=FOLDER chooses the PostgreSQL server, PYTHON the interpreter, JAVA_HOME Java.

BIN := .venv/bin
INSTALLED := .venv/.installed
CLASSES := .venv/spark-classes.jsa
# pip is what an environment gets last: one that was interrupted before is made anew.
has_pip = test -x $(1)/bin/python -a -x $(1)/bin/pip
# On a terminal pip draws its progress, in a log it writes plain lines. The lock file names every package, so
# pip resolves nothing, which takes it a minute; `pip check` shows a lock file that lacks one.
PIP := $(BIN)/python -m pip install --disable-pip-version-check \
	--progress-bar $(shell [ -t 2 ] && echo on || echo off)

# The caller's own Spark and a pip that installs for the user would both miss .venv.
unexport SPARK_HOME SPARK_CONF_DIR PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON PYSPARK_SUBMIT_ARGS
# With it each of the many processes would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
export PIP_USER := 0

.PHONY: help packages install spark-bundle browser demo acceptance mutants soak bench test check fix lock clean

help:  ## Show these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

install: $(INSTALLED) $(CLASSES)  ## Install everything into .venv, Debian packages by apt-get where missing

packages:
	@ops/install-debian.sh

$(INSTALLED): requirements.lock pyproject.toml ops/spark-submit | packages
	@$(call has_pip,.venv) || { python=$$(ops/find-python) && "$$python" -m venv --clear .venv; }
	@echo "Fetching Python packages into .venv: 640 MB, of which pyspark is 456 MB"
	@$(PIP) --no-deps --no-compile -r requirements.lock
	@$(PIP) --quiet --no-deps --editable .
	@$(BIN)/python -m pip check
	@install -m 755 ops/spark-submit $(BIN)/spark-submit
	@touch $@

# A job need not read and verify them then.
$(CLASSES): spark/classes.py | $(INSTALLED)
	@echo "Storing the classes that Spark loads, so that jobs start faster: up to a minute"
	@rm -f $@
	-@$(BIN)/spark-submit --driver-java-options "-XX:ArchiveClassesAtExit=$@ -Xlog:disable" $<

demo: install  ## Run the whole pipeline on a private server; EXAMPLE=shop, time_entries or tpch, ARGS=--page
	$(BIN)/python -m demo.run $(if $(EXAMPLE),--example $(EXAMPLE)) $(ARGS)

# 113 MB, so not in `make install`. Where there is none, the test of a page is skipped.
browser:
	@-CHROMIUM=1 ops/install-debian.sh

acceptance: install browser  ## Run every slow and exhaustive test, three at a time
	@echo "Slow and exhaustive tests: random histories, crashes, Spark jobs"
	@WALTALLY_ALL_CASES=1 $(BIN)/python -m pytest -v -n 3 --dist worksteal -m "slow or larger"

mutants: install  ## Break the product in many small ways; say what no test finds: make mutants ONLY=lock
	$(BIN)/python -m tests.mutants $(if $(ONLY),--only "$(ONLY)")

soak: install  ## Inject random faults under load: make soak FAULTS=600, or MINUTES=20 SEED=1
	$(BIN)/python -m soak --seed $(or $(SEED),1) $(if $(FAULTS),--faults $(FAULTS)) \
		--minutes $(or $(MINUTES),$(if $(FAULTS),100000,20))

# The tests of a file share its servers, and those of Spark a JVM. tests/conftest.py has the order:
# xdist would start the files with the fewest tests last, and those take longest.
test: install  ## Run every check and every test but the slow ones, four at a time
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync=line $(CHECKS)
	@echo "Tests on real servers, four at a time"
	@$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder --durations 15 --ignore tests/unit

check: install  ## Lint, types, import rules, dbt parse and unit tests: the gate before a commit
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync=line $(CHECKS)

# The longest first, so that the two that run at a time end together.
CHECKS := check-types check-unit check-sql check-python
.PHONY: $(CHECKS)

check-python:
	@echo "Lint and format of Python (ruff)"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@echo "Import rules (import-linter)"
	@found=$$(PYTHONPATH=spark $(BIN)/lint-imports --no-cache --no-logo) || { echo "$$found"; exit 1; }

check-types:
	@echo "Types (mypy)"
	@$(BIN)/mypy --no-error-summary waltally loader spark testkit soak demo examples tests benchmarks \
		docs/site dbt_project/describe_macros.py

check-sql:
	@echo "Lint of SQL (sqlfluff)"
	@$(BIN)/sqlfluff lint --disable-progress-bar dbt_project examples/*/models $(addprefix loader/staging/,views functions migrations)
	@echo "dbt parse"
	@mkdir -p target && cp profiles.yml.example target/profiles.yml
	@$(BIN)/dbt --quiet parse --profiles-dir target --no-send-anonymous-usage-stats

check-unit:
	@echo "Unit tests (pytest)"
	@$(BIN)/python -m pytest -q tests/unit

RELEASE := .venv-release/bin
.PHONY: release

# The environment has only what the wheel itself asks for, with the versions of the lock.
release: install  ## Build sdist and wheel into dist/, and run the demo from the wheel
	rm -rf dist .venv-release
	$(BIN)/python -m build --outdir dist .
	WALTALLY_WHEEL=$$(echo dist/*.whl) $(BIN)/python -m pytest -q tests/unit/test_wheel.py
	$(BIN)/python -m venv .venv-release
	$(RELEASE)/python -m pip install --quiet --disable-pip-version-check \
		--constraint requirements.lock "$$(echo dist/*.whl)[dbt,spark,init]"
	install -m 755 "$$($(RELEASE)/loader files)/ops/spark-submit" $(RELEASE)/spark-submit
	$(RELEASE)/loader --version
	$(BIN)/python -m demo.run --wheel $(RELEASE) $(if $(EXAMPLE),--example $(EXAMPLE))

.PHONY: lint-containers

# Not in `make check`, because of its 34 MB.
lint-containers: install  ## Check ops/ by hadolint and by Kubernetes' own schemas, in an environment of its own
	$(call has_pip,.venv-lint) || $(BIN)/python -m venv --clear .venv-lint
	.venv-lint/bin/python -m pip install --quiet --disable-pip-version-check -r ops/lint-requirements.txt
	.venv-lint/bin/hadolint ops/Containerfile ops/compose/*.Containerfile
	.venv-lint/bin/kubernetes-validate --strict --kubernetes-version 1.31 \
		$(filter-out %/kustomization.yaml,$(wildcard ops/kubernetes/*.yaml))

DBT_DOCS := target/dbt-docs/index.html
.PHONY: docs

# The site opens from the disk. Its packages are no part of requirements.lock. Not `mkdocs --quiet`:
# strict mode would not see the warnings.
docs: $(DBT_DOCS) .venv-docs/.installed  ## Build the docs as a site, with dbt's own beside them: target/site/index.html
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build

.venv-docs/.installed: docs/site/requirements.txt | $(INSTALLED)
	$(call has_pip,.venv-docs) || $(BIN)/python -m venv --clear .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $<
	@touch $@

$(DBT_DOCS): docs/site/dbt_docs.py dbt_project.yml \
		$(shell find dbt_project examples/notify/models -name '*.sql' -o -name '*.yml') | $(INSTALLED)
	$(BIN)/python dbt_project/describe_macros.py
	$(BIN)/python -m docs.site.dbt_docs $(@D)

PROMETHEUS := target/prometheus

# Debian's package is unpacked here: installed, it would start a server.
$(PROMETHEUS)/usr/bin/promtool:
	mkdir -p $(PROMETHEUS)
	cd $(PROMETHEUS) && apt-get download prometheus && dpkg -x prometheus_*.deb .

.PHONY: lint-alerts
lint-alerts: $(PROMETHEUS)/usr/bin/promtool  ## Check and try the alert rules by promtool of Debian's package prometheus, 19 MB
	$(PROMETHEUS)/usr/bin/promtool check rules ops/prometheus-alerts.yml
	$(PROMETHEUS)/usr/bin/promtool test rules tests/operations/alerts.test.yml

STAGES := capture apply freshness overhead seed models queries dashboards
BENCHES := $(addprefix bench-,$(STAGES))
.PHONY: $(BENCHES) bench-gate

bench: $(BENCHES)  ## Measure every stage, well over an hour; bench-capture and the like for one

$(BENCHES): install
	$(BIN)/python -m benchmarks.$(@:bench-%=%) $(ARGS)

bench-gate: install  ## Fail where apply, capture or freshness got worse since the last release, or BASE=REVISION
	$(BIN)/python -m benchmarks.gate $(if $(BASE),--base $(BASE)) $(ARGS)

spark-bundle: install  ## Pack into target/spark what a Spark cluster needs (docs/spark.md)
	$(BIN)/python ops/spark_bundle.py target/spark

fix:  ## Format, mend what the linters can, and write what pages repeat of the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	PYTHONPATH=spark $(BIN)/python -m docs.site.generated

lock:  ## Compile pyproject.toml and requirements.in into requirements.lock; UPGRADE=1: the newest versions
	$(BIN)/pip-compile --quiet $(if $(UPGRADE),--upgrade) --strip-extras --no-header --no-emit-index-url \
		--no-emit-find-links --no-emit-trusted-host --unsafe-package pip --extra dbt --extra spark --extra connect --extra init --extra tpch \
		-o requirements.lock pyproject.toml requirements.in

clean:  ## Remove what was installed and built
	rm -rf .venv .venv-lint .venv-docs .venv-release dist build target logs .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
