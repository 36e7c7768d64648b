# make grade [SUBMISSION=folder]   grade a submission on the CPU backend, into score.json
# make test                        run all tests
# make lint | bench | clean        style and types | speed of the grader itself | start over
# make bench-gpu                   the LayerNorm solution on this machine's GPU, against its peers
#
# Everything is installed into .venv on the first run; only python3 (with headers), pip, g++ and
# make have to be there.
PYTHON     ?= python3
SUBMISSION ?= solution/layernorm
VENV       := .venv
READY      := $(VENV)/.ready
# what the native parts are compiled from: a change installs them anew
NATIVE     := $(shell find CMakeLists.txt pyproject.toml assignment grader/native grader/emulator \
                -name __pycache__ -prune -o -type f ! -name '*.md' ! -name '*.py' -print 2>/dev/null)

.PHONY: grade test lint bench bench-gpu gpu clean

grade: $(READY)
	@$(VENV)/bin/grader grade "$(SUBMISSION)" --backend cpu --json score.json
	@echo "Written to score.json"

test: $(READY)
	@$(VENV)/bin/python -m pytest -n 2 --dist worksteal

lint: $(READY)
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

bench: $(READY)
	@$(VENV)/bin/python tests/bench.py

# With the Python that has PyTorch, which .venv has not
bench-gpu:
	@$(PYTHON) tests/bench_gpu.py

# A venv without pip needs no ensurepip, which Debian ships separately; our own pip fills it.
# The build tools are run-time dependencies too, so the build uses those of the venv.
$(READY): $(NATIVE)
	@$(PYTHON) grader/doctor.py
	@echo "Installing into $(VENV) (once)..."
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv --without-pip $(VENV)
	@$(PYTHON) -m pip --python $(VENV)/bin/python install --quiet --disable-pip-version-check \
	    "scikit-build-core>=0.10" "pybind11>=2.13" "cmake>=3.24" "ninja>=1.11"
	@python=$$(command -v $(PYTHON)); PATH="$(CURDIR)/$(VENV)/bin:$$PATH" \
	    $$python -m pip --python $(VENV)/bin/python install \
	    --quiet --disable-pip-version-check --no-build-isolation --editable ".[test]"
	@touch $@

# NVIDIA's compiler and libraries from PyPI, for --backend cuda
gpu: $(READY)
	@python=$$(command -v $(PYTHON)); PATH="$(CURDIR)/$(VENV)/bin:$$PATH" \
	    $$python -m pip --python $(VENV)/bin/python install \
	    --quiet --disable-pip-version-check --no-build-isolation --editable ".[cuda]"

clean:
	rm -rf $(VENV) build score.json
