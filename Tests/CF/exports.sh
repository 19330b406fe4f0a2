#!/bin/sh
# SPDX-License-Identifier: MIT
# What the headers bind is exported under its symbol, nothing else is, and no CoreFoundation name (S-CF-22); the library of names
# exports each of the names, and no other.
# usage: exports.sh LIBRUNLOOP-CF LIBRUNLOOP-CF-NAMES INCLUDE-FOLDER
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bound() { grep -rohE "$1" "$3" | sed -E "s/$1/$2/" | grep -v 'name$' | sort -u; }
{
    bound 'RLCF_\(([A-Za-z_0-9]+)\)' 'RL\1' "$3"
    bound 'RLCF_CONSTANT_\((CF[A-Za-z_0-9]+)\)' 'kRL\1' "$3"
} | sort -u >"$work/wanted"
nm -D --defined-only "$1" | awk '{ print $NF }' | sed 's/@.*//' | grep -v '^RUNLOOP_CF_' | sort -u >"$work/found"
diff "$work/wanted" "$work/found" || { echo "< bound in a header, > exported"; exit 1; }
if nm -D --defined-only "$1" | awk '{ print $NF }' | grep -E '^k?CF'; then echo "CoreFoundation names are exported"; exit 1; fi
{
    bound 'RLCF_\((CF[A-Za-z_0-9]+)\)' '\1' "$3"
    bound 'RLCF_AS\((CF[A-Za-z_0-9]+), RL[A-Za-z_0-9]+\)' '\1' "$3"
    bound 'RLCF_CONSTANT_\((CF[A-Za-z_0-9]+)\)' 'k\1' "$3"
} | sort -u >"$work/names"
nm -D --defined-only "$2" | awk '{ print $NF }' | sort -u >"$work/exported"
diff "$work/names" "$work/exported" || { echo "< declared in a header, > exported by the library of names"; exit 1; }
echo "$(wc -l <"$work/found") symbols, $(wc -l <"$work/exported") names"
