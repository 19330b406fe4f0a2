/* SPDX-License-Identifier: MIT */
/*
 * Threads: who calls back where, what may be called from where, and that no lock is held meanwhile.
 * The probes are static, because what is left in a loop outlives the case that put it there.
 */
#include "support.h"

#include <stdlib.h>
#include <string.h>

/* S-THR-1, S-THR-7: everything from everywhere while the loop runs. */

enum { hammers = 4, strokes = 400 };

typedef struct Shared {
    RLRunLoopRef loop;
    Probe source, timer, observer, functions;
} Shared;
static Shared shared;

static void do_nothing(void *info) { (void)info; }

/* The sources have no schedule and no cancel: several threads would call those at once. */
static RLSourceRef plain_source(Probe *probe, RLIndex order) {
    RLSourceContext context = {.info = probe, .perform = do_nothing};
    return probe->source = RLSourceCreate(order, &context);
}

static void hammer(void *argument) {
    /* A callback of an item another thread invalidated may still be under way: static for them. */
    static Probe own[hammers][3];
    RLRunLoopRef loop = shared.loop;
    unsigned seed = (unsigned)(uintptr_t)argument;
    Probe *own_source = own[seed], *own_timer = own[seed] + 1, *own_observer = own[seed] + 2;
    const RLMode modes[] = {kRLDefaultMode, "other", kRLCommonModes};
    for (int i = 0; i < strokes; i++) {
        RLMode mode = modes[rand_r(&seed) % 3];
        plain_source(own_source, rand_r(&seed) % 3);
        probe_timer(own_timer, date_in(-1), rand_r(&seed) % 2 * 0.001);
        probe_observer(own_observer, kRLAllActivities, rand_r(&seed) % 2, 0);
        RLAddSource(loop, own_source->source, mode);
        RLAddTimer(loop, own_timer->timer, mode);
        RLAddObserver(loop, own_observer->observer, mode);
        RLSourceSignal(own_source->source);
        RLTimerSetNextFireDate(own_timer->timer, date_in(0.0001));
        RLTimerSetTolerance(own_timer->timer, 0.0001);
        (void)RLContainsSource(loop, own_source->source, mode);
        (void)RLContainsTimer(loop, own_timer->timer, mode);
        (void)RLContainsObserver(loop, own_observer->observer, mode);
        RLAddSource(loop, shared.source.source, mode);
        RLAddTimer(loop, shared.timer.timer, mode);
        RLAddObserver(loop, shared.observer.observer, mode);
        RLSourceSignal(shared.source.source);
        RLTimerSetNextFireDate(shared.timer.timer, -1);
        RLPerformFunction(loop, mode, do_nothing, malloc(16), free);
        RLWakeUp(loop);
        (void)RLIsWaiting(loop);
        (void)RLGetNextTimerFireDate(loop, mode);
        free(RLCopyCurrentMode(loop));
        free(RLCopyAllModes(loop, NULL));
        free(RLCopyDescription(rand_r(&seed) % 2 ? (RLTypeRef)loop : shared.timer.timer));
        RLRetain(loop);
        RLRelease(loop);
        RLRemoveSource(loop, shared.source.source, mode);
        RLRemoveTimer(loop, shared.timer.timer, mode);
        RLRemoveObserver(loop, shared.observer.observer, mode);
        if (rand_r(&seed) % 8 == 0) RLStop(loop);
        RLSourceInvalidate(own_source->source);
        RLTimerInvalidate(own_timer->timer);
        RLObserverInvalidate(own_observer->observer);
        RLRelease(own_source->source);
        RLRelease(own_timer->timer);
        RLRelease(own_observer->observer);
    }
}

static int hammers_left = hammers;
static void hammer_and_count(void *argument) {
    hammer(argument);
    if (__atomic_sub_fetch(&hammers_left, 1, __ATOMIC_SEQ_CST) == 0) RLStop(shared.loop);
}

