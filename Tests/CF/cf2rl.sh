#!/bin/sh
# SPDX-License-Identifier: MIT
# cf2rl changes a program for CoreFoundation into one for librunloop that prints the same, and names what it leaves.
# usage: cf2rl.sh SCRIPT C-COMPILER INCLUDE-FOLDER LIBRARY-FOLDER PROGRAMS [FLAGS...]
set -eu
script=$1 cc=$2 include=$3 libraries=$4 programs=$5
shift 5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$programs/before.c" "$work/program.c"
cd "$work"

# The whole of it is done, as it is kept beside the program; the original is kept, too.
"$script" program.c
diff "$programs/after.c" program.c
diff "$programs/before.c" program.c.orig
# A second time changes nothing.
"$script" program.c
diff "$programs/after.c" program.c

"$cc" "$@" -std=gnu11 -Wall -Wextra -Werror "$programs/before.c" -I"$include/runloop-cf" -o before -L"$libraries" -lrunloop-cf \
    -lrunloop -Wl,-rpath,"$libraries"
"$cc" "$@" -std=gnu11 -Wall -Wextra -Werror program.c -I"$include" -o after -L"$libraries" -lrunloop -Wl,-rpath,"$libraries"
./before >before.out
./after >after.out
diff before.out after.out
grep -q "^stopped: 1, same types: 1$" after.out

# What is left is named with its line, and --check writes nothing.
cat >left.c <<'END'
#include <CoreFoundation/CoreFoundation.h>
/* CFArrayRef in a comment */
const char *text = "CFDictionaryRef in a string";
CFArrayRef names(CFRunLoopRef loop) { return CFRunLoopCopyAllModes(loop); }
END
cp left.c kept.c
if "$script" --check left.c >left.out; then echo "what is left is not told"; exit 1; fi
cmp left.c kept.c
grep -q "^left.c:4: CFArrayRef: " left.out
grep -q "^left.c:4: RLCopyAllModes: " left.out
[ "$(grep -c . left.out)" -eq 2 ] || { cat left.out; exit 1; }
if "$script" 2>/dev/null; then echo "no files are no mistake"; exit 1; fi
if "$script" --unknown left.c 2>/dev/null; then echo "an option that there is not is no mistake"; exit 1; fi
"$script" --help >help.out
grep -q "^usage: cf2rl" help.out
