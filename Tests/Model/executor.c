/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "executor.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "executor_state.h"

struct executor executor;
__thread int executor_thread;

/* The second thread obeys one command at a time, while the first waits for it. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool busy;
    bool ends;
    int script;
    pthread_t thread;
} other = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

struct posted {
    int id;
    int script;
};

static struct posted posted[MAX_OPS + MAX_FUEL];

static void do_op(const struct op *op);

void executor_note(enum entry_kind kind, int item, int a, int64_t b) {
    bool on_any_thread = executor.gate.closing && kind != ENTRY_CANCEL;
    struct entry entry = {
        (int16_t)kind, (int16_t)(on_any_thread ? 0 : executor_thread), item, a, b, clock_now()};
    clock_progress();
    trace_add(executor.trace, entry);
    /* A library that calls back without end is stuck too; the model's sequences all end. */
    if (executor.trace->overflow) clock_stuck();
}

void executor_run_script(int script) {
    if (script < 0) return;
    for (int i = 0; i < executor.program->script[script].count; i++) {
        if (executor.gate.fuel == 0) return;
        executor.gate.fuel--;
        do_op(&executor.program->script[script].ops[i]);
    }
}

static void on_function(void *info) {
    const struct posted *function = info;
    executor_note(ENTRY_FUNCTION, function->id, 0, 0);
    executor_run_script(function->script);
}

static void on_function_release(void *info) {
    executor_note(ENTRY_FUNCTION_RELEASE, ((struct posted *)info)->id, 0, 0);
}

/* Operations. */

static void post(const struct op *op) {
    RLRunLoopRef loop = executor.loop[op->loop];
    struct posted *function = &posted[executor.functions];
    void (*release)(void *) = op->flags & FUNCTION_RELEASE ? on_function_release : NULL;
    int mask = op->value;
    *function = (struct posted){executor.functions++, op->script};
    if (__builtin_popcount((unsigned)mask) == 1 && !(op->flags & FUNCTION_LIST)) {
        WITH_NAME(__builtin_ctz((unsigned)mask), name, RLPerformFunction(loop, name, on_function, function, release));
        return;
    }
    RLMode names[MODES + 1];
    RLIndex count = 0;
    for (int mode = 0; mode < MODES; mode++)
        if (mask & 1 << mode) names[count++] = executor_mode_name(mode);
    RLPerformFunctionInModes(loop, names, count, on_function, function, release);
}

static void run(const struct op *op) {
    static const double special[] = {0, -INFINITY, INFINITY, NAN, 1e12};
    RLRunResult result = 0;
    executor_note(ENTRY_RUN, -1, op->kind == OP_RUN ? op->mode : -1, 0);
    executor.gate.depth++;
    if (op->kind == OP_RUN) {
        double seconds = op->timeout == TIMEOUT_UNITS ? op->value / UNITS_PER_SECOND : special[op->timeout];
        WITH_NAME(op->mode, name, result = RLRunInMode(name, seconds, op->returns_handled));
    } else {
        RLRun();
    }
    executor.gate.depth--;
    executor_note(ENTRY_RESULT, -1, result, 0);
}

static void command_other(int script) {
    pthread_mutex_lock(&other.lock);
    other.busy = true;
    other.script = script;
    pthread_cond_broadcast(&other.changed);
    while (other.busy) pthread_cond_wait(&other.changed, &other.lock);
    pthread_mutex_unlock(&other.lock);
}

static void end_other(void) {
    pthread_mutex_lock(&other.lock);
    other.busy = other.ends = true;
    pthread_cond_broadcast(&other.changed);
    pthread_mutex_unlock(&other.lock);
    pthread_join(other.thread, NULL);
}

