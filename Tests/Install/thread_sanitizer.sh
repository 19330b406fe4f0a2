#!/bin/sh
# SPDX-License-Identifier: MIT
# The thread sanitizer knows the library's locks in a program, though the library is built without it: it reports nothing where they
# are used well, and two orders of two locks. (S-SYNC-5)
# usage: thread_sanitizer.sh LIBRARY-FOLDER INCLUDE-FOLDER SOURCE C-COMPILER
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Its runtime asks for addresses that a randomised layout may have taken.
run() { setarch "$(uname -m)" -R env LD_LIBRARY_PATH="$folder" TSAN_OPTIONS=exitcode=66 "$@" 2>&1; }

folder=$1
printf 'int main(void) { return 0; }\n' >"$work/empty.c"
if ! "$4" -fsanitize=thread -o "$work/empty" "$work/empty.c" 2>/dev/null || ! run "$work/empty" >/dev/null; then
    echo "$4 has no thread sanitizer that runs here"
    exit 77
fi
"$4" -std=gnu99 -O1 -g -fsanitize=thread -I"$2" -o "$work/program" "$3" -L"$1" -lrunloop -lpthread
if ! run "$work/program" >"$work/clean"; then
    cat "$work/clean"
    exit 1
fi
run "$work/program" orders >"$work/orders" || true
grep -q 'lock-order-inversion' "$work/orders" || { cat "$work/orders"; echo "two orders of two locks are not reported"; exit 1; }
grep -q 'RLLockLock' "$work/orders"
