#!/bin/sh
# SPDX-License-Identifier: MIT
# Helgrind knows the library's locks in a program compiled with RL_HELGRIND: it reports nothing where they are used well, and two
# orders of two locks. (S-SYNC-5)
# usage: helgrind.sh LIBRARY-FOLDER INCLUDE-FOLDER SOURCE C-COMPILER
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

printf '#include <valgrind/helgrind.h>\nint main(void) { return 0; }\n' >"$work/empty.c"
if ! "$4" -o "$work/empty" "$work/empty.c" 2>/dev/null || ! valgrind --tool=helgrind "$work/empty" >/dev/null 2>&1; then
    echo "there is no helgrind here, or not its header"
    exit 77
fi
"$4" -std=gnu99 -O1 -g -DRL_HELGRIND=1 -DROUNDS=200 -I"$2" -o "$work/program" "$3" -L"$1" -lrunloop -lpthread
run() { LD_LIBRARY_PATH="$folder" valgrind --tool=helgrind --error-exitcode=66 "$@" 2>&1; }
folder=$1
if ! run "$work/program" >"$work/clean"; then
    cat "$work/clean"
    exit 1
fi
run "$work/program" orders >"$work/orders" || true
grep -q 'lock order' "$work/orders" || { cat "$work/orders"; echo "two orders of two locks are not reported"; exit 1; }
