# `make demo` and `make test` work as the first command on a machine that has Python and make:
# whatever needs the environment depends on it, and the environment depends on its recipe.

PYTHON ?= python3
ARGS   ?=

VENV   := .venv
BIN    := $(VENV)/bin
LOCKED := $(VENV)/.locked
READY  := $(VENV)/.ready
OWN    := --quiet --no-deps --no-build-isolation --editable .
FLOORS := mechanisms transforms pipelines hushbeam

# Test processes number as many as cores, so a matrix product gets one thread: more would wait
# for each other, turning, for up to five times the work itself.
TESTS := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

# Processes are many, and uv compiles no modules: the first to import one does, for all of them,
# even where the environment (as in some images) would have each process do it again.
export PYTHONDONTWRITEBYTECODE :=

# A notice that pip has a newer version is noise: which pip runs does not matter here.
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: demo test verify test-engines test-site test-clients test-rust two-organisations fuzz strangers soak mutants check format bench lock image image-base sbom docs notebooks dist clean help

demo: $(READY)  ## publish a real log on this machine and show the release
	$(BIN)/python examples/demo.py $(ARGS)

# In an order that is drawn anew each time: ARGS=--randomly-seed=N repeats the one whose N was shown.
test: $(READY)  ## run the tests on every core; ARGS="-k shuffle" picks some
	$(TESTS) -m "not verify" --durations=10 $(ARGS)

verify: $(READY)  ## run what `make test` leaves out: slow, statistical, or the work of many processes
	$(TESTS) -m verify --durations=10 $(ARGS)

# Apart from `test`, which must not hang on a download: Go builds Prism and Maven brings Flink, once.
# Pub/Sub's emulator is Debian's google-cloud-cli-pubsub-emulator, or HUSHBEAM_PUBSUB_EMULATOR=its-jar.
test-engines: $(READY)  ## run plans on Prism, Flink and a Flink cluster, kill their processes; Pub/Sub (needs go, mvn, java 17, 6 GB; 20 minutes)
	$(BIN)/python -m pytest tests/engines/flights_on_engines.py tests/engines/flink_cluster.py tests/engines/reports_over_pubsub.py --timeout=0 --durations=0 $(ARGS)

