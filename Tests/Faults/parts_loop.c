/* SPDX-License-Identifier: MIT */
/* Sources, timers, functions, observers, threads and forks. */
#define _GNU_SOURCE
#include "parts.h"

#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

static void count(void *counter) { add_one(counter); }

static RLSourceRef add_source(int *counter) {
    RLSourceContext context = {.info = counter, .perform = count};
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    return source;
}

static void end_source(RLSourceRef source) {
    RLSourceInvalidate(source);
    RLRelease(source);
}

/* What another thread is given. */
struct work {
    RLRunLoopRef loop;
    RLSourceRef source;
    int *counter;
    bool is_over;
};

static void *signal_ten_times(void *argument) {
    struct work *work = argument;
    for (int i = 1; i <= 10; i++) {
        RLSourceSignal(work->source);
        RLWakeUp(work->loop);
        if (!wait_until(work->counter, i, "a signal")) break;
    }
    return NULL;
}

static void signals_to(RLRunLoopRef loop) {
    int performed = 0;
    RLSourceRef source = add_source(&performed);
    struct work work = {.loop = loop, .source = source, .counter = &performed};
    pthread_t thread = start_thread(signal_ten_times, &work);
    run_until(&performed, 10, "ten signals");
    join_thread(thread);
    end_source(source);
}

static void signals(void) { signals_to(RLGetCurrent()); }

static void spinning(void) {
    RLSetSpinLimit(RLGetCurrent(), 0.0001);
    signals_to(RLGetCurrent());
    RLSetSpinLimit(RLGetCurrent(), 0);
}

static void fire(RLTimerRef timer, void *counter) {
    (void)timer;
    add_one(counter);
}

static void timers(void) {
    int fired = 0;
    RLTimerContext context = {.info = &fired};
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 0.001, 0.001, 0, 0, fire, &context);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    Patience patience = patience_begin();
    while (fired < 3 && !patience_ended(patience)) RLRunInMode(kRLDefaultMode, 0.01, false);
    if (fired < 3) lost("a timer");
    if (RLRunInMode(kRLDefaultMode, 0.002, false) != kRLRunTimedOut) lost("the end of a run");
    RLTimerInvalidate(timer);
    RLRelease(timer);
}

static void *post(void *argument) {
    struct work *work = argument;
    for (int i = 0; i < 100; i++) RLPerformFunction(work->loop, kRLDefaultMode, count, work->counter, NULL);
    RLWakeUp(work->loop);
    if (!RLPerformOnLoop(work->loop, kRLDefaultMode, count, work->counter, NULL, true)) lost("a request that was waited for");
    RLPerformOnLoop(work->loop, kRLDefaultMode, count, work->counter, NULL, false);
    return NULL;
}

static void posts(void) {
    int performed = 0, unused = 0;
    RLSourceRef source = add_source(&unused);
    struct work work = {.loop = RLGetCurrent(), .counter = &performed};
    pthread_t thread = start_thread(post, &work);
    RLPerformAfterDelay(kRLDefaultMode, 0.001, NULL, count, &performed, NULL);
    Patience patience = patience_begin();
    while (count_of(&performed) < 103 && !patience_ended(patience)) RLRunInMode(kRLDefaultMode, 0.02, false);
    if (count_of(&performed) < 103) lost("a function");
    join_thread(thread);
    end_source(source);
}

/* So many that the loop takes each wait for woken. */
static void *post_a_crowd(void *argument) {
    struct work *work = argument;
    for (int i = 0; i < 4000; i++) {
        RLPerformFunction(work->loop, kRLDefaultMode, count, work->counter, NULL);
        RLWakeUp(work->loop);
    }
    return NULL;
}

