# make install | demo | test | test-all | fuzz | lint | pictures | results | accuracy | learns | native | bench |
#      gpu-check | gpu-mutations | arm-check | sanitize | page | site | links
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# Without bytecode, each of the tests' processes would compile PyTorch and Lightning again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: site links page gpu-check gpu-mutations arm-check install demo test quick-tests test-all fuzz lint pictures results accuracy learns native bench bench-picture sanitize clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml examples/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile \
	  --constraint constraints.txt --editable ".[dev]" --editable ./examples
	touch $@

# The thesis in two steps: the numbers agree, and the graph alone decides what a model can know.
demo: install
	$(BIN)/edgewise verify
	rm -rf runs/demo
	$(BIN)/edgewise compare digit-rows model.graph "empty()" "window(1)" "window(2)" "window(4)" \
	  "window(1) | hubs([0])" "complete()" --seeds 3 --workers $(WORKERS) --test --out runs/demo
	$(BIN)/python -m edgewise_examples.row_picture runs/demo

# Eight to nine minutes of processor time. mypy has one process, so it runs beside the tests.
test: install
	$(MAKE) --no-print-directory --jobs 2 lint quick-tests

# Each worker begins with tests in a row, whose imports and trained models the other then need not
# make, too.
quick-tests: install
	$(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal

# Slow tests, too.
test-all: install lint
	$(BIN)/pytest -m "not accuracy and not learns" --numprocesses $(WORKERS) --dist worksteal

# Random graphs through every engine until it is stopped, or for SECONDS. Failures say how to repeat them.
SECONDS ?= inf
SEED ?= 0
fuzz: install
	$(BIN)/python -m tests.fuzz.engines --seed $(SEED) --seconds $(SECONDS) --workers $(WORKERS) --progress

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror src/edgewise/csrc/*.h src/edgewise/csrc/*.cpp tests/native/*.cpp

# Draws the pictures of graphs and encodings.
pictures: install
	$(BIN)/python docs/pictures.py

# The site, in build/site: pages are executed, and a warning, an exception, a broken link or a file
# of another host fails. Cells are executed again when they, or the library, have changed.
site: install
	rm -rf build/site/_modules  # Sphinx does not write it again when only the links from it change
	# After a change of the code, Sphinx would lose pages of source files that unchanged pages link to.
	test -z "$$(find src docs/_ext -name '*.py' -newer build/doctrees/environment.pickle 2>&1)" || rm -rf build/doctrees
	$(BIN)/python -m sphinx -b html -W --keep-going -j $(WORKERS) -d build/doctrees docs build/site
	$(BIN)/python docs/_ext/built_site.py build/site

# Whether the pages that the site links to on other hosts are there. Needs a network.
links: install
	$(BIN)/python -m sphinx -b linkcheck -j $(WORKERS) -d build/doctrees docs build/links

# Rewrites docs/background/results.md: trains every recipe and measures every baseline that is not
# measured as it is now, into runs/results, where a run that was stopped goes on. Hours from nothing;
# seconds when all is measured.
results: install
	$(BIN)/python docs/results.py --runs runs/results --train --baselines

# The page of `edgewise explain`: bundles its JavaScript and the licences into page.html (Node and npm).
PAGE := src/edgewise/explain/page
page:
	mkdir -p build/page
	cp $(PAGE)/package.json $(PAGE)/package-lock.json build/page
	npm ci --prefix build/page --no-audit --no-fund
	node $(PAGE)/build.mjs $(CURDIR)/build/page/node_modules

# Trains recipes to what they must not fall below, by their protocols: about three hours of one core, of
# which translation is one, so half that on two. `pytest -m accuracy -k gcn-cora` is one of them, in half
# a minute.
accuracy: install
	$(BIN)/pytest -m accuracy --numprocesses $(WORKERS) -vv --durations 0

# Trains each model for seconds on real data and compares it with the best constant prediction. The
# test suite includes five models. Add `-k gat` for one model.
learns: install
	$(BIN)/pytest -m "learns or not learns" tests/models/test_learns.py --numprocesses $(WORKERS) --durations 10

# The C++ kernels, in place beside their sources.
native:
	cmake -S . -B build/native -DEW_OUTPUT=$(CURDIR)/src/edgewise/engines/native
	cmake --build build/native --parallel 2

# The rows engine beside PyTorch Geometric: a table, and results.json.
bench: install
	$(BIN)/python -m benchmarks.cpu --json benchmarks/results.json

# Time and memory against the number of edges and of nodes, as a PNG.
bench-picture: install
	$(BIN)/python -m benchmarks.cpu.picture docs/background/scaling.png

# All that can be known of the GPU's kernels without a GPU, in ten minutes on two cores: they are run by
# Triton's interpreter, compiled for three machines, and what they move through memory is counted.
gpu-check: install
	TRITON_INTERPRET=1 EDGEWISE_TRITON=1 $(BIN)/pytest tests/triton --numprocesses $(WORKERS)
	EDGEWISE_FLEX=1 $(BIN)/pytest tests/engines/test_flex.py -k compiled
	TRITON_INTERPRET=1 EDGEWISE_TRITON=1 $(BIN)/python -W ignore -m tests.triton.traffic
	$(BIN)/python -W ignore -m tests.triton.compiled --workers $(WORKERS)
	$(BIN)/python -W ignore -m tests.triton.table --check

# Whether those tests would see a mistake: lines of the kernels written wrongly, one at a time.
gpu-mutations: install
	$(BIN)/python -m tests.triton.mutations --workers $(WORKERS)

# The kernels for 64-bit ARM, by a cross compiler and an emulator (Debian: g++-aarch64-linux-gnu and
# qemu-user-static). wheels.yml runs the kernels' tests on a real one.
ARM := aarch64-linux-gnu
arm-check:
	cmake -S . -B build/arm -DEW_OUTPUT=$(CURDIR)/build/arm -DCMAKE_CXX_COMPILER=$(ARM)-g++ \
	  -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64
	cmake --build build/arm --parallel 2
	$(ARM)-g++ -std=c++17 -O1 -Wall -Wextra -Werror -I src/edgewise/csrc tests/native/attention.cpp \
	  -o build/arm/attention -L build/arm -l edgewise_native -Wl,-rpath,'$$ORIGIN'
	qemu-aarch64-static -L /usr/$(ARM) build/arm/attention

# The kernels' tests under AddressSanitizer and UndefinedBehaviorSanitizer. Compiled code and memory
# limits mean nothing there.
SANITIZERS = $(foreach name,libasan.so libubsan.so libstdc++.so,$(shell $(CXX) -print-file-name=$(name)))
KERNEL_TESTS = $(addprefix tests/engines/test_,cases.py rows.py tiles.py)
sanitize: install
	cmake -S . -B build/sanitize -DEW_SANITIZE=ON -DEW_OUTPUT=$(CURDIR)/build/sanitize
	cmake --build build/sanitize --parallel 2
	for isa in base avx2 avx512; do \
	  EDGEWISE_ISA=$$isa EDGEWISE_NATIVE=$(CURDIR)/build/sanitize/libedgewise_native.so \
	  ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$(SANITIZERS)" \
	  $(BIN)/pytest -p no:cacheprovider -m "not learns" $(KERNEL_TESTS) -k "not memory and not compiles" || exit 1; \
	done

clean:
	rm -rf $(VENV) runs build dist .pytest_cache .mypy_cache .ruff_cache
