# SPDX-License-Identifier: MIT
# Functions of the scripts that run tests: each step is a command with a name, its result is counted, and
# the last line of the script says how many passed and failed. A step's output is shown as it comes, and what says why it
# failed once more at the end, where a log that is cut off still has it.

passed=0
failed=0
failures=""
details=""
times=""
log_folder=${TMPDIR:-/tmp}
step_log=$(mktemp "$log_folder/runloop-step.XXXXXX")
trap 'rm -f "$step_log"' EXIT

headline() { printf '\n== %s\n' "$*"; }

# Sets $used to the seconds of a processor that the commands of this shell have taken.
take_used() {
    times >"$step_log.times"
    used=$(awk 'NR == 2 { gsub(/[ms]/, " "); print int($1 * 60 + $2 + $3 * 60 + $4) }' "$step_log.times")
    rm -f "$step_log.times"
}

# run COMMAND...: runs it with its output shown and kept; the result is in $status. Notes how long it took, for the last lines.
run() {
    status=0
    local begin=$SECONDS taken used before
    take_used
    before=$used
    "$@" </dev/null 2>&1 | tee "$step_log" || status=$?
    taken=$((SECONDS - begin))
    if [ "$taken" -ge 5 ]; then
        take_used
        times="$times$(printf '%5d s  %5d  %s' "$taken" "$((used - before))" "$name")
"
    fi
}

# note_failure NAME EXCERPT...: keeps a failed step's name, and of its output what the command EXCERPT prints.
note_failure() {
    failures="$failures
    $1"
    heading=$1
    shift
    details="$details
-- $heading
$("$@" <"$step_log" | tail -n 30 | cut -c -500)
"
}

# The commands EXCERPT: filters of a step's output. Each prints 30 lines at most, or the last of them count.
last_lines() { tail -n 30; }

# Of a build the errors.
of_build() { grep -E 'error:|FAILED:|undefined reference|rror at |: \*\*\* ' "$step_log" || last_lines; }

# Of a ctest run the last lines of what each failed test wrote, and the list of them.
of_ctest() {
    awk '
        function show() { for (line = count > 8 ? count - 7 : 1; line <= count; line++) print lines[line]; count = 0 }
        /^The following tests FAILED:/ { show(); is_end = 1 }
        is_end { if (NF) print; next }
        /^ *[0-9]+\/[0-9]+ Test +#[0-9]+:/ { show(); is_failed = /\*\*\*/; if (is_failed) print; next }
        /^ +Start +[0-9]+:/ || /^[0-9]+% tests passed/ { show(); is_failed = 0; next }
        is_failed && NF { lines[++count] = $0 }
        { last = $0 }
        END { show(); if (!is_end) print last }'
}

# Of a Swift Testing run the issues, and the tests that had not ended if the run itself did not.
of_swift_test() {
    grep -E "$swift_failure" "$step_log" | grep -vE '^↳ (Testing Library Version|Target Platform):'
    grep -qE 'Test run with [0-9]+ tests?.* (passed|failed) after ' "$step_log" && return
    echo "the run did not come to its end; its last lines, and the tests that had not ended, the last started at the end:"
    grep -vE '^. (Test|Suite) .*(started\.$| after )' "$step_log" | tail -n 5
    awk '
        !/^[^ ]+ Test run / && sub(/^[^ ]+ Test /, "") {
            if (sub(/ started\.$/, "")) order[++count] = $0
            else if (match($0, / (passed|failed) after /)) over[substr($0, 1, RSTART - 1)] = 1
        }
        END { for (index_ = 1; index_ <= count; index_++) if (!(order[index_] in over)) print "    " order[index_] }
    ' "$step_log" | tail -n 12
}
swift_failure='^[^ ]+ (Test|Suite) .*( failed after | recorded an issue)|^ *↳ |Fatal error|rror: |SUMMARY: |WARNING: Thread|[Cc]rash'

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
        note_failure "$name (exit $status)" last_lines
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
        note_failure "$name (it must fail with \"$text\"; exit $status)" last_lines
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
    note_failure "$name (exit $status)" of_build
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
    count "$name" "$total" "$lost" of_ctest
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
    count "$name" "$total" "$lost" of_swift_test
}

# count NAME TOTAL LOST EXCERPT: takes a runner's figures over; a runner that gave none, or failed without
# saying which test did, counts as one failure.
count() {
    if [ -z "$2" ] || { [ "$status" -ne 0 ] && [ "${3:-0}" -eq 0 ]; }; then
        failed=$((failed + 1))
        passed=$((passed + ${2:-0}))
        note_failure "$1 (exit $status)" "$4"
        return
    fi
    passed=$((passed + $2 - $3))
    failed=$((failed + $3))
    [ "$3" -eq 0 ] || note_failure "$1 ($3 of $2 failed)" "$4"
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
    # A process of its own, too, or the processor's seconds of the others would count as those of a step during which they end.
    (aside "$1")
    take_counts "$1"
    for group in $groups; do
        wait "${group#*:}"
        cat "$folder/${group%:*}.log"
        take_counts "${group%:*}"
    done
    trap - INT TERM
    rm -rf "$folder"
}

# take_counts FUNCTION: what its process has written.
take_counts() {
    if [ -e "$folder/$1.counts" ]; then
        . "$folder/$1.counts"
    else
        failed=$((failed + 1))
        [ ! -e "$folder/$1.log" ] || cp "$folder/$1.log" "$step_log"
        note_failure "$1 (it ended before its last step)" last_lines
    fi
}

# aside FUNCTION: in a process of its own, writes what the steps of the function add to the counts.
aside() {
    passed=0 failed=0 failures="" details="" times=""
    step_log=$folder/$1.step
    "$1" </dev/null
    printf 'passed=$((passed + %d)) failed=$((failed + %d)) failures=$failures%q details=$details%q times=$times%q\n' \
        "$passed" "$failed" "$failures" "$details" "$times" >"$folder/$1.counts"
}

# The closing lines of a script; its result is the script's. What failed stands last, for of a log that is cut off the end is left.
summary() {
    # What takes the time, where it is worth while to save some.
    if [ -n "$times" ]; then printf '\nin %d seconds, of which took, with the seconds of a processor:\n%s' "$SECONDS" "$(printf '%s' "$times" | sort -rn)"; echo; fi
    if [ "$failed" -gt 0 ]; then
        printf '\nwhat the failed steps said:\n%s\nfailed:%s\n' "$details" "$failures"
    fi
    printf '\n%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ]
}
