#!/bin/sh
# SPDX-License-Identifier: MIT
# Programs outside the package that use it in each of the ways it can be used, and one that uses it in the
# way it cannot. Builds without a network: nothing here has a remote dependency.
# usage: run.sh [PREFIX [LIBDIR [WORK-FOLDER]]]
#   PREFIX       where the library is installed, with its pkg-config file in PREFIX/LIBDIR/pkgconfig; without
#                it the library built in the folder build is installed to a temporary one
#   LIBDIR       as CMake has it, "lib" unless given
#   WORK-FOLDER  keeps what is built, which makes the next run quick; a temporary folder otherwise
set -eu
here=$(cd "$(dirname "$0")" && pwd)
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
if [ $# -eq 0 ]; then
    cmake --install "$here/../../build" --prefix "$temporary/prefix" >"$temporary/install.log"
    prefix=$temporary/prefix
    libdir=$(dirname "$(find "$prefix" -name librunloop.so)")
else
    prefix=$(cd "$1" && pwd)
    libdir=$prefix/${2:-lib}
fi
work=$temporary
if [ $# -ge 3 ]; then
    mkdir -p "$3"
    work=$(cd "$3" && pwd)
fi
export PKG_CONFIG_PATH="$libdir/pkgconfig"

# Builds a package and sets $bin to where its programs are. The packages with one core share a folder, in which the modules of
# RunLoop are compiled once: that of the package itself for its own core.
# usage: build PACKAGE-FOLDER bundled|installed|FOLDER [OPTION...]
build() {
    package=$1
    case $2 in bundled) scratch=$here/../../.build ;; *) scratch=$work/$2 ;; esac
    shift 2
    # The description of another package's build; what was compiled stays.
    rm -f "$scratch"/*/debug/description.json "$scratch"/debug.yaml
    if ! swift build --package-path "$package" --scratch-path "$scratch" "$@" >"$work/build.log" 2>&1; then
        cat "$work/build.log"
        echo "$package: does not build"
        exit 1
    fi
    bin=$(swift build --package-path "$package" --scratch-path "$scratch" "$@" --show-bin-path 2>/dev/null)
}

# Runs a program that uses the installed library.
installed() { LD_LIBRARY_PATH="$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"; }

# Whether a program is linked to the library. usage: linked PROGRAM
linked() { readelf -d "$1" | grep -q 'NEEDED.*librunloop\.so'; }

# 1. A package that takes the defaults brings its own core and needs no installed library.
build "$here/Bundled" bundled
if linked "$bin/Bundled"; then echo "the default needs librunloop.so"; exit 1; fi
"$bin/Bundled"

#    Names of targets and of programs are unique in all packages of a build: RunLoop's begin with its name, and its own programs are no
#    products. So a client's program is the client's, whatever it is called.
names=$(swift package --package-path "$here/../.." --scratch-path "$here/../../.build" dump-package)
printf '%s' "$names" | python3 -c '
import json, re, sys
package = json.load(sys.stdin)
names = [target["name"] for target in package["targets"]] + [product["name"] for product in package["products"]]
taken = [name for name in names if not re.match("C?RunLoop", name)]
taken += [product["name"] for product in package["products"] if "library" not in product["type"]]
sys.exit("names that a client could choose: %s" % ", ".join(taken) if taken else 0)'
for program in app demo threads; do
    "$bin/$program" | grep -x "the client's $program: 7"
done

# 2. With the trait, RunLoopKit is over the installed library, beside Foundation's run loop.
build "$here/Installed" installed
linked "$bin/Installed" || { echo "the trait InstalledLibrary does not use librunloop.so"; exit 1; }
installed "$bin/Installed"

# 3. With the trait, a C plug-in that is linked to the library sees the same loops.
cc -shared -fPIC -Wall -Wextra -Werror "$here/Plugin/plugin.c" -o "$work/plugin.so" \
    $(pkg-config --cflags --libs runloop)
build "$here/Plugin" installed --traits InstalledLibrary
installed "$bin/Host" "$work/plugin.so"

# 4. Without the trait the same program would have two cores: the second one stops it and says why.
build "$here/Plugin" bundled --traits BundledCore
if linked "$bin/Host"; then echo "the trait BundledCore needs librunloop.so"; exit 1; fi
status=0
SWIFT_BACKTRACE=enable=no installed "$bin/Host" "$work/plugin.so" >"$work/refused.log" 2>&1 || status=$?
if [ "$status" -lt 128 ] || ! grep -iq 'second .*core\|two .*cores\|second copy\|two copies' "$work/refused.log"; then
    cat "$work/refused.log"
    echo "two cores in one process: status $status, where a trap with a clear message was expected"
    exit 1
fi
echo "refused: $(grep -i 'cop\|core' "$work/refused.log" | head -n 1)"

# 5. A Swift program uses the C functions of the installed library directly.
build "$here/SystemLibrary" system-library
linked "$bin/Direct" || { echo "the system library target does not use librunloop.so"; exit 1; }
installed "$bin/Direct"

# 6. The tests of RunLoopKit pass over the installed library as they do over the core of the package.
build "$here/Kit" installed --build-tests
if ! installed swift test --package-path "$here/Kit" --scratch-path "$scratch" --skip-build >"$work/kit.tests" 2>&1; then
    grep -v ' started\.$' "$work/kit.tests"
    exit 1
fi
echo "kit: $(grep -o 'Test run with .* passed' "$work/kit.tests")"

# 7. Files written for Foundation print with RunLoopKit what they print with Foundation. Where Foundation on Linux
# breaks a rule, the expected text has a line for each and names the rule.
build "$here/Twin" bundled
for twin in "WithFoundation Foundation expected" "WithRunLoopKit RunLoopKit expected" \
    "ThreadsWithFoundation Foundation expected-threads" "ThreadsWithRunLoopKit RunLoopKit expected-threads"; do
    # shellcheck disable=SC2086
    set -- $twin
    sed -n -e "s/^\[$2[^]]*S-[A-Z]*-[0-9]*\] //p" -e t -e '/^\[\(Foundation\|RunLoopKit\)/d' -e p \
        "$here/Twin/$3.txt" >"$work/twin.expected"
    "$bin/$1" | diff "$work/twin.expected" -
done
echo "twins: $(cat "$here"/Twin/expected*.txt | grep -vc '^\[Foundation on Linux') lines as expected," \
    "$(cat "$here"/Twin/expected*.txt | grep -o '^\[Foundation on Linux[^]]*' | sort -u | wc -l) rules that Foundation breaks"

# The example of C and Swift on one loop, over either core.
build "$here/../.." bundled --product RunLoopExampleMixed
"$bin/RunLoopExampleMixed" | diff "$here/../../Examples/Mixed/expected.txt" -
build "$here/../.." installed --product RunLoopExampleMixed --traits InstalledLibrary
installed "$bin/RunLoopExampleMixed" | diff "$here/../../Examples/Mixed/expected.txt" -
echo "mixed: as expected over both cores"
