# envhub: `make serve` starts the hub, `make test` proves it. Both build .venv from the lock first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup serve test lint types unit format bench demo reference evidence audit lock clean

help: ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## build .venv from requirements.lock

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "envhub needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

serve: setup ## start the hub with the shipped environments on 127.0.0.1:8765
	$(BIN)/envhub serve

demo: setup ## one group of 8 episodes through a real MCP client
	$(BIN)/envhub demo

test: lint types unit ## everything CI runs

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

unit: setup
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

format: setup ## reformat and mend what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## measure, each figure beside its baseline of the same run
	$(BIN)/python -m tests.benchmarks

reference: setup ## write docs/reference.md and docs/api.md from the code
	$(BIN)/python -m tests.end_to_end.reference
	$(BIN)/python -m tests.end_to_end.api_reference

evidence: setup ## the long checks: every attack with every layer left out in turn, 100,000 random frames, 20,000 random requests
	$(BIN)/python -m tests.security --layers
	$(BIN)/python -m tests.security --layers --user 65534 || test $$? = 77
	$(BIN)/python -m tests.security.fuzz 100000
	$(BIN)/python -m tests.environments.synthesis.evidence
	$(BIN)/python -m tests.security.requests 20000

audit: ## known vulnerabilities in requirements.lock: error 1; error 75 where nobody could be asked
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/python -m pip install --quiet --disable-pip-version-check 'pip-audit>=2.9,<3'
	@$(VENV)-audit/bin/python -m tests.security.audit; code=$$?; rm -rf $(VENV)-audit; exit $$code

lock: ## resolve requirements.lock anew from pyproject.toml
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet 'uv>=0.9,<1'
	$(VENV)-lock/bin/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-emit-find-links --quiet --output-file requirements.lock \
		--custom-compile-command 'make lock'
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) .cache build dist
