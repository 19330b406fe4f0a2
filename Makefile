# SPDX-License-Identifier: MIT
# Every target installs what is missing first (scripts/install-deps). Variables: PREFIX for install,
# FILE for demo, JOBS for the number of compilers at once, BENCH_FLAGS for Bench/run,
# EXPLORE_SCALE for explore.
PREFIX ?= /usr/local
FILE ?= Docs/semantics.md
JOBS ?= 2
BENCH_FLAGS ?=
EXPLORE_SCALE ?= 12
SOAK_SCALE ?= 1
ATTACKS ?= 100
export JOBS SOAK_SCALE

.PHONY: all demo check check-arm64 explore sanitize bench bench-servers docs docs-check fuzz soak clients attacks deb install uninstall clean

all:
	scripts/install-deps build
	cmake -S . -B build -G Ninja
	ninja -C build -j $(JOBS)

demo:
	scripts/install-deps build
	scripts/demo "$(FILE)"

check:
	scripts/install-deps
	scripts/check

# Interleavings of the core, EXPLORE_SCALE times as long as in check (about twenty minutes), and every planted fault.
explore:
	scripts/install-deps
	cmake -S . -B build-explore -G Ninja -DRUNLOOP_EXPLORE=ON
	ninja -C build-explore -j $(JOBS)
	EXPLORE_SCALE=$(EXPLORE_SCALE) ctest --test-dir build-explore -j $$(($(JOBS) * 2)) --output-on-failure

sanitize:
	scripts/install-deps
	scripts/sanitize

# The library and its C tests for ARM64, in an emulator on another machine.
check-arm64:
	scripts/install-deps arm64
	scripts/check-arm64

# The manual, in build-docs/site: the guide, the headers, the examples and the Swift modules. A web server shows it:
# python3 -m http.server -d build-docs/site
docs:
	scripts/install-deps docs
	scripts/docs
	scripts/manual build-docs build-docs/RunLoop.doccarchive

# Every page of it in headless Chromium: links, scripts, a phone's width, and the search.
docs-check: docs
	scripts/install-deps docs-check
	Tests/Manual/check.py build-docs/site

# Figures of the library, in both builds, and of its peers, in one run: about twelve minutes. With
# BENCH_FLAGS=--quick two rough ones; with BENCH_FLAGS=--dear-clock every reading of a clock is a system call.
bench:
	scripts/install-deps bench
	cmake -S . -B build -G Ninja
	ninja -C build -j $(JOBS) bench-programs
	cmake -S . -B build-full -G Ninja -DRUNLOOP_CORE=full
	ninja -C build-full -j $(JOBS) runloop
	Bench/run $(BENCH_FLAGS) --full build-full --out build/bench.json build/Bench/programs
	Bench/report build/bench.json Docs/performance.md
	build/Bench/programs/locks

# Echo servers over the library and its peers, loaded by clients in another process: about seven minutes, with
# BENCH_FLAGS=--quick one. Then clients of Redis, over hiredis's adapters and ours: three minutes.
bench-servers:
	scripts/install-deps bench
	cmake -S . -B build -G Ninja
	ninja -C build -j $(JOBS) bench-servers
	Bench/servers/run $(BENCH_FLAGS) build/Bench/programs
	Bench/servers/run-redis $(BENCH_FLAGS) build/Bench/programs

# The decoders of what travels between message ports, and a hostile peer of live ones, against a coverage-guided fuzzer: fifteen
# minutes.
fuzz:
	scripts/install-deps
	cmake -S . -B build -G Ninja -DRUNLOOP_FUZZ_OPTIMIZE=ON
	ninja -C build fuzz

# What is promised, done very often: about an hour on two cores, times SOAK_SCALE.
soak:
	scripts/install-deps
	cmake -S . -B build -G Ninja -DRUNLOOP_FUZZ_OPTIMIZE=ON
	ninja -C build -j $(JOBS)
	swift build -j $(JOBS) --product RunLoopTestMachine
	scripts/soak build; result=$$?; scripts/reliability build/soak.json Docs/reliability.md; exit $$result

# Programs that are too large for check: Tcl on CoreFoundation's names, adapters with large peers; some ten minutes.
clients:
	scripts/install-deps clients
	cmake -S . -B build -G Ninja
	ninja -C build -j $(JOBS) runloop runloop_cf heavy_adapters
	scripts/clients build

# The tests that attack the Swift modules, ATTACKS times, each time in a new process.
attacks:
	scripts/install-deps build
	scripts/attacks $(ATTACKS)

# Debian packages of the committed tree, in build-deb: built, looked at by lintian, installed under a root of their own, used and removed.
deb:
	scripts/install-deps deb
	scripts/deb

# The library alone: neither tests nor examples are built.
install:
	scripts/install-deps build
	cmake -S . -B build-install -G Ninja -DRUNLOOP_TESTS=OFF
	ninja -C build-install -j $(JOBS)
	cmake --install build-install --prefix "$(PREFIX)"

# What install has put under the same PREFIX.
uninstall:
	scripts/uninstall "$(PREFIX)"

clean:
	rm -rf build build-full build-arm64 build-thread build-address build-install build-clients \
		build-docs build-deb build-explore build-swift-size .build .build-thread .build-address Integrations/.build
