#!/bin/sh
# SPDX-License-Identifier: MIT
# A Swift program with Foundation's run loop that also uses a C library built against runloop-cf: each has its own loop, and neither
# takes the other's calls (S-CF-22). With the library of names the same process ends with a sentence (S-CF-23).
# usage: beside_foundation.sh SWIFTC C-COMPILER INCLUDE-FOLDER LIBRARY-FOLDER THIS-FOLDER
set -eu
swiftc=$1 cc=$2 include=$3 libraries=$4 here=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$cc" -shared -fPIC -g "$here/clock.c" -I"$include" -o libclock.so -L"$libraries" -lrunloop-cf -lrunloop -Wl,-rpath,"$libraries"
"$swiftc" -O "$here/beside.swift" -o beside -L. -lclock -Xlinker -rpath -Xlinker "$work" -Xlinker -rpath -Xlinker "$libraries"
./beside
if LD_PRELOAD="$libraries/librunloop-cf-names.so" ./beside >out 2>&1; then
    echo "the names were loaded beside Foundation"
    exit 1
fi
grep 'librunloop-cf-names: the process already has' out || { cat out; exit 1; }