static void crowd(void) {
    int performed = 0, unused = 0;
    RLSourceRef source = add_source(&unused);
    struct work work = {.loop = RLGetCurrent(), .counter = &performed};
    pthread_t thread = start_thread(post_a_crowd, &work);
    Patience patience = patience_begin();
    while (count_of(&performed) < 4000 && !patience_ended(patience)) RLRunInMode(kRLDefaultMode, 0.02, false);
    if (count_of(&performed) < 4000) lost("a function of a crowd");
    join_thread(thread);
    end_source(source);
}

/* Another thread takes the loop's lock, which ends the bias to the loop's thread, and lets it calm down. */
static void *add_and_remove(void *argument) {
    struct work *work = argument;
    int unused = 0;
    RLSourceContext context = {.info = &unused, .perform = count};
    RLSourceRef source = RLSourceCreate(1, &context);
    for (int i = 0; i < 20; i++) {
        RLAddSource(work->loop, source, kRLDefaultMode);
        RLRemoveSource(work->loop, source, kRLDefaultMode);
    }
    RLRelease(source);
    __atomic_store_n(&work->is_over, true, __ATOMIC_SEQ_CST);
    return NULL;
}

static void foreign_lock(void) {
    int performed = 0;
    RLSourceRef source = add_source(&performed);
    struct work work = {.loop = RLGetCurrent()};
    pthread_t thread = start_thread(add_and_remove, &work);
    Patience patience = patience_begin();
    int signals = 0;
    while (!__atomic_load_n(&work.is_over, __ATOMIC_SEQ_CST) || signals < 600) {
        signals++;
        RLSourceSignal(source);
        RLRunInMode(kRLDefaultMode, 0, true);
        if (performed != signals) lost("a signal of the loop's own thread");
        if (patience_ended(patience)) break;
    }
    join_thread(thread);
    end_source(source);
}

static void live(RLThreadRef thread, void *counter) {
    (void)thread;
    int unused = 0;
    RLSourceRef source = add_source(&unused);
    RLSourceSignal(source);
    RLRunInMode(kRLDefaultMode, 0.001, true);
    end_source(source);
    add_one(counter);
}

static void threads(void) {
    int lived = 0, performed = 0;
    RLThreadRef thread = RLThreadCreate(live, &lived, NULL);
    RLThreadSetName(thread, "a thread");
    RLThreadSetPriority(thread, 1);
    RLThreadSetStackSize(thread, 256 * 1024);
    if (!RLThreadStart(thread)) {
        refused("RLThreadStart");
    } else {
        RLThreadJoin(thread);
        if (lived != 1) lost("a thread's body");
    }
    RLRelease(thread);
    if (!RLPerformInBackground(count, &performed, NULL))
        refused("RLPerformInBackground");
    else
        wait_until(&performed, 1, "a function in the background");
}

static void port_is_ready(void *counter) { add_one(counter); }
static int pipe_ends[2];
static RLPort pipe_port(void *info) {
    (void)info;
    return pipe_ends[0];
}

/* The child goes on with the parent's loop and its port. */
static void forks(void) {
    int performed = 0;
    if (pipe2(pipe_ends, 0) != 0) return;
    RLSourceContext1 context = {.version = 1, .info = &performed, .getPort = pipe_port, .perform = port_is_ready};
    RLSourceRef source = RLSourceCreate(0, (RLSourceContext *)&context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, true);
    (void)!write(pipe_ends[1], "x", 1);
    pid_t child = fork();
    if (child == 0) {
        run_until(&performed, 1, "a port in the child");
        _exit(outcome.is_lost);
    }
    run_until(&performed, 1, "a port in the parent");
    int status = 1;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) lost("the child, by a signal");
    if (status != 0) lost("a port in the child");
    RLSourceInvalidate(source);
    RLRelease(source);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

const Part loop_parts[] = {
    {"signals", signals}, {"spinning", spinning},         {"timers", timers},   {"posts", posts}, {"crowd", crowd},
    {"foreign-lock", foreign_lock}, {"threads", threads}, {"forks", forks},     {0},
};