# In a real browser: Debian's chromium (apt-get install chromium), or another one of that name.
test-site: $(READY)  ## look at sites, pages and documentation in a browser, on screens wide and narrow (needs chromium)
	$(TESTS) tests/browser/*_in_browser.py --durations=5 $(ARGS)

# Node, npm's pinned packages, and a browser: Debian's chromium, or CHROMIUM=its-path. Without them it fails.
CLIENTS := clients/typescript
test-clients: $(READY)  ## run the TypeScript client in Node and in chromium (needs node 20, chromium)
	npm ci --prefix $(CLIENTS) --no-audit --no-fund
	npm run --prefix $(CLIENTS) build
	npm test --prefix $(CLIENTS)
	$(TESTS) tests/clients/typescript_reports.py --durations=0 $(ARGS)

two-organisations: $(READY)  ## run services of two organisations, clients, and a verifier of the figure; ARGS=--stay waits for a browser
	$(BIN)/python deploy/two-organisations/run.py $(ARGS)

# Crates come with cargo, as Cargo.lock pins them. WebAssembly and Kotlin are left out, by name, where
# their tools are not: rustup's target wasm32-unknown-unknown and node; java 17 and mvn.
RUST        := clients/rust
RUST_TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/$(RUST)/target)
CARGO       := cd $(RUST) && CARGO_TARGET_DIR=$(RUST_TARGET) cargo
WASM        := wasm32-unknown-unknown
KOTLIN      := $(RUST_TARGET)/kotlin
# Other features, or examples left out, have cargo compile nearly every crate once more.
WHOLE       := --locked --workspace --features hushbeam-client/bindgen
test-rust: $(READY)  ## run the Rust client, and its bindings for C, WebAssembly and Kotlin (needs cargo; node, java 17, mvn)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --features hushbeam-client/uniffi --all-targets -- -D warnings
	$(CARGO) clippy --locked --package hushbeam --no-default-features -- -D warnings
	$(CARGO) clippy --locked --package hushbeam-client -- -D warnings
	$(CARGO) build $(WHOLE) --lib --bins --examples
	$(CARGO) test $(WHOLE)
	if [ -d "$$(rustc --print target-libdir --target $(WASM))" ] && command -v node >/dev/null; then \
	  ($(CARGO) build --locked --release --package hushbeam-client --target $(WASM)) && \
	  HUSHBEAM_WASM=$(RUST_TARGET)/$(WASM)/release/hushbeam_client.wasm node --test $(RUST)/bindings/wasm/; \
	else echo "no target $(WASM), or no node: WebAssembly was not tested"; fi
	if command -v mvn >/dev/null && command -v java >/dev/null; then \
	  for language in kotlin swift; do (cd $(RUST) && $(RUST_TARGET)/debug/uniffi-bindgen generate --no-format \
	    --language $$language --out-dir $(KOTLIN)/$$language $(RUST_TARGET)/debug/libhushbeam_client.so) || exit 1; done && \
	  mvn --batch-mode --quiet --file $(RUST)/bindings/kotlin/pom.xml test -Dhushbeam.generated=$(KOTLIN)/kotlin \
	    -Dhushbeam.library=$(RUST_TARGET)/debug; \
	else echo "no java or mvn: Kotlin was not tested"; fi
	$(TESTS) tests/clients/rust_reports.py --durations=0 $(ARGS)

fuzz: $(READY)  ## run the fuzzing tests on 10,000 examples each; HUSHBEAM_EXAMPLES=N takes N
	HUSHBEAM_EXAMPLES=$${HUSHBEAM_EXAMPLES:-10000} $(TESTS) -k fuzz --timeout=0 --durations=10 $(ARGS)

# Folders of parquet-testing, arrow-testing, ORC's examples and the like; another one: STRANGERS=FOLDER.
STRANGERS ?= ../shared/strangers
strangers: $(READY)  ## run the commands over files that nobody here wrote, held to other readers; STRANGERS=FOLDER names them
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m tests.strangers $(STRANGERS) $(ARGS)

# As many kills of each command in each place as --kills says; --seed repeats the moments.
soak: $(READY)  ## kill, stop, cut the power, live through a month; ARGS="--kills 200"
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak $(ARGS)

mutants: $(READY)  ## plant bugs in copies of the tree, name the test that catches each; ARGS=--list
	$(BIN)/python -m tests.mutants $(ARGS)

check: $(READY)  ## lint, formatting, types, the three floors, the examples in docstrings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(TESTS) --quiet --doctest-modules $(FLOORS)

format: $(READY)  ## rewrite the sources the way `check` wants them
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(READY)  ## measure, side by side with the peers
	$(BIN)/python -m benchmarks $(ARGS)

# One file serves every Python that pyproject.toml names: where two of them need different
# versions, a marker on the line says which. Pins that still fit are kept; to move
# on, `make lock ARGS=--upgrade`. uv has a file of its own: it installs what the other one names,
# and belongs neither into an image nor into what is said to be in one.
PIN := $(BIN)/python -m uv pip compile --quiet --universal --python-version 3.10 \
  --generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"
lock: $(READY)  ## pin again what pyproject.toml asks for, and uv
	$(PIN) $(ARGS) --extra test --output-file requirements.lock pyproject.toml
	echo uv | $(PIN) $(ARGS) --output-file deploy/uv.txt -

# The digest is what the registry says the tag means now; written into the build, and never made up.
# The Flex Template's image, which needs Google's launcher: deploy/README.md.
SDK ?= apache/beam_python3.11_sdk:$(shell sed -n 's/^apache-beam==\([^ ]*\).*/\1/p' requirements.lock)
image:  ## build the image of the command and of workers (needs a builder: docker)
	@digest=$$(docker buildx imagetools inspect $(SDK) --format '{{.Manifest.Digest}}') && \
	  docker build --file deploy/Dockerfile --build-arg "SDK=$(SDK)@$$digest" --target hushbeam --tag hushbeam $(ARGS) .

image-base:  ## print the name of the image that `make image` builds on
	@echo $(SDK)

sbom: $(READY)  ## print what the image is made of, as CycloneDX
	@$(BIN)/python deploy/sbom.py

docs: $(READY)  ## build the documentation as a site into build/docs; a link that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet $(ARGS)
	@echo "build/docs/index.html"

notebooks: $(READY)  ## execute docs/notebooks anew, which draws the figures of docs/choosing.md
	$(BIN)/python deploy/notebooks.py docs/notebooks/*.ipynb

dist: $(READY)  ## build the packages for PyPI and npm of the last commit into dist, with their hashes
	$(BIN)/python deploy/distributions.py dist

clean:  ## remove all that make made
	rm -rf $(VENV) build deploy/device/build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf $(CLIENTS)/node_modules $(CLIENTS)/dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Two stamps, because they go stale for two reasons: new pins call for a new environment
# (--clear, so that nothing unpinned lingers), new metadata only for the project's own
# entry. Each is touched last, so an install that fails or is interrupted is done again.
$(READY): pyproject.toml setup.py $(LOCKED)
	@echo "installing hushbeam itself, as it stands here"
	@$(BIN)/python -m uv pip install --python $(BIN)/python $(OWN) 2>/dev/null || \
	  $(BIN)/python -m pip install $(OWN)
	@touch $@

$(LOCKED): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || \
	  { echo "hushbeam needs Python 3.10 to 3.13, which '$(PYTHON)' is not: name another, as in 'make PYTHON=python3.12 test'" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "'$(PYTHON)' cannot make virtual environments: install its venv package (Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@echo "installing the pinned packages into $(VENV) (once)"
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python deploy/packages.py requirements.lock
	@touch $@