RL_TEST(any_thread_may_call_anything, "S-THR-1 S-THR-7 S-REF-3",
        "Four threads may use one running loop and its items with every function at once; these "
        "are "
        "the calls that need no care for threads") {
    static Probe alive = {0};
    shared.loop = RLGetCurrent();
    plain_source(&shared.source, 0);
    probe_timer(&shared.timer, FAR_FUTURE, 0.01);
    probe_observer(&shared.observer, kRLAllActivities, true, 0);
    add_source(&alive, kRLDefaultMode);
    add_timer(&alive, FAR_FUTURE, 0, kRLDefaultMode);
    Thread *threads[hammers];
    for (int i = 0; i < hammers; i++)
        threads[i] = thread_start(hammer_and_count, (void *)(uintptr_t)i);
    while (count_of(&hammers_left) > 0) RLRunInMode(kRLDefaultMode, 0.05, false);
    for (int i = 0; i < hammers; i++) thread_join(threads[i]);
    /* The loop still works. */
    RLSourceSignal(alive.source);
    while (count_of(&alive.calls) == 0) RLRunInMode(kRLDefaultMode, 0, true);
    RLSourceInvalidate(shared.source.source);
    RLTimerInvalidate(shared.timer.timer);
    RLObserverInvalidate(shared.observer.observer);
    RLRelease(shared.source.source);
    RLRelease(shared.timer.timer);
    RLRelease(shared.observer.observer);
}

/* S-THR-2 */

static Probe remote[5];
static void use_from_afar(void *loop) {
    static int ends[2];
    make_pipe(ends);
    write_byte(ends[1]);
    RLAddSource(loop, probe_source(&remote[0], 0), kRLDefaultMode);
    RLSourceSignal(remote[0].source);
    RLAddSource(loop, probe_port(&remote[1], ends[0]), kRLDefaultMode);
    RLAddTimer(loop, probe_timer(&remote[2], -1, 0), kRLDefaultMode);
    RLAddObserver(loop, probe_observer(&remote[3], kRLBeforeSources, true, 0), kRLDefaultMode);
    probe_perform(&remote[4], loop, kRLDefaultMode);
    RLRelease(remote[0].source);
    RLRelease(remote[1].source);
    RLRelease(remote[2].timer);
    RLRelease(remote[3].observer);
    RLWakeUp(loop);
}
static bool all_called(void) {
    for (int i = 0; i < 5; i++)
        if (count_of(&remote[i].calls) == 0) return false;
    return true;
}

RL_TEST(callbacks_run_on_the_loop_s_thread, "S-THR-2",
        "Whatever another thread adds to a loop is called on the thread of the loop") {
    RLRunLoopRef loop = RLGetCurrent();
    keep_alive(loop, kRLDefaultMode);
    Thread *thread = when_waiting(loop, use_from_afar, loop);
    while (!all_called()) RLRunInMode(kRLDefaultMode, 60, true);
    thread_join(thread);
    for (int i = 0; i < 5; i++) ck_assert(pthread_equal(remote[i].thread, pthread_self()));
}

/* S-THR-4 */

static pthread_mutex_t clients_lock = PTHREAD_MUTEX_INITIALIZER;
static void take_the_lock(Probe *self) {
    (void)self;
    pthread_mutex_lock(&clients_lock);
    pthread_mutex_unlock(&clients_lock);
}
static Probe locked_source = {.action = take_the_lock}, locked_timer = {.action = take_the_lock};
static Probe locked_observer = {.action = take_the_lock};
static int lock_done;
static void call_with_the_lock(void *argument) {
    RLRunLoopRef loop = argument;
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&clients_lock);
        static Probe extra;
        RLAddSource(loop, locked_source.source, "other");
        RLAddTimer(loop, locked_timer.timer, "other");
        RLAddObserver(loop, locked_observer.observer, "other");
        RLSourceSignal(locked_source.source);
        RLTimerSetNextFireDate(locked_timer.timer, -1);
        RLWakeUp(loop);
        RLRemoveSource(loop, locked_source.source, "other");
        RLRemoveTimer(loop, locked_timer.timer, "other");
        RLRemoveObserver(loop, locked_observer.observer, "other");
        RLAddTimer(loop, probe_timer(&extra, FAR_FUTURE, 0), kRLDefaultMode);
        RLTimerInvalidate(extra.timer);
        RLRelease(extra.timer);
        pthread_mutex_unlock(&clients_lock);
    }
    __atomic_store_n(&lock_done, 1, __ATOMIC_SEQ_CST);
    RLStop(loop);
}

