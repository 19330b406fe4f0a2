/* SPDX-License-Identifier: MIT */
#include "executor.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "contexts.h"
#include "handles.h"
#include "operations.h"
#include "outcome.h"
#include "settle.h"
#include "stage.h"

enum { MAX_DEPTH = 4, FUEL = 60 };

static const struct program *program;
/* Guards the model and the files. It is held during callbacks and during operations, also during a nested run, which is only made
   while the other loop does not run. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Held by the thread that is the next to have the lock: a loop that calls all the time would let the other thread have no turn. */
static pthread_mutex_t next = PTHREAD_MUTEX_INITIALIZER;
static __thread int locks; /* how often the calling thread has the lock */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
RLRunLoopRef loops[LOOPS];
RLMode modes[MODES];
struct second second;
__thread struct frame *top;
__thread int own_loop;
static int fuel, planted, called;
static __thread bool is_hidden; /* a callback that the model is not told of */
bool is_quiet;

static void take_lock(void) {
    if (locks++ > 0) return;
    pthread_mutex_lock(&next);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&next);
}

static void drop_lock(void) {
    if (--locks == 0) pthread_mutex_unlock(&lock);
}

/* ---- callbacks */

bool callback_begins(int index, int generation, int types) {
    take_lock();
    outcome->calls++;
    is_hidden = ++called == planted;
    if (is_hidden) return false;
    note("%*sloop %d calls object %d for %d\n", 2 * top->depth + 2, "", own_loop, index, types);
    model_called(index, generation, types, top);
    return true;
}

static void act(int script) {
    if (script < 0 || is_quiet) return;
    for (int i = 0; i < program->script[script].count && fuel > 0; i++) {
        fuel--;
        do_op(&program->script[script].op[i]);
    }
}

void callback_acts(int index) { act(objects[index].what->script); }

void callback_ends(int index, int generation, int types) {
    if (!is_hidden) model_returned(index, generation, types);
    is_hidden = false;
    drop_lock();
}

void socket_has_ended(int index, int generation) {
    /* Another file that has the number by now need not be a socket. */
    if (objects[index].generation != generation || objects[index].is_stale) return;
    /* Whether an empty record was the end depends on what the other thread has done since it was read. */
    const struct file *file = file_of(objects[index].what->number);
    if (model_sleeps && file && file->kind == RECORDS) objects[index].is_stale = true;
    if (objects[index].is_stale) return;
    /* S-SOCK-65: it sends what is queued first; nothing is called meanwhile. */
    model_stream_ended(index, handle_queued(index) > 0 || (objects[index].has_ended_writing && objects[index].is_queued));
}

static void pass_begins(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    (void)activity;
    (void)info;
    __atomic_add_fetch(&top->passes, 1, __ATOMIC_RELEASE);
}

/* Between what the kernel has said and what is made of it. */
static void observer_acts(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    (void)info;
    take_lock();
    if (!is_quiet && fuel > 0) {
        note("%*sloop %d observes %u\n", 2 * top->depth + 2, "", own_loop, (unsigned)activity);
        top->acts += program->script[program->observer_script].count;
        act(program->observer_script);
    }
    drop_lock();
}

/* ---- runs */

static bool is_due(int loop, int mode) {
    for (int i = 0; i < object_count; i++)
        if (!objects[i].is_stale && object_due(&objects[i], loop, mode)) return true;
    return false;
}

static void run(const struct op *op) {
    struct frame frame = {.loop = own_loop, .mode = op->mode, .depth = top ? top->depth + 1 : 0, .handled = op->handled, .outer = top};
    take_lock();
    bool is_nested = top != NULL;
    double seconds = op->value == TIMEOUT_NONE ? 0 : op->handled && !second.sleeps && is_due(own_loop, op->mode) ? PATIENCE : 0.0003;
    frame.polls = seconds <= 0;
    int sources = second.sleeps ? -1 : model_content(own_loop, op->mode);
    model_run_begins(&frame);
    outcome->runs++;
    top = &frame;
    if (!is_nested) drop_lock();
    RLRunResult result = RLRunInMode(modes[op->mode], seconds, op->handled);
    if (!is_nested) take_lock();
    top = frame.outer;
    note("%*sresult %d\n", 2 * frame.depth, "", (int)result);
    model_run_ended(&frame, sources, (int)result);
    drop_lock();
    /* What was called in it was called in the outer runs, too; their results do not count it. */
}

