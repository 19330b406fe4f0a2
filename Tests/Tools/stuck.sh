#!/bin/sh
# SPDX-License-Identifier: MIT
# A process of which each answer makes its reader wait: it takes no more than its share of the tool's threads, and others are seen as before (S-OUT-10).
. "$(dirname "$0")/lib.sh"
start_program
cat >"$work/stuck.py" <<'STUCK'
import os, socket, struct, sys, threading
folder = os.environ["XDG_RUNTIME_DIR"] + "/runloop"
other = socket.create_server(("127.0.0.1", 0), backlog=1000)
keep = []
asked = 0
lock = threading.Lock()
def serve(listener):
    global asked
    while True:
        connection, _ = listener.accept()
        keep.append(connection)
        if not connection.recv(100):
            continue
        slow = socket.create_connection(other.getsockname())
        slow.setblocking(False)
        try:
            while True:
                slow.send(bytes(65536))
        except BlockingIOError:
            pass
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 600))
        try:
            socket.send_fds(connection, [b"+"], [slow.fileno()])
        except OSError:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        # The reader has the last reference.
        slow.close()
        with lock:
            asked += 1
            if asked == 60:
                print("asked", flush=True)
for number in range(100, 300):
    with open(f"{folder}/{number:032x}.lock", "w") as file:
        file.write(f"RunLoop.shared.{number}")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{folder}/{number:032x}.port")
    listener.listen(10)
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
STUCK
mkfifo "$work/says"
python3 "$work/stuck.py" >"$work/says" &
pids="$pids $!"
exec 9<"$work/says"
read -r _ <&9
terminal new-session -d -s t -x 110 -y 30 "sh -c 'echo \$\$ >$work/tool; exec $tools/runloop-top --interval 0.2'"
read -r _ <&9
sees worker

# And it goes on so: other processes are seen that come later.
for later in 1 2; do
    RUNLOOP_SHARE=1 "$program" &
    other=$!
    pids="$pids $other"
    sees "$other .*worker"
    kill -9 "$other"
    sees_not "$other .*worker"
done
tool=$(cat "$work/tool")
# On a busy machine it comes to the last of them late.
for _ in $(seq 300); do
    threads=$(ls "/proc/$tool/task" | wc -l)
    [ "$threads" -lt 30 ] || break
    sleep 0.1
done
files=$(ls "/proc/$tool/fd" | wc -l)
[ "$threads" -ge 30 ] || fail "only $threads threads: nothing is shown by this"
[ "$threads" -le 70 ] || fail "$threads threads"
[ "$files" -le 450 ] || fail "$files files"
