#!/bin/sh
# SPDX-License-Identifier: MIT
# What an answer says costs a time in proportion to its length, and has a number of loops and items at most (S-OUT-10). To put the combining marks of
# such text in their canonical order takes the square of its length: an hour for each.
. "$(dirname "$0")/lib.sh"
start_program
cat >"$work/heavy.py" <<'HEAVY'
import os, socket, threading
folder = os.environ["XDG_RUNTIME_DIR"] + "/runloop"
marks = ("\u0315\u0316" * 250000).encode()
def loop(number, members):
    return b'{"loop":"0x%x","thread":%d,%s}\n' % (number, number, members)
answers = [
    loop(1, b'"%s":1,"%s":2' % (marks, marks)),
    b'{"loop":"%s1","thread":2}\n{"loop":"%s2","thread":2}\n' % (marks, marks),
    loop(3, b'"name":"%s1"' % marks) + loop(3, b'"name":"%s2"' % marks),
    loop(4, b'"threadName":"x%s"' % marks),
    loop(5, b'"mode":"%s"' % marks),
    loop(6, b'"inCall":["<RL%s %s","%s"]' % (marks, marks, marks)),
    loop(7, b'"items":[{"what":"<RLTimer %s"},{"what":"%s","name":"%s"}]' % (marks, marks, marks)),
    # Many loops, items, values and digits.
    b'{"loop":"many","thread":8}\n' * 50000,
    loop(9, b'"items":[%s]' % b",".join([b"{}"] * 100)) + loop(9, b'"items":[%s]' % b",".join([b"{}"] * 500000)),
    loop(10, b'"passes":1') + loop(10, b'"passes":' + b"1" * 1000000),
    loop(11, b'"passes":1') + b"0\n" * 500000,
    loop(12, b'"passes":1') + loop(12, b",".join([b'"%d":1' % number for number in range(100000)])),
]
dump = b"marks: " + marks * 3 + b"\nthe end\n"
def talk(connection, answer):
    try:
        while request := connection.recv(100):
            whole = dump if request.startswith(b"dump") else b'{"version":1,"process":1,"time":1}\n' + answer
            for place in range(0, len(whole), 60000):
                connection.send((b"." if place + 60000 >= len(whole) else b"+") + whole[place:place + 60000])
    except OSError:
        pass
for number, answer in enumerate(answers):
    with open(f"{folder}/{number:032x}.lock", "w") as file:
        file.write(f"RunLoop.shared.{100 + number}")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{folder}/{number:032x}.port")
    if (child := os.fork()) == 0:
        listener.listen(100)
        while True:
            threading.Thread(target=talk, args=(listener.accept()[0], answer), daemon=True).start()
    listener.close()
    print(child, flush=True)
HEAVY
python3 "$work/heavy.py" >"$work/heavy"
heavy=$(cat "$work/heavy")
pids="$pids $heavy"

# An answer that a slow machine does not get whole in time says nothing, and is asked for again.
for try in $(seq 20); do
    status=0
    timeout 60 "$tools/runloop-top" --json --sort name --interval 0.1 >"$work/json" 2>"$work/error" || status=$?
    [ "$status" -lt 124 ] || fail "runloop-top did not end"
    status=0
    python3 - "$work/json" <<'CHECK' || status=$?
import collections, json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
loops = collections.Counter(row["thread"] for row in rows if row["thread"] < 13 and row["loop"] != "x")
if sorted(loops) != list(range(1, 13)) or not any(row["name"] == "worker" for row in rows):
    sys.exit(2)
assert loops == {1: 1, 2: 2, 3: 2, 4: 1, 5: 1, 6: 1, 7: 1, 8: 2000, 9: 1, 10: 1, 11: 1, 12: 1}, loops
for row in rows:
    for text in [row["name"], row["loop"], *row["calls"], *(item["item"] for item in row["items"])]:
        assert len(text.encode()) < 2200, len(text)
    assert len(row["items"]) <= 16
    if row["thread"] == 3:
        assert row["name"].endswith("\u0316\u2026") or row["name"].endswith("\u0315\u2026"), row["name"][-2:]
CHECK
    [ "$status" -ne 2 ] || continue
    break
done
[ "$status" -eq 0 ] || fail "what the answers are shown as"
grep -q 'loops are left out' "$work/error"

for try in $(seq 20); do
    timeout 60 "$tools/runloop-top" --once --interval 0.1 >"$work/text" || fail "runloop-top --once did not end"
    grep -q 'and 84 more items' "$work/text" && grep -q 'worker' "$work/text" && break
done
grep -q 'and 84 more items' "$work/text"
head -1 "$work/text" | grep -q 'left out'
timeout 60 "$tools/runloop-top" --once --interval 0.1 --filter WORKER --sort name >"$work/text" || fail "the filter did not end"
[ "$(grep -c worker "$work/text")" -eq 1 ]

# The text of a dump, printed and on the screen.
timeout 60 "$tools/runloop-dump" >"$work/text" 2>"$work/error" || status=$?
[ "$status" -lt 124 ] || fail "runloop-dump did not end"
grep -q 'quick' "$work/text"
grep -q '^the end' "$work/text"
terminal new-session -d -s t -x 110 -y 30 "$tools/runloop-top --interval 0.2 $(head -1 "$work/heavy")"
sees '1 loops of 1 processes'
sees '0x1'
keys d
sees '^the end'
keys q
sees '0x1'

# The sockets of a process share what it may have: of 100 answers of 450 kB 16 MiB and the end of one.
cat >"$work/sockets.py" <<'SOCKETS'
import os, select, socket, threading
folder = os.environ["XDG_RUNTIME_DIR"] + "/runloop"
def talk(connection):
    try:
        while connection.recv(100):
            for _ in range(9):
                connection.send(b"+" + b"x" * 50000)
            connection.send(b".\nanswer\n")
    except OSError:
        pass
listeners = []
for number in range(1000, 1100):
    with open(f"{folder}/{number:032x}.lock", "w") as file:
        file.write(f"RunLoop.shared.{number}")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{folder}/{number:032x}.port")
    listener.listen(10)
    listeners.append(listener)
print("ready", flush=True)
while True:
    for listener in select.select(listeners, [], [])[0]:
        threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()
SOCKETS
mkfifo "$work/ready"
python3 "$work/sockets.py" >"$work/ready" &
sockets=$!
pids="$pids $sockets"
read -r _ <"$work/ready"
for try in $(seq 20); do
    timeout 60 "$tools/runloop-dump" "$sockets" >"$work/text" 2>/dev/null && break
done
count=$(grep -c '^answer' "$work/text")
[ "$count" -le 40 ] || fail "$count answers"
