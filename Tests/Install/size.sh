#!/bin/sh
# SPDX-License-Identifier: MIT
# The stripped library has less than the given number of bytes, unwind tables apart and with them, and stripping takes nothing
# it needs.
# usage: size.sh LIBRARY LIMIT LIMIT-WITH-TABLES
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strip --strip-unneeded -o "$work/stripped.so" "$1"
size=$(wc -c <"$work/stripped.so")
tables=$(size -A -d "$work/stripped.so" | awk '$1 ~ /^\.eh_frame/ { sum += $2 } END { print sum + 0 }')
echo "stripped: $((size - tables)) bytes, limit $2; with unwind tables $size, limit $3"
[ $((size - tables)) -lt "$2" ]
[ "$size" -lt "$3" ]
[ "$tables" -gt 0 ]
[ "$(nm -D --defined-only "$1" | wc -l)" -eq "$(nm -D --defined-only "$work/stripped.so" | wc -l)" ]
