#!/bin/sh
# SPDX-License-Identifier: MIT
# Processes whose sockets have no room for a connection, as those of stopped ones: what answers is seen without a wait for them, they cost a second
# together, and one that gets room is seen.
. "$(dirname "$0")/lib.sh"
start_program
cat >"$work/full.py" <<'FULL'
import json, os, socket, subprocess, sys, threading
folder, tools = os.environ["XDG_RUNTIME_DIR"] + "/runloop", sys.argv[1]
keep = []
def listener(room):
    number = len(keep)
    with open(f"{folder}/{number:032x}.lock", "w") as file:
        file.write(f"RunLoop.shared.{100 + number}")
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.bind(f"{folder}/{number:032x}.port")
    made.listen(room)
    keep.append(made)
    return made
def full():
    made = listener(0)
    try:
        while True:
            keep.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            keep[-1].setblocking(False)
            keep[-1].connect(made.getsockname())
    except BlockingIOError:
        return made
def answer(connection, when_asked=lambda: None):
    time = 0
    while request := connection.recv(100):
        time += 1
        when_asked()
        connection.send(b".late one\n" if request == b"dump" else
            b'.{"version":1,"process":1,"time":%d}\n{"loop":"l","name":"late one","thread":1,"mode":"x","measured":true,"accountedTime":%d,"passes":%d}'
            % (time, time, time))
def serve(made):
    """Makes room, and answers."""
    try:
        while True:
            threading.Thread(target=answer, args=(made.accept()[0],), daemon=True).start()
    except OSError:
        pass
def run(*arguments):
    return subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60).stdout

others = [full() for _ in range(100)]
assert "worker" in run(tools + "/runloop-top", "--once", "--interval", "0.1")
assert "quick" in run(tools + "/runloop-dump")

# One gets room when the tool has asked those that had it. A machine that is so slow that the tool gives up before is asked again.
def seen(sees, *arguments):
    late, signal = full(), listener(10)
    make_room = lambda: threading.Thread(target=serve, args=(late,), daemon=True).start()
    threading.Thread(target=lambda: answer(signal.accept()[0], make_room), daemon=True).start()
    text = run(*arguments)
    for each in late, signal:
        each.shutdown(socket.SHUT_RDWR)
    return sees(text)
def is_in_both_looks(text):
    rows = [row for row in map(json.loads, text.splitlines()) if row["name"] == "late one"]
    return len(rows) == 2 and all(row["passesPerSecond"] for row in rows)
assert any(seen(is_in_both_looks, tools + "/runloop-top", "--json", "--interval", "0.1") for _ in range(20)), "not seen by runloop-top"
assert any(seen(lambda text: text.count("late one") == 2, tools + "/runloop-dump") for _ in range(20)), "not seen by runloop-dump"

late = full()
print("ready", flush=True)
sys.stdin.readline()
serve(late)
FULL
mkfifo "$work/ready" "$work/serve"
python3 "$work/full.py" "$tools" <"$work/serve" >"$work/ready" &
pids="$pids $!"
exec 9>"$work/serve"
read -r ready <"$work/ready" || true
[ "${ready:-}" = ready ] || fail "sockets without room"

# The screen shows at once what answers; one that gets room comes with a later look.
terminal new-session -d -s t -x 110 -y 30 "$tools/runloop-top --interval 0.2"
sees "worker"
sees_not "late one"
echo >&9
sees "late one"
