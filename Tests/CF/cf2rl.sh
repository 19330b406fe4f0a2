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

# same NAME: the program NAME.c becomes NAME.wanted.
same() {
    "$script" "$1.c" >"$1.out" || { cat "$1.out"; exit 1; }
    diff "$1.wanted" "$1.c"
}

# What is in comments and strings does not change, wherever those begin and end.
cat >text.c <<'END'
/* Not this one:
#include <CoreFoundation/CFRunLoop.h>
   nor CFSTR("this") and CFStringRef f(const void *info); */
#include <CoreFoundation/CoreFoundation.h> /* the loop:
   CFRunLoopRef */
#ifdef NEVER
#error this can't be
#endif
static const char *quoted = "CFRunLoopStop \" CFSocketCreate(NULL, 1) \
    CFRunLoopRun"; // kCFRunLoopDefaultMode \
    CFRunLoopStop(loop)
static void stop(void) { char quote = '"'; (void)quote; (void)quoted; CFRunLoopStop(CFRunLoopGetCurrent()); }
END
sed -e '4s,.*,#include <runloop/runloop.h> /* the loop:,' -e 's/CFRunLoopStop(CFRunLoopGetCurrent())/RLStop(RLGetCurrent())/' \
    text.c >text.wanted
same text

# Numbers with apostrophes and raw strings.
cat >raw.c <<'END'
#include <CoreFoundation/CoreFoundation.h>
auto text = R"(CFRunLoopRun " )", other = u8R"x(CFRunLoopRef)")x"; int n = 1'000; CFIndex count; char c = 'x';
END
sed -e '1s,.*,#include <runloop/runloop.h>,' -e 's/CFIndex/RLIndex/' raw.c >raw.wanted
same raw

# Each branch of the preprocessor keeps a header; an end of a line is as it was, and so is a byte that is not UTF-8.
printf '%s\r\n' '#ifdef A' '#include <CoreFoundation/CFRunLoop.h>' '#include <CoreFoundation/CFSocket.h>' '#else' \
    '#include <CoreFoundation/CoreFoundation.h>' '#endif' "$(printf '/* \351 */ CFRunLoopRef loop;')" >lines.c
printf '%s\r\n' '#ifdef A' '#include <runloop/runloop.h>' '#else' '#include <runloop/runloop.h>' '#endif' \
    "$(printf '/* \351 */ RLRunLoopRef loop;')" >lines.wanted
same lines
printf '\357\273\277#include <CoreFoundation/CoreFoundation.h>' >short.c
printf '\357\273\277#include <runloop/runloop.h>' >short.wanted
same short

# A function of the program whose name begins with one of CoreFoundation's keeps its arguments; each declared name is a pointer.
cat >names.c <<'END'
#define MODE CFStringRef
int n, m;
static void CFSocketCreateMine(int one, int two) { (void)one, (void)two; }
static void mine(CFStringRef mode, int n);
static void mine(CFStringRef mode, int n) { CFStringRef a = f(mode, n), b, *c = {&a, &b}; CFSocketCreateMine(1, 2); }
END
cat >names.wanted <<'END'
#define MODE const char *
int n, m;
static void RLSocketCreateMine(int one, int two) { (void)one, (void)two; }
static void mine(const char *mode, int n);
static void mine(const char *mode, int n) { const char *a = f(mode, n), *b, **c = {&a, &b}; RLSocketCreateMine(1, 2); }
END
same names

# Data that is calculated in the call is not calculated twice, but left.
cat >data.c <<'END'
static void send(CFSocketRef s, CFDataRef *queue) {
    CFSocketSendData(s, NULL, *queue++, 1);
    CFSocketSendData(s, (CFDataRef)queue[0], next(queue), 1);
    CFSocketSendData(s, NULL, (CFDataRef)queue[0], 1);
}
END
if "$script" data.c >data.out; then echo "calculated data is not told"; exit 1; fi
grep -q "RLSocketSendData(s, NULL, \*queue++, 1);" data.c
grep -q "RLSocketSendData(s, (RLDataRef)queue\[0\], next(queue), 1);" data.c
grep -q "RLSocketSendData(s, NULL, 0, RLDataGetBytePtr((RLDataRef)queue\[0\]), RLDataGetLength((RLDataRef)queue\[0\]), 1);" data.c
grep -q "^data.c:2: RLSocketSendData: " data.out
grep -q "^data.c:3: RLSocketSendData: " data.out
[ "$(grep -c . data.out)" -eq 2 ] || { cat data.out; exit 1; }

# The original of a first run is not lost in a second.
echo "CFRunLoopRef first;" | tee twice.c >first
"$script" twice.c
echo "CFRunLoopRef second;" >>twice.c
"$script" twice.c
diff first twice.c.orig
grep -q "^CFRunLoopRef second;" twice.c.orig2

# A file that cannot be read is told, and then no file is changed.
echo "CFRunLoopRef there;" | tee there.c >before
status=0
"$script" there.c missing.c 2>errors || status=$?
[ "$status" -eq 2 ] || { echo "a missing file: status $status"; exit 1; }
grep -q "^cf2rl: missing.c: " errors || { cat errors; exit 1; }
diff before there.c

# Where the original cannot be kept, the file stays as it is, and nothing half-written lies beside it.
cp before full.c
told=$( (ulimit -f 0; "$script" full.c 2>&1 || echo "status $?") | cat)
echo "$told" | grep -q "^cf2rl: full.c: not changed, for full.c.orig cannot be written: " || { echo "$told"; exit 1; }
echo "$told" | grep -q "^status 2" || { echo "$told"; exit 1; }
diff before full.c
[ ! -e full.c.orig ] || { echo "a half-written original was left"; exit 1; }