static void ask(const struct op *op) {
    RLRunLoopRef loop = executor.loop[op->loop];
    void *object = (void *)executor.item[op->item].object;
    int64_t answer = 0;
    bool about_item = false;
    switch (op->kind) {
    case OP_CONTAINS:
        about_item = true;
        answer = executor_contains(op);
        break;
    case OP_IS_VALID:
        about_item = true;
        answer = executor_is_valid(op->item);
        break;
    case OP_IS_SIGNALLED:
        about_item = true;
        answer = RLSourceIsSignalled(object);
        break;
    case OP_FIRE_DATE:
        about_item = true;
        answer = executor_date_answer(RLTimerGetNextFireDate(object));
        break;
    case OP_TOLERANCE:
        about_item = true;
        if (!RLTimerIsValid(object)) return;
        RLTimerSetTolerance(object, op->value / UNITS_PER_SECOND);
        answer = llround(RLTimerGetTolerance(object) * 1e9);
        RLTimerSetTolerance(object, 0);
        break;
    case OP_CONTEXT:
        about_item = true;
        answer = executor_has_info(op->item);
        break;
    case OP_NEXT_FIRE_DATE:
        WITH_NAME(op->mode, name, answer = executor_date_answer(RLGetNextTimerFireDate(loop, name)));
        break;
    case OP_CURRENT_MODE: {
        char *name = RLCopyCurrentMode(loop);
        answer = executor_mode_number(name);
        free(name);
        break;
    }
    case OP_ALL_MODES: {
        RLIndex count = 0;
        char **names = RLCopyAllModes(loop, &count);
        for (RLIndex i = 0; i < count; i++) {
            int64_t bit = INT64_C(1) << (executor_mode_number(names[i]) + 1);
            answer = answer & bit ? -1 : answer | bit; /* S-MODE-6: each once */
        }
        if (answer > 0) answer >>= 1;
        free(names);
        break;
    }
    default:
        answer = RLIsWaiting(loop);
        break;
    }
    executor_note(ENTRY_ANSWER, about_item ? op->item : -1, op->kind, answer);
}

static void arm_outside(const struct op *op) {
    struct outside_event event = {.time = clock_now() + op->value * UNIT_NANOSECONDS,
                                  .kind = op->outside,
                                  .item = op->outside == OP_SIGNAL || op->outside == OP_WRITE ? op->item : -1,
                                  .loop = op->loop};
    if (event.item >= 0 && !executor.gate.created[event.item]) return;
    outside_arm(&executor.outside, event);
}

static void do_op(const struct op *op) {
    struct gate *gate = &executor.gate;
    if (!gate_allows(gate, executor.program, op)) return;
    clock_advance(program_advance(executor.program, op) * UNIT_NANOSECONDS);
    switch (op->kind) {
    case OP_CREATE:
        executor_create(op->item);
        gate->created[op->item] = gate->held[op->item] = true;
        break;
    case OP_RELEASE:
        gate->held[op->item] = false;
        RLRelease(executor.item[op->item].object);
        break;
    case OP_ADD:
    case OP_REMOVE:
    case OP_INVALIDATE:
    case OP_COMMON_MODE:
        executor_note(ENTRY_GROUP, -1, 0, 0);
        if (op->kind == OP_INVALIDATE)
            executor_invalidate(op->item);
        else if (op->kind == OP_COMMON_MODE)
            WITH_NAME(op->mode, name, RLAddCommonMode(executor.loop[op->loop], name));
        else
            executor_change_membership(op);
        executor_note(ENTRY_GROUP_END, -1, 0, 0);
        break;
    case OP_SIGNAL:
        RLSourceSignal((RLSourceRef)executor.item[op->item].object);
        break;
    case OP_WRITE:
        executor_write_port(op->item, op->value);
        break;
    case OP_DRAIN:
        executor_drain_port(op->item);
        break;
    case OP_SET_DATE:
        RLTimerSetNextFireDate((RLTimerRef)executor.item[op->item].object, executor_date(&op->date));
        break;
    case OP_WAKE:
        RLWakeUp(executor.loop[op->loop]);
        break;
    case OP_STOP:
        RLStop(executor.loop[op->loop]);
        break;
    case OP_FUNCTION:
        post(op);
        break;
    case OP_RUN:
    case OP_RUN_FOREVER:
        run(op);
        break;
    case OP_ADVANCE:
        break;
    case OP_OTHER_THREAD:
        gate->thread = 1;
        command_other(op->script);
        gate->thread = 0;
        break;
    case OP_END_OTHER:
        executor_note(ENTRY_GROUP, -1, 0, 0);
        end_other();
        gate->other_ended = true;
        executor_note(ENTRY_GROUP_END, -1, 0, 0);
        break;
    case OP_OUTSIDE:
        arm_outside(op);
        break;
    default:
        ask(op);
        break;
    }
}

