#!/bin/sh
# SPDX-License-Identifier: MIT
# S-DBG-1, S-DBG-2: in every kind of callback, backtrace(3), gdb and, where it may, perf find the call-out's name and the beginning of the
# thread, over the stripped library.
# usage: unwind.sh LIBRARY PROGRAM     the program is unwind.c
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strip --strip-unneeded -o "$work/$(readelf -dW "$1" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')" "$1"
LD_LIBRARY_PATH=$work
export LD_LIBRARY_PATH

"$2" >"$work/names" || { cat "$work/names"; exit 1; }
kinds=$(sort -u "$work/names" | wc -l)
echo "backtrace(3): $kinds kinds of call-outs"
[ "$kinds" -ge 22 ]

printf 'break unwind_stop\ncommands\nsilent\necho STACK\\n\nbacktrace\ncontinue\nend\nrun\n' >"$work/gdb"
env -u DEBUGINFOD_URLS gdb -nx -batch -x "$work/gdb" "$2" >"$work/stacks" 2>&1 </dev/null || true
if grep -q 'ptrace: Operation not permitted\|Cannot PTRACE' "$work/stacks"; then
    echo "gdb: may not be used here"
else
    awk '
        function finish() {
            if (!stacks++) return
            if (!name || !beginning) { print "gdb lost its way:\n" text; failed = 1 } else good++
        }
        /^STACK/ { finish(); name = beginning = 0; text = ""; next }
        { text = text $0 "\n" }
        / RLCallOut[A-Z]/ { name = 1 }
        / in (main|bodyOfThread) / || /^#[0-9]+ +(main|bodyOfThread) / { beginning = 1 }
        END { finish(); print "gdb: " good " stacks"; exit failed || good < 22 }' "$work/stacks"
fi

if command -v perf >/dev/null 2>&1 &&
    perf record -q -F 2000 -e cpu-clock --call-graph dwarf -o "$work/perf" "$2" spin >/dev/null 2>&1; then
    perf script -i "$work/perf" 2>/dev/null >"$work/samples"
    awk -v RS= '
        /burn/ { samples++; if (/RLCallOutTimer/ && /main/) good++ }
        END { print "perf: " good " of " samples " samples"; exit samples > 0 && good < samples * 0.9 }' "$work/samples"
else
    echo "perf: not here, or may not be used"
fi
