# `make` alone lists the targets. Each makes what it needs: on a fresh clone the first one also builds the environment.

.DEFAULT_GOAL := help
SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

VENV := .venv
BIN := $(VENV)/bin
# Two at a time; tests that share the Spark session stay together.
PYTEST_ARGS ?= -n 2 --dist loadgroup
# The first Python that is new enough; PYTHON=… on the command line overrides.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
RUST := $(shell find crates -name target -prune -o -path '*/fuzz' -prune -o \( -name '*.rs' -o -name Cargo.toml \) -print) Cargo.toml

.PHONY: help demo test test-all kafka bench experiments check-experiments golden lint env clean check-python check-cargo check-java postgresql

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: env check-java ## Run a whole pipeline: messages, subscribers who come and go, files and a table out.
	$(BIN)/twigcast demo

test: env check-java postgresql ## Run the tests, but for the slow ones.
	cargo test -q -p twigcast-kernel -p twigcast-papers
	$(BIN)/python -m pytest -m 'not slow' $(PYTEST_ARGS)

test-all: env check-java postgresql ## Run every test, the slow ones too.
	cargo test -q --release -p twigcast-kernel -p twigcast-papers -- --include-ignored
	TWIGCAST_RANDOM_TESTS=1 $(BIN)/python -m pytest $(PYTEST_ARGS)

kafka: env check-java ## Fetch Spark's connector for Kafka, by Maven, into the cache folder.
	$(BIN)/python -m twigcast.spark.jars

bench: env check-java ## Run the benchmarks; results also go to benchmarks/results.
	$(BIN)/python -m benchmarks

experiments: env ## Run the papers' experiments again and write docs/experiments; takes half an hour of a quiet machine.
	$(BIN)/twigcast bench all --output docs/experiments

check-experiments: env ## Run them again and compare with the pages of docs/experiments.
	$(BIN)/twigcast bench all --check

golden: env check-java ## Rewrite the outputs of commands in tests/golden/expected, which the tests compare with.
	$(BIN)/python -m pytest tests/golden --rewrite-golden

lint: env ## Check style, types, the direction of imports, Rust warnings, and that known lapses do not grow.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=python $(BIN)/lint-imports --no-cache
	cargo fmt --all --check
	$(BIN)/python tools/ratchet.py
	cargo clippy -q -p twigcast-kernel -- -D warnings  # without what only crates/papers sees

env: $(VENV)/.kernel ## Build the environment in .venv: Python packages and the compiled kernel.

clean: ## Delete the environment and everything built.
	rm -rf $(VENV) target .cache .mypy_cache .ruff_cache .pytest_cache

# Stamps: packages again only when pyproject.toml changes, the kernel only when Rust sources do.
$(VENV)/.packages: pyproject.toml | check-python
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "error: $(PYTHON) cannot make a virtual environment; on Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(BIN)/pip install -q --upgrade 'pip>=25.1' 'maturin>=1.9,<2'
	$(BIN)/pip install -q --group dev
	@touch $@

$(VENV)/.kernel: $(RUST) $(VENV)/.packages | check-cargo
	env -u CONDA_PREFIX VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop -q --release --extras spark,postgres,kafka,duckdb,bench
	@touch $@

check-python:
	@test -n "$(PYTHON)" || { echo "error: Twigcast needs Python 3.11 or newer, and no python3 here is; install one from" \
		"your system (apt install python3 python3-venv, brew install python) or name it: make PYTHON=/path/to/python3" >&2; exit 1; }

check-cargo:
	@command -v cargo >/dev/null || { echo "error: Twigcast's kernel is Rust, and there is no cargo here; install it with" \
		"rustup (https://rustup.rs) and run make again" >&2; exit 1; }

# Tests start a PostgreSQL server of their own from these programs; where they cannot be had, those tests are skipped.
postgresql:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		export DEBIAN_FRONTEND=noninteractive; echo "installing PostgreSQL for the tests"; \
		apt-get install -qq -y postgresql >/dev/null 2>&1 || \
		{ apt-get update -qq >/dev/null 2>&1; apt-get install -qq -y postgresql >/dev/null 2>&1; } || \
		echo "note: PostgreSQL cannot be installed; its tests will be skipped"; \
	else echo "note: there is no PostgreSQL here (apt install postgresql); its tests will be skipped"; fi

check-java:
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	major=$$($$java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -1); \
	test "$${major:-0}" -ge 17 || { echo "error: Spark needs Java 17 or newer, and '$$java' is $${major:-not there}; install one" \
		"(apt install openjdk-17-jre-headless, brew install openjdk@17) or set JAVA_HOME" >&2; exit 1; }
