# SPDX-License-Identifier: MIT
# Functions of the scripts that run tests: each step is a command with a name, its result is counted, and
# the last line of the script says how many passed and failed. A step's output is shown as it comes.

passed=0
failed=0
failures=""
log_folder=${TMPDIR:-/tmp}
step_log=$(mktemp "$log_folder/runloop-step.XXXXXX")
trap 'rm -f "$step_log"' EXIT

headline() { printf '\n== %s\n' "$*"; }

# run COMMAND...: runs it with its output shown and kept; the result is in $status.
run() {
    status=0
    "$@" </dev/null 2>&1 | tee "$step_log" || status=$?
}

note_failure() {
    failures="$failures
    $1"
}

# step NAME COMMAND...: one test that is a whole command.
step() {
    name=$1
    shift
    headline "$name"
    run "$@"
    if [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        note_failure "$name (exit $status)"
    fi
}

# The same, but the command must fail, and say the given text.
step_must_fail() {
    name=$1 text=$2
    shift 2
    headline "$name"
    run "$@"
    if [ "$status" -ne 0 ] && grep -q -e "$text" "$step_log"; then
        passed=$((passed + 1))
        echo "failed as it has to"
    else
        failed=$((failed + 1))
        note_failure "$name (it must fail with \"$text\"; exit $status)"
    fi
}

# build NAME COMMAND...: counts only when it fails, for it is no test. Its result is the function's.
build() {
    name=$1
    shift
    headline "$name"
    run "$@"
    [ "$status" -eq 0 ] && return 0
    failed=$((failed + 1))
    note_failure "$name (exit $status)"
    return 1
}

# ctest_step NAME ARGUMENT...: every test of a ctest run counts.
ctest_step() {
    name=$1
    shift
    headline "$name"
    run ctest --output-on-failure --no-tests=error "$@"
    total=$(sed -n 's/.*tests passed, [0-9]* tests\{0,1\} failed out of \([0-9]*\).*/\1/p' "$step_log" | tail -n 1)
    lost=$(sed -n 's/.*tests passed, \([0-9]*\) tests\{0,1\} failed out of .*/\1/p' "$step_log" | tail -n 1)
    count "$name" "$total" "$lost"
}

# swift_test_step NAME COMMAND...: every test of a Swift Testing run counts.
swift_test_step() {
    name=$1
    shift
    headline "$name"
    run "$@"
    closing=$(grep -E 'Test run with [0-9]+ tests?' "$step_log" | tail -n 1)
    total=$(printf '%s\n' "$closing" | sed -n 's/.*Test run with \([0-9]*\) test.*/\1/p')
    lost=$(grep -E '^[^ ]+ Test .* failed after ' "$step_log" | grep -cvE 'Test run with' || true)
    count "$name" "$total" "$lost"
}

# count NAME TOTAL LOST: takes a runner's figures over; a runner that gave none, or failed without
# saying which test did, counts as one failure.
count() {
    if [ -z "$2" ] || { [ "$status" -ne 0 ] && [ "${3:-0}" -eq 0 ]; }; then
        failed=$((failed + 1))
        passed=$((passed + ${2:-0}))
        note_failure "$1 (exit $status)"
        return
    fi
    passed=$((passed + $2 - $3))
    failed=$((failed + $3))
    [ "$3" -eq 0 ] || note_failure "$1 ($3 of $2 failed)"
}

# side_by_side FUNCTION...: runs functions of steps at the same time. What the last one says is shown as it comes, what the
# others say when they have ended.
side_by_side() {
    folder=$(mktemp -d "$log_folder/runloop-steps.XXXXXX")
    groups=""
    set -m
    while [ $# -gt 1 ]; do
        aside "$1" >"$folder/$1.log" 2>&1 &
        groups="$groups $1:$!"
        shift
    done
    set +m
    # They have process groups of their own, which no key of the terminal reaches.
    trap 'for group in $groups; do kill -- "-${group#*:}" 2>/dev/null; done; rm -rf "$folder"; exit 130' INT TERM
    "$1"
    for group in $groups; do
        wait "${group#*:}"
        cat "$folder/${group%:*}.log"
        if [ -e "$folder/${group%:*}.counts" ]; then
            . "$folder/${group%:*}.counts"
        else
            failed=$((failed + 1))
            note_failure "${group%:*} (it ended before its last step)"
        fi
    done
    trap - INT TERM
    rm -rf "$folder"
}

# aside FUNCTION: in a process of its own, writes what the steps of the function add to the counts.
aside() {
    passed=0 failed=0 failures=""
    step_log=$folder/$1.step
    "$1" </dev/null
    printf 'passed=$((passed + %d)) failed=$((failed + %d)) failures=$failures%q\n' "$passed" "$failed" "$failures" \
        >"$folder/$1.counts"
}

# The closing lines of a script; its result is the script's.
summary() {
    if [ "$failed" -gt 0 ]; then
        printf '\nfailed:%s\n' "$failures"
    fi
    printf '\n%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ]
}
