#!/bin/sh
# SPDX-License-Identifier: MIT
# The binary interface is the recorded one (scripts/abi), and a change of it is found: a function that is gone, a structure with a
# further member, a constant of another value, a record without a line in CHANGELOG.md.
# usage: abi.sh SOURCE-FOLDER
set -eu
top=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$top/scripts/abi" "$work/build"

# must_fail TEXT ARGUMENT...: the comparison fails, and says the text.
must_fail() {
    text=$1
    shift
    if "$top/scripts/abi" "$work/build" --library librunloop "$@" >"$work/log" 2>&1; then
        echo "not found: $text"
        exit 1
    fi
    grep -q -e "$text" "$work/log" || { echo "not said: $text"; cat "$work/log"; exit 1; }
}
# change FILE SED-COMMAND: headers that differ from the real ones by what sed does.
change() {
    rm -rf "$work/include"
    cp -r "$top/include" "$work/include"
    sed -i "$2" "$work/include/runloop/$1"
    if cmp -s "$work/include/runloop/$1" "$top/include/runloop/$1"; then
        echo "sed changed nothing: $2"
        exit 1
    fi
}
change loop.h '/^RL_EXPORT void RLWakeUp(/d'
must_fail 'function void RLWakeUp' --headers "$work/include"
change timer.h 's/^} RLTimerContext;/    int more;\n&/'
must_fail 'RLTimerContext' --headers "$work/include"
change loop.h 's/kRLRunTimedOut = 3/kRLRunTimedOut = 5/'
must_fail 'kRLRunTimedOut' --headers "$work/include"
# A structure that inline functions alone use.
change sync.h 's/^    uint32_t count, arrived, round;/&\n    uint32_t more;/'
must_fail 'RLBarrier' --headers "$work/include"
# An enumeration without a name.
rm -rf "$work/include"
cp -r "$top/include" "$work/include"
sed -i 's/kCFRunLoopRunTimedOut = 3/kCFRunLoopRunTimedOut = 5/' "$work/include/runloop-cf/CoreFoundation/CFRunLoop.h"
if "$top/scripts/abi" "$work/build" --library librunloop-cf --headers "$work/include" >"$work/log" 2>&1; then
    echo "not found: a constant of CoreFoundation's names"
    exit 1
fi
grep -q kCFRunLoopRunTimedOut "$work/log"
mkdir "$work/abi"
sed '1a <!-- another record of the same interface -->' "$top/abi/librunloop.abi" >"$work/abi/librunloop.abi"
must_fail 'CHANGELOG.md' --against "$work/abi"
