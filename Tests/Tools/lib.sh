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
# A tool in a terminal.
terminal() { tmux -S "$work/tmux" -f /dev/null "$@"; }
# sees PATTERN: the screen has a line like it, soon.
sees() {
    for _ in $(seq 300); do
        terminal capture-pane -p -t t >"$work/screen" 2>/dev/null || true
        grep -q -e "$1" "$work/screen" && return
        sleep 0.05
    done
    cat "$work/screen"
    fail "not seen: $1"
}
sees_not() {
    for _ in $(seq 300); do
        terminal capture-pane -p -t t >"$work/screen"
        grep -q -e "$1" "$work/screen" || return 0
        sleep 0.05
    done
    cat "$work/screen"
    fail "still seen: $1"
}
keys() { terminal send-keys -t t "$@"; }
