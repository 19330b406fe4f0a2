# SPDX-License-Identifier: MIT
# What the tests of the tools (S-OUT-10) share. usage: TEST.sh FOLDER-OF-TOOLS PROGRAM
set -eu
tools=$1
program=$2
work=$(mktemp -d /tmp/rl-tools-XXXXXX)
export XDG_RUNTIME_DIR="$work" LC_ALL=C.UTF-8
pids=
finish() {
    for pid in $pids; do kill -9 "$pid" 2>/dev/null || true; done
    tmux -S "$work/tmux" kill-server 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
start_program() {
    RUNLOOP_SHARE=1 "$program" &
    pid=$!
    pids="$pids $pid"
    for _ in $(seq 1000); do
        "$tools/runloop-dump" "$pid" >/dev/null 2>&1 && return
        sleep 0.02
    done
    echo "the program is not seen"
    exit 1
}
fail() {
    echo "$@"
    exit 1
}