static void sleep_until_stopped(void) {
    struct frame frame = {.loop = 1, .mode = second.op.mode, .sleeps = true};
    take_lock();
    model_run_begins(&frame);
    top = second.frame = &frame;
    drop_lock();
    RLRunInMode(modes[frame.mode], 1e9, false);
    take_lock();
    top = second.frame = NULL;
    drop_lock();
}

/* ---- the second thread */

static void add_observer(RLActivity activities, RLObserverCallBack callback) {
    RLObserverRef observer = RLObserverCreate(activities, true, 0, callback, NULL);
    for (int mode = 0; mode < MODES; mode++) RLAddObserver(loops[own_loop], observer, modes[mode]);
    RLRelease(observer);
}

static void enter_loop(int number) {
    own_loop = number;
    loops[number] = RLGetCurrent();
    add_observer(kRLBeforeTimers, pass_begins);
    if (program->observer_script >= 0) add_observer(program->activities, observer_acts);
}

static void *second_thread(void *unused) {
    (void)unused;
    enter_loop(1);
    take_lock();
    for (;;) {
        second.is_busy = false;
        pthread_cond_broadcast(&changed);
        while (!second.is_busy) pthread_cond_wait(&changed, &lock);
        if (second.ends) break;
        drop_lock();
        if (second.op.kind == OP_SLEEP) sleep_until_stopped();
        else run(&second.op);
        take_lock();
    }
    drop_lock();
    return NULL;
}

static void wait_for_second(void) {
    while (second.is_busy) pthread_cond_wait(&changed, &lock);
}

static bool uses_second_loop(const struct op *op, int count) {
    for (int i = 0; i < count; i++)
        if (op[i].kind == OP_SLEEP || (op[i].loop == 1 && (op[i].kind == OP_ADD || op[i].kind == OP_RUN))) return true;
    return false;
}

/* Before anything else, if the program has use for it. */
static void start_second(void) {
    bool is_used = uses_second_loop(program->op, program->count);
    for (int s = 0; s < SCRIPTS; s++) is_used = is_used || uses_second_loop(program->script[s].op, program->script[s].count);
    if (!is_used) return;
    second.is_started = second.is_busy = true;
    if (pthread_create(&second.thread, NULL, second_thread, NULL) != 0) abort();
    wait_for_second();
}

static void tell_second(const struct op *op) {
    second.op = *op;
    second.is_busy = true;
    pthread_cond_broadcast(&changed);
}

static void give_way(void) {
    drop_lock();
    sched_yield();
    take_lock();
}

static void start_sleep(const struct op *op) {
    second.sleeps = true;
    model_sleeps = ++instant;
    outcome->sleeps++;
    tell_second(op);
    while (second.is_busy && !(second.frame && __atomic_load_n(&second.frame->passes, __ATOMIC_ACQUIRE))) give_way();
}

/* Waits until the loop that sleeps has called what is due. */
static void await_calls(void) {
    time_t begin = time(NULL);
    unsigned long start = ++instant;
    int mode = second.op.mode, missing = -1;
    for (bool is_last = false;; is_last = time(NULL) > begin + PATIENCE) {
        missing = -1;
        for (int i = 0; i < object_count && second.frame; i++)
            if (objects[i].called < start && object_is_awaited(&objects[i], mode)) missing = i;
        if (missing < 0 || is_last) break;
        give_way();
    }
    if (missing >= 0) disagree("object %d is ready, and the loop that waits does not call it", missing);
}

/* While nothing happens but calls, a loop that sleeps makes no passes. */
static void watch_the_sleep(void) {
    struct timespec moment = {.tv_nsec = 500000};
    struct frame *frame = second.frame;
    if (!frame || !model_is_settled(frame)) return;
    int calls = frame->calls, passes = __atomic_load_n(&frame->passes, __ATOMIC_ACQUIRE);
    drop_lock();
    nanosleep(&moment, NULL);
    take_lock();
    /* Its mode may have become empty. */
    if (second.frame != frame) return;
    calls = frame->calls - calls;
    passes = __atomic_load_n(&frame->passes, __ATOMIC_ACQUIRE) - passes;
    if (passes > 3 * calls + 20) disagree("a loop that sleeps makes %d passes for %d calls", passes, calls);
}

