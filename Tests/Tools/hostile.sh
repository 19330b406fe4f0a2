#!/bin/sh
# SPDX-License-Identifier: MIT
# Processes that answer garbage, without end, not at all, or with what keeps the reader waiting, beside one that answers.
. "$(dirname "$0")/lib.sh"
start_program
cat >"$work/peers.py" <<'PEERS'
import os, socket, struct, sys, threading
folder = os.environ["XDG_RUNTIME_DIR"] + "/runloop"
deep = b'{"version":1,"process":1,"time":1}\n' + b"[" * 100000
answers = [
    [b".garbage"], [b"."], [b""], [b"x"], [b"+"] * 3, None, [b"." + deep], [b'.{"time":1e999}\n{"loop":"x","thread":1e300,"items":[1,{}],"inCall":["\\u001b"]}'],
    [b'.{"version":1,"process":1,"time":5e-9}\n{"loop":"y","name":"\\u009b31m\\u202e","thread":-1,"queuedPosts":1e308,"passes":-5,"lateness":[null]}\n{"left":1e18}'],
    [b'.{"version":1,"process":1,"time":1}\n{"loop":"z","thread":1,"queuedPosts":-1e300}'],
    [b'.{"version":1,"process":1,"time":1}\n{"loop":"z","thread":1,"queuedPosts":1e999,"queuedRequests":-1e999}'],
    [b'+{"version":1,"process":1,"time":1}\n'] + [b"+" + b'{"left":9e14}\n' * 4000] * 3 + [b'.{"left":-9e14}\n'],
    [b"+" + b"\xff" * 30000] * 100000,
    # More than a whole number with all its digits behind the point.
    [b'.{"version":1,"process":1,"time":1}\n{"loop":"z","thread":1,"measured":true,"lateness":[1,1e15],"longestCallOut":1e14,'
     b'"items":[{"what":"a","calls":1e15,"total":1e12,"longest":1e300,"last":-1e14}]}'],
]
def serve(listener, parts):
    while True:
        connection, _ = listener.accept()
        try:
            # Whoever answers wholly does so each time, so that what it says is shown.
            while connection.recv(100):
                for part in parts or []:
                    connection.send(part)
                if not parts or not parts[-1].startswith(b"."):
                    break
            if parts is not None:
                connection.close()
            else:
                keep.append(connection)
        except OSError:
            pass
def serve_without_end(listener):
    """Several processes send, so that there is always a datagram."""
    while True:
        connection, _ = listener.accept()
        for _ in range(4):
            if os.fork() == 0:
                try:
                    while True:
                        connection.send(b"+")
                except OSError:
                    os._exit(0)
        connection.close()
def serve_lingering(listener):
    """The reader's reference is the last of a connection of which the other end reads nothing."""
    while True:
        connection, _ = listener.accept()
        keep.append(connection)
        other = socket.create_server(("127.0.0.1", 0))
        keep.append(other)
        slow = socket.create_connection(other.getsockname())
        slow.setblocking(False)
        try:
            while True:
                slow.send(bytes(65536))
        except BlockingIOError:
            pass
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
        connection.recv(100)
        # One is received, and the other is in the connection when that is closed.
        socket.send_fds(connection, [b"+"], [slow.fileno()])
        socket.send_fds(connection, [b"+"], [slow.fileno()])
        slow.close()
def serve_measured(listener):
    """One that is asked a second time after 1 s, and comes to its loop 3 s later than the first time: it slept for 2 of the 4 s."""
    while True:
        connection, _ = listener.accept()
        for time, accounted, asleep, passes in [(1, 0, 0, 10), (2, 4, 2, 18)]:
            if connection.recv(100):
                connection.send(b'.{"version":1,"process":1,"time":%d}\n{"loop":"m","name":"measured late","thread":1,"mode":"x","measured":true,'
                                b'"asleep":%s,"accountedTime":%d,"asleepTime":%d,"sleeps":%d,"passes":%d}'
                                % (time, b"false" if asleep else b"true", accounted, asleep, asleep, passes))
        keep.append(connection)
keep = []
kinds = {"measured": serve_measured, "without end": serve_without_end, "lingering": serve_lingering}
for number, parts in enumerate(answers + list(kinds)):
    with open(f"{folder}/{number:032x}.lock", "w") as file:
        file.write(f"RunLoop.shared.{100 + number}")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{folder}/{number:032x}.port")
    listener.listen(10)
    if isinstance(parts, str):
        threading.Thread(target=kinds[parts], args=(listener,)).start()
    else:
        threading.Thread(target=serve, args=(listener, parts)).start()
# Processes that say nothing, a socket each. They are gone: a socket's process is the one that called listen.
for number in range(100, 130):
    with open(f"{folder}/{number:032x}.lock", "w") as file:
        file.write(f"RunLoop.shared.{number}")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{folder}/{number:032x}.port")
    if (child := os.fork()) == 0:
        listener.listen(1000)
        os._exit(0)
    os.waitpid(child, 0)
    keep.append(listener)
print("ready", flush=True)
PEERS
mkfifo "$work/ready"
python3 "$work/peers.py" >"$work/ready" &
peers=$!
pids="$pids $peers"
read -r _ <"$work/ready"

timeout 30 "$tools/runloop-top" --once --interval 0.5 >"$work/text"
cut -c 1-120 "$work/text"
grep -q "$pid .*worker" "$work/text"
! LC_ALL=C grep -q "$(printf '[\033\007]')" "$work/text" || fail "control characters were printed"
! grep -q "$(printf '\302\233')" "$work/text" || fail "a control character of two bytes was printed"
timeout 30 env COLUMNS=9223372036854775807 "$tools/runloop-top" --once --interval 0.1 >"$work/text"
grep -q "$pid .*worker" "$work/text"
timeout 30 "$tools/runloop-top" --json --interval 0.5 >"$work/json"
python3 - "$work/json" <<'CHECK'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
measured, = [row for row in rows if row["name"] == "measured late"]
assert measured["load"] == 0.5 and measured["passesPerSecond"] == 2, measured
CHECK
# All of them are waited for in the same 3 seconds.
for named in "" "$peers" "$pid"; do
    status=0
    timeout 60 "$tools/runloop-dump" $named >"$work/text" || status=$?
    [ "$status" -lt 124 ] || fail "runloop-dump $named did not end"
    [ "$named" = "$peers" ] || grep -q "quick" "$work/text"
done

# A process costs 3 seconds, however many silent sockets it has, also more than are asked at a time.
cat >"$work/many.py" <<'MANY'
import os, resource, socket, time
folder = os.environ["XDG_RUNTIME_DIR"] + "/runloop"
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
keep = []
try:
    for number in range(1000, 2800):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with open(f"{folder}/{number:032x}.lock", "w") as file:
            file.write(f"RunLoop.shared.{number}")
        listener.bind(f"{folder}/{number:032x}.port")
        listener.listen(1000)
        keep.append(listener)
except OSError as error:
    print("no descriptors for many sockets:", error)
print("ready", flush=True)
while True:
    time.sleep(1000)
MANY
python3 "$work/many.py" >"$work/ready" &
pids="$pids $!"
read -r _ <"$work/ready"
timeout 40 "$tools/runloop-dump" >"$work/text" || fail "runloop-dump did not end beside many sockets"
grep -q "quick" "$work/text"
