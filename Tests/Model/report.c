/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* A sequence takes a millisecond; one that hangs makes each trial slow, so few are made. */
enum { SECONDS_FOR_ONE = 10, MAX_TRIALS = 2500, TRIALS_PER_HANG = 400, LINES_BEFORE = 14, LINES_AFTER = 8 };

bool attempt_run(struct attempt *attempt, const struct program *program, const struct executor_options *options) {
    attempt->observed.count = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_FOR_ONE);
        executor_run(program, &attempt->observed, options);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &attempt->status, 0) != child) return false;
    attempt->difference = check_trace(program, &attempt->observed, &attempt->expected);
    return attempt->status == 0 && attempt->difference < 0;
}

/* Keeps the smaller sequence if it still fails. */
static bool keeps_failing(struct attempt *attempt, struct program *program, const struct program *smaller,
                          const struct executor_options *options, int *trials) {
    if (*trials >= MAX_TRIALS) return false;
    ++*trials;
    if (attempt_run(attempt, smaller, options)) return false;
    if (WIFSIGNALED(attempt->status) && WTERMSIG(attempt->status) == SIGALRM) *trials += TRIALS_PER_HANG;
    *program = *smaller;
    return true;
}

static void delete_ops(struct program *program, int first, int count) {
    memmove(&program->op[first], &program->op[first + count],
            (size_t)(program->count - first - count) * sizeof program->op[0]);
    program->count -= count;
}

static void delete_script_op(struct script *script, int index) {
    memmove(&script->ops[index], &script->ops[index + 1], (size_t)(script->count - index - 1) * sizeof script->ops[0]);
    script->count--;
}

static bool simplify_item(struct item_definition *item, int step) {
    struct item_definition before = *item;
    switch (step) {
    case 0:
        item->script = -1;
        break;
    case 1:
        item->has_retain = false;
        break;
    case 2:
        item->order = 0;
        break;
    case 3:
        item->edge = 0;
        break;
    default:
        return false;
    }
    return memcmp(&before, item, sizeof before) != 0;
}

static bool simplify_once(struct attempt *attempt, struct program *program, const struct executor_options *options,
                          int *trials) {
    static struct program smaller;
    bool changed = false;
    for (int size = program->count / 2; size >= 1; size /= 2)
        for (int first = program->count - size; first >= 0; first -= size) {
            if (first + size > program->count) continue;
            smaller = *program;
            delete_ops(&smaller, first, size);
            if (keeps_failing(attempt, program, &smaller, options, trials)) changed = true;
        }
    for (int s = 0; s < program->scripts; s++) {
        if (program->script[s].count == 0) continue;
        smaller = *program;
        smaller.script[s].count = 0;
        if (keeps_failing(attempt, program, &smaller, options, trials)) changed = true;
        for (int i = program->script[s].count - 1; i >= 0; i--) {
            smaller = *program;
            delete_script_op(&smaller.script[s], i);
            if (keeps_failing(attempt, program, &smaller, options, trials)) changed = true;
        }
    }
    for (int i = 0; i < program->items; i++)
        for (int step = 0; step < 4; step++) {
            smaller = *program;
            if (!simplify_item(&smaller.item[i], step)) continue;
            if (keeps_failing(attempt, program, &smaller, options, trials)) changed = true;
        }
    if (program->has_second_loop) {
        smaller = *program;
        smaller.has_second_loop = false;
        if (keeps_failing(attempt, program, &smaller, options, trials)) changed = true;
    }
    return changed;
}

void attempt_shrink(struct attempt *attempt, struct program *program, const struct executor_options *options) {
    int trials = 0;
    while (simplify_once(attempt, program, options, &trials) && trials < MAX_TRIALS) continue;
    attempt_run(attempt, program, options);
}

void attempt_print(const struct attempt *attempt, const struct program *program, bool whole) {
    int at = attempt->difference;
    int first = whole ? 0 : at - LINES_BEFORE, last = whole ? TRACE_CAPACITY : at + LINES_AFTER;
    program_print(program, stdout);
    if (WIFSIGNALED(attempt->status))
        printf("the program was killed by signal %d\n", WTERMSIG(attempt->status));
    else if (WIFEXITED(attempt->status) && WEXITSTATUS(attempt->status) == EXECUTOR_STUCK)
        printf("the library did not come back\n");
    else if (attempt->status != 0)
        printf("the program ended with status 0x%x\n", (unsigned)attempt->status);
    if (at < 0) {
        printf("trace, as expected (number, time, thread, what)\n");
        trace_print(&attempt->observed, 0, TRACE_CAPACITY, -1, stdout);
        return;
    }
    printf("expected (number, time, thread, what)\n");
    trace_print(&attempt->expected, first, last, at, stdout);
    printf("got\n");
    trace_print(&attempt->observed, first, last, at, stdout);
}
