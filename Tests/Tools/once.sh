#!/bin/sh
# SPDX-License-Identifier: MIT
# Text and JSON of runloop-top, and runloop-dump.
. "$(dirname "$0")/lib.sh"
start_program

"$tools/runloop-top" --once --interval 1 >"$work/text"
cat "$work/text"
grep -q '^2 loops of 1 processes' "$work/text"
grep -q "$pid .*worker" "$work/text"
grep -q "$pid .*quick one" "$work/text"
grep -q 'Timer heartbeat' "$work/text"
# Names cannot reach the terminal.
! grep -q "$(printf '[\033\007]')" "$work/text" || fail "control characters were printed"
grep -q 'evil \\u{1b}\[31m\\u{7} timer' "$work/text"
# The loop that is blocked most of the time comes first.
sed -n 3p "$work/text" | grep -q worker

"$tools/runloop-top" --json --interval 1 "$pid" >"$work/json"
python3 - "$work/json" "$pid" <<'CHECK'
import json, sys
rows = {row["name"]: row for row in map(json.loads, open(sys.argv[1]))}
assert set(rows) == {"worker", "quick one"}, rows
assert all(row["process"] == int(sys.argv[2]) for row in rows.values())
worker, quick = rows["worker"], rows["quick one"]
assert worker["load"] > 0.5 and worker["longestCallOut"] >= 0.45, worker
assert quick["passesPerSecond"] > 1 and quick["items"][0]["calls"] > 1, quick
CHECK
[ "$("$tools/runloop-top" --json --filter quick | wc -l)" -eq 1 ]

"$tools/runloop-dump" "$pid" >"$work/dump"
[ "$(grep -c '^<RLRunLoop' "$work/dump")" -eq 2 ]
grep -q 'kept from being finished by 1 timer' "$work/dump"
! grep -q "$(printf '[\033\007]')" "$work/dump" || fail "control characters were printed"

! "$tools/runloop-dump" 1 2>"$work/error" || fail "a process that shows nothing was found"
grep -q 'process 1 does not show its loops' "$work/error"
! "$tools/runloop-top" --once --interval 0.1 1 >/dev/null || fail "a process that shows nothing was found"
! "$tools/runloop-top" </dev/null >/dev/null 2>&1 || fail "there was no terminal"
! "$tools/runloop-top" --interval nan --once 2>/dev/null || fail "nan is no interval"
# Nobody reads.
"$tools/runloop-dump" "$pid" | true
