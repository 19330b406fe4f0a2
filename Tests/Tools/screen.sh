#!/bin/sh
# SPDX-License-Identifier: MIT
# runloop-top in a terminal: keys, sizes, a process that dies, and SIGINT.
. "$(dirname "$0")/lib.sh"
start_program

terminal new-session -d -s t -x 110 -y 30 "cd $work; trap : INT; stty -g >$work/before; $tools/runloop-top --interval 0.2; echo status=\$? ; stty -g >$work/after; sleep 60"
sees "2 loops of 1 processes"
sees "worker"
sees "quick one"
sees "in call"
sees "Timer heartbeat\|evil .u{1b}"
cat "$work/screen"

keys s
sees "sort (passes)"
keys / q u i c k
sees "Filter: quick_"
keys Enter
sees_not "worker"
sees "Timer heartbeat"
keys d
sees "kept from being finished by 1 timer"
keys q
sees "sort (passes)"
keys / Escape
sees "worker"
# A trace of the process, and a second one beside it (S-OUT-13).
keys t
sees "the trace of $pid is on"
keys x
sees "t trace"
keys t
sees "the trace of $pid: runloop-$pid.trace"
keys t
sees "is on; t stops it"
keys t
sees "the trace of $pid: runloop-$pid.2.trace"
[ "$(stat -c %a "$work/runloop-$pid.trace")" = 600 ]
python3 "$(dirname "$0")/../../tools/runloop-trace" --output "$work/trace.json" "$work/runloop-$pid.trace"
grep -q heartbeat "$work/trace.json"
keys Space
sees "paused"
keys Space
sees_not "paused"
keys Down Up PPage NPage Left F1 x é

# Too small, and large again.
terminal resize-window -t t -x 30 -y 4
sees "too small"
terminal resize-window -t t -x 44 -y 6
sees "runloop-top"
terminal resize-window -t t -x 160 -y 40
sees "quick one"

# The process dies while it is shown; another one comes.
kill -9 "$pid"
sees "No process shows its loops"
start_program
sees "$pid .*quick one"
# One that is stopped is said not to answer.
kill -STOP "$pid"
sees "no answer of $pid"
kill -CONT "$pid"
sees "$pid .*quick one"

keys C-c
for _ in $(seq 200); do [ -s "$work/after" ] && break || sleep 0.05; done
cmp "$work/before" "$work/after" || fail "the terminal was not put back"

# A terminal that cannot place its cursor, and a locale that has ASCII alone.
terminal respawn-window -k -t t "TERM=dumb $tools/runloop-top; sleep 60"
sees "kind of this terminal (TERM)"
terminal respawn-window -k -t t "LC_ALL=C $tools/runloop-top --interval 0.2 --filter é"
sees "/ filter .?. "
