# The commands that people and CI use. `make help` lists them.
#
# Everything built or measured goes below target/; nothing reads standard input.

.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=

# How long `make soak` runs.
SOAK_MINUTES ?= 240

# How often it kills the real daemon or cuts its disk's power; 0 does not.
DAEMON_CYCLES ?= 2000

# How long it fuzzes each boundary; 0 does not.
FUZZ_SECONDS ?= 60

# Different images after a cut that it recovers (about 20 bytes of memory each); 0 does not.
IMAGES ?= 100000000

# Seeds of each script of `make twin`, and kills below each program.
TWIN_RUNS ?= 50

# Where cargo puts its output.
built := $(or $(CARGO_TARGET_DIR),target)
nearhead := $(built)/release/nearhead

# What the static binary is built for.
musl := $(shell uname -m)-unknown-linux-musl

.PHONY: help
help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

.PHONY: setup
setup: ## install what building and testing need, or say what is missing
	@scripts/install-deps test
	@$(CARGO) fetch --quiet || echo "setup: cannot fetch crates now (offline?); going on with what is here"

.PHONY: build
build: ## build the program, optimized: target/release/nearhead
	@scripts/install-deps build
	$(CARGO) build --release --package nearhead-cli

.PHONY: demo
demo: build ## see it work on an emulated disk: a table, and target/demo/report.html
	$(nearhead) demo --out target/demo

.PHONY: book
book: ## all documents as a book to read in a browser: target/book/index.html; needs mdbook
	@scripts/book

.PHONY: demo-postgres
demo-postgres: build ## PostgreSQL beside a backup, on plain ext4 and on Nearhead, on emulated disks; as root: target/demo-postgres
	@scripts/install-deps postgres
	@scripts/demo-postgres $(nearhead) $(DEMO_POSTGRES)

.PHONY: figures
figures: build ## the papers' figures on disk models, in virtual time: target/figures/report.html
	$(nearhead) figures --out target/figures

.PHONY: test
test: ## format, style, lints and every test
	@scripts/install-deps test
	@scripts/install-file-system-tests
	@scripts/install-python-tests
	@$(CARGO) run --quiet --package xtask -- ci

# Not part of `make test`: an emulated processor takes half an hour.
.PHONY: test-boot
test-boot: ## a machine that starts with a volume in fstab, by ublk, nbd and loop, in a guest; needs what test-guest does
	@scripts/test-boot $(or $(WAYS),ublk nbd loop)

.PHONY: test-guest
test-guest: ## attached volumes by ublk, nbd and loop, in a guest with a kernel of Debian's; needs qemu-system-x86, busybox-static, cpio and kmod
	@scripts/test-guest $(WAYS)

# Not part of `make test`: real ensembles of Java processes take minutes on two cores.
.PHONY: test-java
test-java: ## what runs in Java: client of the helper process, ZooKeeper agent, snapshot scheduler; needs mvn
	@scripts/test-java

.PHONY: soak
soak: fuzz images twin ## lives of volumes under faults and crashes for SOAK_MINUTES (240), on every core; fuzzing, images, the twin and the real daemon first
	EXHAUSTIVE_STRIDE=1 $(CARGO) test --quiet --package nearhead-swarm --test nth_failure
	$(CARGO) run --quiet --package xtask -- daemon --cycles $(DAEMON_CYCLES)
	$(CARGO) run --quiet --package xtask -- sim --minutes $(SOAK_MINUTES)

.PHONY: twin
twin: ## the same acts and programs on the kernel's block device and on ours, TWIN_RUNS (50) seeds or kills each; as root
	$(CARGO) build --quiet --package nearhead-cli --package nearhead-twin --package nearhead-preload
	@if [ $$(id -u) = 0 ]; then \
	    $(built)/debug/nearhead-twin all --seed $$(date +%s) --runs $(TWIN_RUNS); \
	else \
	    echo "twin: skipped: attaching takes root"; \
	fi

.PHONY: fuzz
fuzz: ## every boundary to hostile input for FUZZ_SECONDS (60) each
	@scripts/fuzz $(FUZZ_SECONDS)

.PHONY: images
images: ## IMAGES (100000000) outcomes of cuts in short workloads, on every core; IMAGES_FROM goes on at that workload
	@if [ $(IMAGES) -gt 0 ]; then \
	    IMAGES=$(IMAGES) EXHAUSTIVE_FROM=$(or $(IMAGES_FROM),0) $(CARGO) test --quiet \
	        --package nearhead-volume --test laws every_outcome -- --nocapture; \
	fi

