#!/bin/sh
# SPDX-License-Identifier: MIT
# The library exports RL*, kRL* and the name of its version node, and nothing else: a Swift runtime
# function among the exports would take the place of the real one in a Swift program. A name that ends in an underscore is what an
# inline function of a header calls.
# usage: exports.sh LIBRARY
set -eu
names=$(nm -D --defined-only "$1" | awk '{ print $NF }' | sed 's/@.*//')
[ -n "$names" ] || { echo "the library exports nothing"; exit 1; }
others=$(printf '%s\n' "$names" | grep -Ev '^(k?RL[A-Z][A-Za-z0-9]*_?|RUNLOOP_0\.2)$' || true)
if [ -n "$others" ]; then
    echo "exported, but not of this library's interface:"
    printf '%s\n' "$others"
    exit 1
fi
unversioned=$(nm -D --defined-only "$1" | awk '{ print $NF }' | grep -Ev '@@?RUNLOOP_0\.2$|^RUNLOOP_0\.2$' || true)
[ -z "$unversioned" ] || { echo "without a version: $unversioned"; exit 1; }
echo "$(printf '%s\n' "$names" | grep -c .) names, all of the interface"
