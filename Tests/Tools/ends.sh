#!/bin/sh
# SPDX-License-Identifier: MIT
# What the tools write to, and read from, may go away or have no room.
. "$(dirname "$0")/lib.sh"
start_program

# A terminal that is gone, where SIGHUP is ignored as by nohup(1): runloop-top ends. It kept the processor busy.
cat >"$work/hangup.py" <<'HANGUP'
import os, pty, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""
while b"q quit" not in seen:
    seen += os.read(terminal, 65536)
os.close(terminal)
os.waitpid(pid, 0)
HANGUP
TERM=xterm timeout 60 python3 "$work/hangup.py" "$tools/runloop-top" --interval 0.2 || fail "runloop-top stays without its terminal"

# A pipe that does not block, and has no room at first: all is written.
cat >"$work/pipe.py" <<'PIPE'
import fcntl, os, subprocess, sys
out, into = os.pipe()
os.set_blocking(into, False)
while True:
    try:
        os.write(into, b"x")
    except BlockingIOError:
        break
process = subprocess.Popen(sys.argv[1:], stdout=into)
os.close(into)
# It ends with what it cannot write, or waits for room; nothing shows which but that it does not end.
try:
    process.wait(2)
except subprocess.TimeoutExpired:
    pass
text = b""
while part := os.read(out, 65536):
    text += part
sys.exit(process.wait() or b"quick" not in text)
PIPE
timeout 60 python3 "$work/pipe.py" "$tools/runloop-dump" "$pid" || fail "what does not fit into a pipe at once is lost"

# Nothing that is written is lost without a word, and a closed output is no connection to a process.
for call in "runloop-top --once --interval 0.1" "runloop-top --json --interval 0.1" "runloop-top --help" "runloop-dump"; do
    "$tools"/$call >/dev/full 2>"$work/error" && fail "$call: success without room"
    grep -q "^${call%% *}: standard output: No space" "$work/error" || fail "$call: no word"
    "$tools"/$call >&- 2>"$work/error" && fail "$call: success without output"
    grep -q "^${call%% *}: standard output: Bad file" "$work/error" || fail "$call: no word"
done
trace=$(dirname "$0")/../../tools/runloop-trace
python3 "$trace" --help >/dev/full 2>"$work/error" && fail "runloop-trace: success without room"
grep -q "^runloop-trace: standard output: No space" "$work/error" || fail "runloop-trace: no word"
python3 "$trace" --help >&- 2>"$work/error" && fail "runloop-trace: success without output"
grep -q "^runloop-trace: standard output: Bad file" "$work/error" || fail "runloop-trace: no word"