RL_TEST(a_caller_may_hold_the_lock_its_callbacks_take, "S-THR-4",
        "Calls under a lock do not deadlock against callbacks that take it") {
    RLRunLoopRef loop = RLGetCurrent();
    add_source(&locked_source, kRLDefaultMode);
    add_timer(&locked_timer, FAR_FUTURE, 0.001, kRLDefaultMode);
    add_observer(&locked_observer, kRLAllActivities, kRLDefaultMode);
    Thread *thread = when_waiting(loop, call_with_the_lock, loop);
    while (!count_of(&lock_done)) RLRunInMode(kRLDefaultMode, 0.05, false);
    thread_join(thread);
    ck_assert_int_gt(locked_observer.calls, 0);
}

/* S-THR-5 */

static void drop_everything(Probe *self) {
    if (self->source) {
        RLSourceInvalidate(self->source);
        RLRelease(self->source);
        ck_assert(!RLSourceIsValid(self->source));
        ck_assert_int_eq(RLSourceGetOrder(self->source), 0);
        ck_assert_int_eq(self->releases, 0);
    }
    if (self->timer) {
        RLTimerInvalidate(self->timer);
        RLRelease(self->timer);
        ck_assert(!RLTimerIsValid(self->timer));
        ck_assert_double_eq(RLTimerGetInterval(self->timer), 1000);
    }
    if (self->observer) {
        RLObserverInvalidate(self->observer);
        RLRelease(self->observer);
        ck_assert(!RLObserverIsValid(self->observer));
        ck_assert_uint_eq(RLObserverGetActivities(self->observer), kRLExit);
    }
}

RL_TEST(an_object_lives_through_its_callback, "S-THR-5 S-REF-4",
        "An item whose callback invalidates it and drops the last reference lives until it "
        "returned") {
    static Probe source = {.name = "s", .action = drop_everything, .counted = true};
    static Probe port = {.name = "p", .action = drop_everything, .counted = true};
    static Probe timer = {.name = "t", .action = drop_everything, .counted = true};
    static Probe observer = {.name = "o", .action = drop_everything, .counted = true};
    int fd = make_eventfd();
    eventfd_signal(fd);
    RLRetain(add_source(&source, kRLDefaultMode));
    RLRetain(add_port(&port, fd, kRLDefaultMode));
    RLRetain(add_timer(&timer, 0, 1000, kRLDefaultMode));
    RLRetain(add_observer(&observer, kRLExit, kRLDefaultMode));
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(trace_count("s") + trace_count("p") + trace_count("t") + trace_count("o"), 4);
    ck_assert_int_eq(source.releases, 1);
    ck_assert_int_eq(port.releases, 1);
    ck_assert_int_eq(timer.releases, timer.retains);
    ck_assert_int_eq(observer.releases, 1);
}

/* S-THR-6 */

static Probe gone_source, gone_timer, gone_observer;
static void end_them_all(Probe *self) {
    if (self->value) {
        RLSourceInvalidate(gone_source.source);
        RLTimerInvalidate(gone_timer.timer);
        RLObserverInvalidate(gone_observer.observer);
    } else {
        RLRemoveSource(self->loop, gone_source.source, kRLDefaultMode);
        RLRemoveTimer(self->loop, gone_timer.timer, kRLDefaultMode);
        RLRemoveObserver(self->loop, gone_observer.observer, kRLDefaultMode);
    }
    trace("ended");
}

static void check_nothing_begins_after(long invalidate) {
    static Probe ender = {.action = end_them_all};
    ender.value = invalidate;
    gone_source = (Probe){.name = "s"};
    gone_timer = (Probe){.name = "t"};
    gone_observer = (Probe){.name = "o"};
    RLRetain(add_source(&gone_source, kRLDefaultMode));
    RLRetain(add_timer(&gone_timer, 0, 0.001, kRLDefaultMode));
    RLRetain(add_observer(&gone_observer, kRLBeforeSources | kRLExit, kRLDefaultMode));
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    add_observer(&ender, kRLBeforeTimers, kRLDefaultMode);
    RLSourceSignal(gone_source.source);
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    ck_assert_int_eq(trace_count("s") + trace_count("t") + trace_count("o"), 0);
    ck_assert_int_ge(trace_count("ended"), 1);
    RLRelease(gone_source.source);
    RLRelease(gone_timer.timer);
    RLRelease(gone_observer.observer);
}

RL_TEST(nothing_begins_after_invalidate, "S-THR-6",
        "After Invalidate on the loop's thread no callback of the item begins") {
    check_nothing_begins_after(1);
}
RL_TEST(nothing_begins_after_remove, "S-THR-6",
        "After Remove on the loop's thread no callback of the item begins") {
    check_nothing_begins_after(0);
}
