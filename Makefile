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

# Where cargo puts its output.
built := $(or $(CARGO_TARGET_DIR),target)
nearhead := $(built)/release/nearhead

# Of the workspace.
version := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)

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

.PHONY: figures
figures: build ## the papers' figures on disk models, in virtual time: target/figures/report.html
	$(nearhead) figures --out target/figures

.PHONY: test
test: ## format, style, lints and every test
	@scripts/install-deps test
	@scripts/install-file-system-tests
	@$(CARGO) run --quiet --package xtask -- ci

# Not part of `make test`: an emulated processor takes half an hour.
.PHONY: test-guest
test-guest: ## attached volumes by ublk, nbd and loop, in a guest with a kernel of Debian's; needs qemu-system-x86, busybox-static, cpio and kmod
	@scripts/test-guest $(WAYS)

# Not part of `make test`: real ensembles of Java processes take minutes on two cores.
.PHONY: test-java
test-java: ## what runs in Java: client of the helper process, ZooKeeper agent, snapshot scheduler; needs mvn
	@scripts/test-java

.PHONY: soak
soak: fuzz images ## lives of volumes under faults and crashes for SOAK_MINUTES (240), on every core; fuzzing, images and the real daemon first
	$(CARGO) run --quiet --package xtask -- daemon --cycles $(DAEMON_CYCLES)
	$(CARGO) run --quiet --package xtask -- sim --minutes $(SOAK_MINUTES)

.PHONY: fuzz
fuzz: ## every boundary to hostile input for FUZZ_SECONDS (60) each
	@scripts/fuzz $(FUZZ_SECONDS)

.PHONY: images
images: ## IMAGES (100000000) outcomes of cuts in short workloads, on every core; IMAGES_FROM goes on at that workload
	@if [ $(IMAGES) -gt 0 ]; then \
	    IMAGES=$(IMAGES) EXHAUSTIVE_FROM=$(or $(IMAGES_FROM),0) $(CARGO) test --quiet --profile sim \
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
wheel: libraries ## a Python wheel with the library inside: target/wheel
	rm -rf target/wheel-build && cp -r bindings/python target/wheel-build
	cp $(built)/release/libnearhead_wal_c.so target/wheel-build/nearhead_wal/libnearhead_wal.so
	python3 -m pip wheel --no-deps --wheel-dir target/wheel target/wheel-build \
	    --config-settings="--build-option=--plat-name=$$(python3 -c 'import sysconfig; print(sysconfig.get_platform().replace("-", "_"))')"

# Builds nothing, so that it works as root where only the user has Rust.
.PHONY: install
install: ## install the program, its man pages, completions, systemd units, udev rule, alerts and dashboard below PREFIX
	@if [ ! -x $(nearhead) ] || [ ! -d target/docs ]; then \
	    echo "install: expected $(nearhead) and target/docs, found none; run first: make docs" >&2; \
	    exit 1; \
	fi
	install -D -m 755 $(nearhead) $(DESTDIR)$(PREFIX)/bin/nearhead
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/lib/systemd/system
	find target/docs -name '*.1' -exec install -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 {} +
	install -D -m 644 "$$(find target/docs -name nearhead.bash)" \
	    $(DESTDIR)$(PREFIX)/share/bash-completion/completions/nearhead
	install -D -m 644 "$$(find target/docs -name _nearhead)" \
	    $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_nearhead
	install -D -m 644 "$$(find target/docs -name nearhead.fish)" \
	    $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/nearhead.fish
	if [ -f $(built)/release/libnearhead_wal_c.so ]; then \
	    install -D -m 755 $(built)/release/libnearhead_wal_c.so $(DESTDIR)$(PREFIX)/lib/libnearhead_wal.so; \
	    install -D -m 644 $(built)/release/libnearhead_wal_c.a $(DESTDIR)$(PREFIX)/lib/libnearhead_wal.a; \
	    install -D -m 644 crates/wal-c/include/nearhead_wal.h $(DESTDIR)$(PREFIX)/include/nearhead_wal.h; \
	    install -D -m 644 crates/preload/include/nearhead_durability.h $(DESTDIR)$(PREFIX)/include/nearhead_durability.h; \
	    install -D -m 755 $(built)/release/nearhead-wal-helper $(DESTDIR)$(PREFIX)/bin/nearhead-wal-helper; \
	    install -D -m 755 $(built)/release/libnearhead_preload.so $(DESTDIR)$(PREFIX)/lib/nearhead/libnearhead_preload.so; \
	    install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig; \
	    sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(version)|' crates/wal-c/nearhead_wal.pc.in \
	        > $(DESTDIR)$(PREFIX)/lib/pkgconfig/nearhead_wal.pc; \
	else \
	    echo "install: without libnearhead_wal and nearhead run; for them run first: make libraries"; \
	fi
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/nearhead contrib/prometheus/alerts.yml contrib/grafana/nearhead.json
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/udev/rules.d contrib/udev/70-nearhead.rules
	for unit in contrib/systemd/*.service contrib/systemd/*.socket; do \
	    sed 's|/usr/local/bin/|$(PREFIX)/bin/|' "$$unit" \
	        > $(DESTDIR)$(PREFIX)/lib/systemd/system/"$${unit##*/}"; \
	done

.PHONY: clean
clean: ## remove everything below target
	$(CARGO) clean