/* What ends a wait; runs inside the library's system call, like a signal handler. */
static bool block(int64_t *now, int64_t deadline) {
    struct outside_event event;
    switch (outside_wait(&executor.outside, now, deadline, &event)) {
    case OUTSIDE_RESCUE:
        executor_note(ENTRY_RESCUE, -1, 0, 0);
        RLStop(executor.loop[executor_thread]); /* S-WAKE-12 */
        return false;
    case OUTSIDE_EVENT:
        executor_note(ENTRY_OUTSIDE, event.item, event.kind, 0);
        if (event.kind == OP_WAKE) RLWakeUp(executor.loop[event.loop]);
        if (event.kind == OP_STOP) RLStop(executor.loop[event.loop]);
        if (event.kind == OP_WRITE) executor_write_port(event.item, 1);
        if (event.kind == OP_SIGNAL && executor.gate.held[event.item])
            RLSourceSignal((RLSourceRef)executor.item[event.item].object);
        return false;
    default:
        return true;
    }
}

static void stuck(void) {
    struct entry entry = {ENTRY_STUCK, (int16_t)executor_thread, -1, 0, 0, clock_now()};
    trace_add(executor.trace, entry);
    _exit(EXECUTOR_STUCK);
}

static void *second_thread(void *unused) {
    (void)unused;
    executor_thread = 1;
    if (!executor.options.real_clock) clock_join();
    executor.loop[1] = RLGetCurrent();
    RLRetain(executor.loop[1]);
    for (;;) {
        pthread_mutex_lock(&other.lock);
        other.busy = false;
        pthread_cond_broadcast(&other.changed);
        while (!other.busy) pthread_cond_wait(&other.changed, &other.lock);
        pthread_mutex_unlock(&other.lock);
        if (other.ends) return NULL;
        executor_run_script(other.script);
    }
}

static void *first_thread(void *unused) {
    (void)unused;
    executor_thread = 0;
    if (!executor.options.real_clock) clock_join();
    executor.loop[0] = RLGetCurrent();
    if (executor.program->has_second_loop) {
        other.busy = true;
        other.ends = false;
        if (pthread_create(&other.thread, NULL, second_thread, NULL) != 0) abort();
        pthread_mutex_lock(&other.lock);
        while (other.busy) pthread_cond_wait(&other.changed, &other.lock);
        pthread_mutex_unlock(&other.lock);
    }
    for (int i = 0; i < executor.program->count; i++) do_op(&executor.program->op[i]);
    executor.gate.closing = true;
    executor_note(ENTRY_GROUP, -1, 0, 0);
    if (executor.program->has_second_loop) {
        if (!executor.gate.other_ended) end_other();
        RLRelease(executor.loop[1]);
    }
    return NULL;
}

static void ignore_log(const char *line, void *info) {
    (void)line;
    (void)info;
}

void executor_run(const struct program *program, struct trace *trace, const struct executor_options *options) {
    pthread_t first;
    memset(&executor, 0, sizeof executor);
    executor.program = program;
    executor.trace = trace;
    executor.options = *options;
    for (int i = 0; i < MAX_ITEMS; i++) executor.item[i] = (struct executor_item){i, NULL, -1, -1};
    trace_clear(trace);
    trace->planted = options->planted;
    gate_open(&executor.gate);
    clock_reset();
    clock_block = block;
    clock_stuck = stuck;
    RLSetLogHandler(ignore_log, NULL); /* S-MODE-19 logs a line. */
    if (pthread_create(&first, NULL, first_thread, NULL) != 0) abort();
    pthread_join(first, NULL);
    executor_thread = 0;
    executor_note(ENTRY_GROUP_END, -1, 0, 0);
    for (int i = 0; i < program->items; i++) {
        if (!executor.gate.held[i]) continue;
        executor_note(ENTRY_ANSWER, i, OP_IS_VALID, executor_is_valid(i));
        RLRelease(executor.item[i].object);
    }
    for (int i = 0; i < MAX_ITEMS; i++) {
        if (executor.item[i].read_end >= 0) close(executor.item[i].read_end);
        if (executor.item[i].write_end >= 0 && executor.item[i].write_end != executor.item[i].read_end)
            close(executor.item[i].write_end);
    }
}
