#!/bin/sh
# The stripped library has less than the given number of bytes, and stripping takes nothing it needs.
# usage: size.sh LIBRARY LIMIT
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strip --strip-unneeded -o "$work/stripped.so" "$1"
size=$(wc -c <"$work/stripped.so")
echo "stripped: $size bytes, limit $2"
[ "$size" -lt "$2" ]
[ "$(nm -D --defined-only "$1" | wc -l)" -eq "$(nm -D --defined-only "$work/stripped.so" | wc -l)" ]
