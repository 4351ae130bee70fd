# Two commands do all set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Where images forbid writing bytecode, every command that a test starts would compile torch and scikit-learn again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick lint types check clean

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

types: $(VENV)/.installed
	$(BIN)/mypy

check: lint types test

# uv installs in a sixth of pip's time; it does not read where pip looks for local wheels, so they are passed on.
# constraints.txt keeps every later install from replacing torch.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet uv
	UV_FIND_LINKS="$$PIP_FIND_LINKS" VIRTUAL_ENV=$(VENV) \
		$(BIN)/uv pip install --quiet --constraint constraints.txt --editable '.[all,dev]'
	touch $@

clean:
	rm -rf $(VENV) demo dist build
