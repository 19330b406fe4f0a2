#!/bin/sh
# SPDX-License-Identifier: MIT
# Every file that names the version has the headers' one, and linters have nothing to say against the recipes of packages. A linter
# that is missing is said, not missed.
# usage: packaging.sh SOURCE-FOLDER
set -eu
cd "$1"
status=0
# same FILE VERSION: the version that a file names.
same() { [ "$2" = "$version" ] || { echo "$1 has version $2, not $version"; status=1; }; }
version=$(sed -n 's/^#define RL_VERSION_[A-Z]* //p' include/runloop/base.h | paste -sd .)
same debian/changelog "$(sed -n '1s/^runloop (\(.*\)) .*/\1/p' debian/changelog)"
same python/pyproject.toml "$(sed -n 's/^version = "\(.*\)"$/\1/p' python/pyproject.toml)"
same packaging/rpm/runloop.spec "$(sed -n 's/^Version: *//p' packaging/rpm/runloop.spec)"
same packaging/rpm/runloop.spec "$(sed -n '/^%changelog/,$s/^\*.* - \(.*\)-[0-9]*$/\1/p' packaging/rpm/runloop.spec | head -n 1)"
same packaging/arch/PKGBUILD "$(sed -n 's/^pkgver=//p' packaging/arch/PKGBUILD)"
same packaging/alpine/APKBUILD "$(sed -n 's/^pkgver=//p' packaging/alpine/APKBUILD)"
grep -q "^## $version\$" CHANGELOG.md || { echo "CHANGELOG.md has no part about $version"; status=1; }

# The name of a file before the lists of files would be run as a command.
if sed -n '1,/^%files/p' packaging/rpm/runloop.spec | grep -E '^(/|%\{_[a-z]*dir\})'; then status=1; fi

linted() { command -v "$1" >/dev/null 2>&1 || { echo "$1 is missing"; return 1; }; }
if linted shellcheck; then shellcheck packaging/arch/PKGBUILD packaging/alpine/APKBUILD || status=1; fi
if linted rpmspec; then rpmspec --parse packaging/rpm/runloop.spec >/dev/null || status=1; fi
if linted rpmlint; then
    # It asks for a tag that rpm has not needed for many years.
    if rpmlint packaging/rpm/runloop.spec | grep -E ' [EW]: ' | grep -v no-buildroot-tag; then status=1; fi
fi
exit $status