void stop_sleep(void) {
    await_calls();
    watch_the_sleep();
    note("the sleep is stopped\n");
    time_t begin = time(NULL);
    RLStop(loops[1]);
    while (second.is_busy && time(NULL) < begin + PATIENCE) give_way();
    if (second.is_busy) {
        disagree("the loop that sleeps does not stop");
        _Exit(0);
    }
    second.sleeps = false;
    model_sleeps = 0;
    /* What the thread read of counters before its callbacks was not in step with what was written. */
    for (int i = 0; i < NUMBERS; i++) {
        struct file *file = file_of(i);
        if (!file || file->kind != COUNTER) continue;
        if (!(file_ready(i) & READ)) file->count = 0;
        else if (file->count == 0) file->count = 1;
    }
    /* Nor was what it reported with what was enabled and disabled. */
    for (int i = 0; i < object_count; i++) {
        objects[i].touched = ++instant;
        objects[i].may_be_disabled = false;
        if (!can_use(i) || objects[i].what->kind == PORT) continue;
        handle_disable(i, READ | WRITE);
        handle_enable(i, objects[i].enabled, false);
        handle_enable(i, objects[i].enabled & objects[i].persistent, true);
    }
}

/* ---- operations */

static void do_loop_op(const struct op *op) {
    bool is_script = top != NULL;
    switch (op->kind) {
    case OP_RUN:
        if (is_script ? second.sleeps || top->depth + 1 >= MAX_DEPTH : op->loop == 1 && second.sleeps) return;
        if (!is_script && op->loop == 1) {
            tell_second(op);
            return wait_for_second();
        }
        if (!is_script) drop_lock();
        run(op);
        if (!is_script) take_lock();
        break;
    case OP_SLEEP:
        if (is_script || second.sleeps) return;
        start_sleep(op);
        break;
    default:
        if (!is_script && second.sleeps) stop_sleep();
    }
}

/* S-FD-11, S-SOCK-10. A thread that is in a call with the number closes it later (S-SOCK-70). */
static void await_closes(void) {
    time_t begin = time(NULL);
    while (!files_are_closed() && time(NULL) < begin + PATIENCE) give_way();
    if (!files_are_closed()) disagree("the number of an object that has ended is open");
}

/* The caller holds the lock. */
void do_op(const struct op *op) {
    char text[96];
    if (outcome->has_failed) return;
    await_closes();
    op_describe(op, text);
    note("%*s%s\n", top ? 2 * top->depth + 4 : 0, "", text);
    if (op->kind < OP_CREATE) do_file_op(op);
    else if (op->kind < OP_RUN) do_object_op(op);
    else do_loop_op(op);
}

/* ---- a program */

static void *first_thread(void *unused) {
    (void)unused;
    enter_loop(0);
    take_lock();
    start_second();
    for (int i = 0; i < program->count; i++) do_op(&program->op[i]);
    settle();
    for (int i = 0; i < object_count; i++) {
        if (can_use(i)) {
            model_invalidated(i);
            handle_invalidate(i);
        }
        handle_release(i);
    }
    await_closes();
    if (second.is_started) {
        second.ends = true;
        tell_second(&second.op);
        drop_lock();
        pthread_join(second.thread, NULL);
        take_lock();
    }
    drop_lock();
    return NULL;
}

static void ignore_log(const char *line, void *info) {
    (void)line;
    (void)info;
}

void execute(const struct program *what, struct outcome *result, int hidden) {
    pthread_t thread;
    program = what;
    outcome_start(result);
    memset(&second, 0, sizeof second);
    fuel = FUEL;
    planted = hidden;
    called = 0;
    is_quiet = false;
    modes[0] = kRLDefaultMode;
    modes[1] = "red";
    RLSetLogHandler(ignore_log, NULL);
    contexts_start();
    model_start(program);
    files_open_all(program);
    if (pthread_create(&thread, NULL, first_thread, NULL) != 0) abort();
    pthread_join(thread, NULL);
    contexts_check();
    files_close_all();
    connections_close();
}
