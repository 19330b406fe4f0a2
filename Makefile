# Every target installs what is missing first (scripts/install-deps). Variables: PREFIX for install,
# FILE for demo, JOBS for the number of compilers at once.
PREFIX ?= /usr/local
FILE ?= Docs/semantics.md
JOBS ?= 2
export JOBS

.PHONY: all demo check sanitize bench install clean

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

sanitize:
	scripts/install-deps
	scripts/sanitize

# Figures beside CoreFoundation's, in one run.
bench:
	scripts/install-deps
	cmake -S . -B build -G Ninja
	ninja -C build bench

# The library alone: neither tests nor examples are built.
install:
	scripts/install-deps build
	cmake -S . -B build-install -G Ninja -DRUNLOOP_TESTS=OFF
	ninja -C build-install -j $(JOBS)
	cmake --install build-install --prefix "$(PREFIX)"

clean:
	rm -rf build build-full build-thread build-address build-install build-clients \
		.build .build-thread .build-address