.PHONY: bench
bench: build ## measure against the disk alone, nbdkit, qemu-nbd, fuse2fs and other logs: target/bench/bench.json
	@scripts/install-deps bench
	$(nearhead) bench --out target/bench

.PHONY: bench-zookeeper
bench-zookeeper: ## ensembles of ZooKeeper on one disk, stock and with ours; DIRECTORY names the disk: target/bench-zookeeper
	@scripts/bench-zookeeper $(if $(DIRECTORY),--directory $(DIRECTORY)) $(BENCH_ZOOKEEPER)

.PHONY: coverage
coverage: ## line coverage of format, engine and nbd, and whether it is what docs/testing.md promises
	$(CARGO) run --quiet --package xtask -- coverage

.PHONY: mutants
mutants: ## each small change to codecs, recovery and map, and whether a test notices (an hour or more)
	@$(CARGO) xtask mutants all

.PHONY: lint
lint: ## the quick part of `make test`: format, style rules, clippy
	$(CARGO) fmt --all -- --check
	$(CARGO) run --quiet --package xtask -- tidy
	$(CARGO) clippy --workspace --all-targets -- --deny warnings

.PHONY: fmt
fmt: ## format every source
	$(CARGO) fmt --all

.PHONY: deny
deny: ## licences, sources and known vulnerabilities of the dependencies
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
	    $(CARGO) deny check; \
	else \
	    echo "deny: cargo-deny is not installed; get it with: cargo install cargo-deny --locked"; \
	fi

.PHONY: docs
docs: build ## man pages and shell completions: target/docs
	$(nearhead) generate --out target/docs

.PHONY: libraries
libraries: ## build libnearhead_wal for C (shared and static), the helper and the library behind `nearhead run`
	@scripts/install-deps build
	$(CARGO) build --release --package nearhead-wal-c --package nearhead-preload --package nearhead-wal

.PHONY: wheel
wheel: libraries ## Python wheels of the log and of the simulator, tried in target/python-venv: target/wheel
	@scripts/install-python-tests
	rm -rf target/wheel-build && cp -r bindings/python target/wheel-build
	cp $(built)/release/libnearhead_wal_c.so target/wheel-build/nearhead_wal/libnearhead_wal.so
	python3 -m pip wheel --no-deps --wheel-dir target/wheel target/wheel-build \
	    --config-settings="--build-option=--plat-name=$$(python3 -c 'import sysconfig; print(sysconfig.get_platform().replace("-", "_"))')"
	target/python-venv/bin/maturin build --release --manifest-path bindings/python-study/Cargo.toml --out target/wheel
	target/python-venv/bin/python -m pip install --quiet --force-reinstall --no-deps target/wheel/nearhead*.whl
	target/python-venv/bin/python -m pytest -q -p no:cacheprovider bindings/python-study/tests
	cd target && python-venv/bin/python ../bindings/python/tests/check.py

# The deb and the static binary are tried by targets of their own, as they take root and minutes.
.PHONY: deb
deb: ## a Debian package: target/deb; needs cargo-deb
	@scripts/install-deps deb
	@$(MAKE) --no-print-directory docs libraries
	@scripts/build-deb

.PHONY: test-deb
test-deb: deb ## install, attach, upgrade while in use, remove and purge that package in a minimal Debian; as root
	@scripts/test-deb

.PHONY: static
static: ## one file that needs no library of the system (musl, without TLS-PSK): target/static/nearhead
	@scripts/install-deps static
	$(CARGO) build --release --target $(musl) --package nearhead-cli --no-default-features
	@install -D -m 755 --strip $(built)/$(musl)/release/nearhead target/static/nearhead
	@cp LICENSE-APACHE LICENSE-MIT target/static/
	@scripts/third-party-licences --filter-platform $(musl) --no-default-features > target/static/third-party-licences

.PHONY: test-static
test-static: static ## serve a volume with that file in a folder that has nothing else; as root
	@scripts/test-static

.PHONY: test-image
test-image: static ## build the last stage of the Dockerfile from that file, and serve with it; as root, with buildah
	@scripts/test-image

# What is put where is said in contrib/files.list. Neither of them builds anything, so that they work as root where only the user has Rust.
.PHONY: install
install: ## install the program, its man pages, completions, systemd units and generator, udev rule, alerts and dashboard below PREFIX
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install-files install

.PHONY: uninstall
uninstall: ## take away what `make install` put below PREFIX
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install-files uninstall

.PHONY: clean
clean: ## remove everything below target
	$(CARGO) clean
