# Two commands do everything on a fresh Debian 12 machine: `make demo` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: help install install-debezium demo acceptance soak bench test check fix lock clean

help:  ## Show these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

install: $(INSTALLED)  ## Install everything into .venv, Debian packages by apt-get where missing

$(INSTALLED): requirements.lock pyproject.toml ops/install-debian.sh ops/spark-submit
	ops/install-debian.sh
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	install -m 755 ops/spark-submit $(BIN)/spark-submit
	touch $@

demo: install  ## Run the whole pipeline on a private server with live traffic
	$(BIN)/python -m demo.run

# A file's tests share their servers. Not the files with the fewest tests last: they take longest.
IN_ORDER := --dist loadfile --no-loadscope-reorder

acceptance: install  ## Ten random seeds under each replica identity, then the slow tests: an hour
	WALTALLY_ALL_CASES=1 $(BIN)/python -m pytest -n 2 tests/acceptance
	WALTALLY_ALL_CASES=1 $(BIN)/python -m pytest -n 2 $(IN_ORDER) -m slow --ignore tests/acceptance
	WALTALLY_ALL_CASES=1 $(BIN)/python -m pytest tests/properties

soak: install  ## Random faults under load, both identities: make soak FAULTS=600 or MINUTES=20 SEED=1
	$(BIN)/python -m tests.soak --seed $(or $(SEED),1) $(if $(FAULTS),--faults $(FAULTS)) \
		--minutes $(or $(MINUTES),$(if $(FAULTS),100000,20))

test: check  ## Run every check and every test, two at a time: 8 minutes, with a percentage
	$(BIN)/python -m pytest -n 2 $(IN_ORDER)

check: install  ## Lint, types, dbt parse and unit tests: the gate before a commit
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy waltally loader spark demo tests benchmarks
	cd spark && PYTHONPATH=..:. ../$(BIN)/lint-imports --config ../pyproject.toml --no-cache
	$(BIN)/sqlfluff lint --disable-progress-bar dbt_project
	mkdir -p target && cp profiles.yml.example target/profiles.yml
	$(BIN)/dbt --quiet parse --profiles-dir target --no-send-anonymous-usage-stats
	$(BIN)/python -m pytest -q tests/unit

STAGES := capture apply freshness catch-up overhead seed growth idle
BENCHES := $(addprefix bench-,$(STAGES))
.PHONY: $(BENCHES)

bench: $(BENCHES)  ## Measure every stage, well over an hour; bench-capture and the like for one

bench-idle: MODULE := idle_wal
bench-catch-up: MODULE := catch_up
$(BENCHES): MODULE ?= $(@:bench-%=%)
$(BENCHES): install
	$(BIN)/python -m benchmarks.$(MODULE) $(ARGS)

install-debezium: install  ## Install the engine that bench-capture compares with, 400 MB
	test -x .venv-debezium/bin/python || $(PYTHON) -m venv .venv-debezium
	.venv-debezium/bin/python -m pip install --quiet --disable-pip-version-check \
		-r benchmarks/debezium-requirements.txt

fix:  ## Format and mend what the linters can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock:  ## Compile requirements.in into requirements.lock
	$(BIN)/pip-compile --quiet --upgrade --strip-extras --no-header --no-emit-index-url \
		--no-emit-find-links --no-emit-trusted-host -o requirements.lock requirements.in

clean:  ## Remove what was installed and built
	rm -rf .venv target logs .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
