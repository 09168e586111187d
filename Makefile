# Two commands: `make demo` shows everything, `make test` proves it. Both set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := _build/demo
JOBS ?= 2

.PHONY: demo test lint lab book grade-class clean help

help:
	@echo "make demo   build the book, release the labs, grade the sample class"
	@echo "make test   the whole test suite"
	@echo "make lab    open JupyterLab on the labs"
	@echo "make book   build the book alone"

$(READY): requirements.txt constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "Python's venv module is missing. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

demo: book grade-class

book: $(READY)
	$(BIN)/kernelbook release
	$(BIN)/jupyter-book build . -W --keep-going --quiet
	@echo "The book: _build/html/index.html"

grade-class: $(READY)
	$(BIN)/kernelbook grade examples/class --out $(DEMO) --jobs $(JOBS)
	$(BIN)/kernelbook report $(DEMO)

# The course's own configuration hides what a learner does not need: nbgrader's menus, the news.
lab: $(READY)
	JUPYTER_CONFIG_PATH=$(CURDIR)/book/_jupyter $(BIN)/jupyter lab labs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md book chapters solutions kernelbook benchmarks

test: $(READY) lint
	$(BIN)/kernelbook release --check
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadgroup

clean:
	rm -rf _build
