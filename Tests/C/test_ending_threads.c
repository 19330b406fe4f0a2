/* SPDX-License-Identifier: MIT */
/*
 * Threads that end inside a callback, and timers that are elsewhere by the time their callback
 * returns: the next owner of the loop's memory notices nothing.
 */
#include "support.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

static void end_thread(Probe *self) {
    (void)self;
    pthread_exit(NULL);
}

static pthread_t start(void *(*body)(void *), void *argument) {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, body, argument), 0);
    return thread;
}

static Probe timers[3] = {{.name = "t", .action = end_thread}, {.name = "u"}, {.name = "v"}};

static void *end_in_a_timer(void *count) {
    for (int i = 0; i < *(int *)count; i++) {
        probe_timer(&timers[i], date_in(-1), i == 0 ? 10 : 0);
        RLAddTimer(RLGetCurrent(), timers[i].timer, kRLDefaultMode);
    }
    RLRunInMode(kRLDefaultMode, 60, false);
    return NULL;
}

RL_TEST(ends_in_a_timer, "S-LOOP-9 S-LOOP-12",
        "A timer's callback that ends its thread leaves the timers of the batch valid and free, and "
        "the next thread a loop that knows nothing of them") {
    for (int count = 1; count <= 3; count++) {
        pthread_join(start(end_in_a_timer, &count), NULL);
        expect_trace("t");
        ck_assert_int_eq(RLGetNextTimerFireDate(RLGetCurrent(), kRLDefaultMode) > 0, false);
        for (int i = 0; i < count; i++) {
            ck_assert(RLTimerIsValid(timers[i].timer));
            RLAddTimer(RLGetCurrent(), timers[i].timer, "other");
            ck_assert(RLContainsTimer(RLGetCurrent(), timers[i].timer, "other"));
            RLTimerInvalidate(timers[i].timer);
            ck_assert(!RLContainsTimer(RLGetCurrent(), timers[i].timer, "other"));
            ck_assert_int_eq(RLGetRetainCount(timers[i].timer), 1);
            RLRelease(timers[i].timer);
        }
    }
}

static Probe sources[2] = {{.name = "s", .action = end_thread}, {.name = "x"}};

static void *end_in_a_source(void *unused) {
    (void)unused;
    for (int i = 0; i < 2; i++) {
        probe_source(&sources[i], i);
        RLAddSource(RLGetCurrent(), sources[i].source, kRLDefaultMode);
        RLSourceSignal(sources[i].source);
    }
    RLRunInMode(kRLDefaultMode, 60, false);
    return NULL;
}

RL_TEST(ends_in_a_source, "S-LOOP-7 S-LOOP-8",
        "A source's callback that ends its thread leaves the other sources of the batch signalled, "
        "and no reference to any of them") {
    pthread_join(start(end_in_a_source, NULL), NULL);
    expect_trace("s");
    for (int i = 0; i < 2; i++) {
        ck_assert(RLSourceIsValid(sources[i].source));
        ck_assert_int_eq(RLGetRetainCount(sources[i].source), 1);
        RLAddSource(RLGetCurrent(), sources[i].source, kRLDefaultMode);
    }
    sources[0].action = NULL;
    ck_assert(RLSourceIsSignalled(sources[1].source));
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("x");
    for (int i = 0; i < 2; i++) RLRelease(sources[i].source);
}

static Probe batch[4] = {{.name = "1"}, {.name = "2"}, {.name = "3"}, {.name = "4"}};

static void *end_in_a_batch(void *ending) {
    for (int i = 0; i < 4; i++) {
        batch[i].action = i == *(int *)ending ? end_thread : NULL;
        probe_source(&batch[i], i);
        RLAddSource(RLGetCurrent(), batch[i].source, kRLDefaultMode);
        RLSourceSignal(batch[i].source);
    }
    RLRunInMode(kRLDefaultMode, 60, false);
    return NULL;
}

RL_TEST(ends_in_the_middle_of_a_batch, "S-LOOP-7 S-LOOP-8 S-SRC-15",
        "Whichever source of a batch ends the thread, the loop drops its references to all of them "
        "once") {
    for (int ending = 0; ending < 4; ending++) {
        pthread_join(start(end_in_a_batch, &ending), NULL);
        static const char *performed[] = {"1", "1 2", "1 2 3", "1 2 3 4"};
        expect_trace(performed[ending]);
        for (int i = 0; i < 4; i++) {
            ck_assert_int_eq(RLGetRetainCount(batch[i].source), 1);
            ck_assert_int_eq(RLSourceIsSignalled(batch[i].source), i > ending);
            RLRelease(batch[i].source);
        }
    }
}

static Probe ending_port = {.name = "p", .action = end_thread};

static void *end_in_a_port(void *ends) {
    add_port(&ending_port, ((int *)ends)[0], kRLDefaultMode);
    RLRetain(ending_port.source);
    RLRunInMode(kRLDefaultMode, 60, false);
    return NULL;
}

RL_TEST(ends_in_a_port, "S-LOOP-7 S-SRC-15",
        "A version 1 source that ends its thread is left with the client's reference alone") {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    pthread_join(start(end_in_a_port, ends), NULL);
    expect_trace("p");
    ck_assert_int_eq(RLGetRetainCount(ending_port.source), 1);
    RLRelease(ending_port.source);
    close(ends[0]);
    close(ends[1]);
}

static RLSourceRef triggered;

static void end_in_the_report(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    trace("k");
    pthread_exit(NULL);
}

static void *end_in_an_inbox(void *unused) {
    (void)unused;
    RLKernelEvent event = {.filter = kRLKernelFilterUser};
    triggered = RLKernelEventSourceCreate(&event, end_in_the_report, NULL);
    RLAddSource(RLGetCurrent(), triggered, kRLDefaultMode);
    RLKernelEventSourceTrigger(triggered, kRLNoteTrigger, 0);
    RLRunInMode(kRLDefaultMode, 60, false);
    return NULL;
}

RL_TEST(ends_in_an_inbox, "S-LOOP-7 S-SRC-15 S-KEV-7",
        "A source made ready by a call that ends its thread is left with the client's reference "
        "alone") {
    pthread_join(start(end_in_an_inbox, NULL), NULL);
    expect_trace("k");
    ck_assert_int_eq(RLGetRetainCount(triggered), 1);
    RLRelease(triggered);
}

/* Posts are numbers; `ending` is the one that ends the thread, `nesting` one that runs the loop. */

enum { post_count = 200 };
static int ending, nesting, ran, releases[post_count];

static void count_release(void *info) { releases[(intptr_t)info]++; }

static void run_post(void *info) {
    int number = (int)(intptr_t)info;
    ran++;
    if (number == nesting) {
        for (int i = 0; i < 3; i++) /* These are for the nested round. */
            RLPerformFunction(RLGetCurrent(), kRLDefaultMode, run_post,
                              (void *)(intptr_t)(post_count - 3 + i), count_release);
        RLRunInMode(kRLDefaultMode, 0, false);
    }
    if (number == ending) pthread_exit(NULL);
}

static void *end_in_a_post(void *unused) {
    (void)unused;
    const RLMode both[] = {"other", kRLDefaultMode};
    for (int i = 0; i < post_count - 3; i++) {
        if (i % 3 == 2)
            RLPerformFunctionInModes(RLGetCurrent(), both, 2, run_post, (void *)(intptr_t)i,
                                     count_release);
        else
            RLPerformFunction(RLGetCurrent(), i % 3 ? "other" : kRLDefaultMode, run_post,
                              (void *)(intptr_t)i, count_release);
    }
    RLRunInMode(kRLDefaultMode, 0, false);
    RLRunInMode("other", 0, false);
    return NULL;
}

RL_TEST(ends_in_a_performed_function, "S-BLK-18 S-LOOP-10",
        "A performed function that ends its thread, also in a nested run or one that waited for its "
        "mode, is released, and so is whatever was queued, each once") {
    static const int endings[][2] = {{0, -1}, {3, -1}, {4, -1}, {2, -1}, {195, -1}, {196, -1},
                                     {199, 3}, {197, 150}, {198, 4}, {-1, 6}};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        ending = endings[i][0];
        nesting = endings[i][1];
        ran = 0;
        memset(releases, 0, sizeof releases);
        pthread_join(start(end_in_a_post, NULL), NULL);
        ck_assert_int_eq(ran == post_count, ending < 0 && nesting >= 0);
        for (int post = 0; post < post_count; post++)
            ck_assert_int_eq(releases[post], post < post_count - 3 || nesting >= 0);
    }
}

static void *end_in_a_counted_timer(void *probe) {
    probe_timer(probe, date_in(-1), ((Probe *)probe)->value);
    RLAddTimer(RLGetCurrent(), ((Probe *)probe)->timer, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 60, false);
    return NULL;
}

static int ended_by, let_go_of;
static void end_in_function(void *unused) {
    (void)unused;
    ended_by++;
    RLThreadExit(NULL);
}
static void count_let_go(void *unused) {
    (void)unused;
    let_go_of++;
}
static void run_once_more(RLThreadRef thread, void *unused) {
    (void)thread, (void)unused;
    RLRunInMode(kRLDefaultMode, 0, false);
}
static void run_queued_function(RLThreadRef thread, void *mode) {
    (void)thread;
    RLPerformFunction(RLGetCurrent(), mode, end_in_function, NULL, count_let_go);
    RLRunInMode(kRLDefaultMode, 60, false);
}

RL_TEST(a_function_that_ends_its_thread_is_performed_once, "S-BLK-5 S-THREAD-16",
        "A function that ends its thread is released, and not performed again by the run that an exit callback makes") {
    const RLMode modes[] = {kRLDefaultMode, kRLCommonModes};
    for (int i = 0; i < 2; i++) {
        ended_by = let_go_of = 0;
        RLThreadRef thread = RLThreadCreate(run_queued_function, (void *)modes[i], NULL);
        ck_assert(RLThreadAddExitCallBack(thread, run_once_more, NULL));
        ck_assert(RLThreadStart(thread) && RLThreadJoin(thread));
        ck_assert_int_eq(ended_by, 1);
        ck_assert_int_eq(let_go_of, 1);
        RLRelease(thread);
    }
}

RL_TEST(closes_a_timers_bracket, "S-LOOP-19 S-TMR-44",
        "A timer whose callback ended its thread has its bracket closed; a one-shot is invalid and has "
        "released its context") {
    for (int repeats = 0; repeats < 2; repeats++) {
        Probe probe = {.name = "t", .action = end_thread, .counted = true, .value = 100 * repeats};
        pthread_join(start(end_in_a_counted_timer, &probe), NULL);
        expect_trace("t");
        ck_assert_int_eq(RLTimerIsValid(probe.timer), repeats);
        ck_assert_int_eq(probe.retains, 2);
        ck_assert_int_eq(probe.releases, repeats ? 1 : 2);
        RLRelease(probe.timer);
        ck_assert_int_eq(probe.releases, 2);
    }
}

RL_TEST(leaves_no_memory_in_a_timers_bracket, "S-LOOP-19 S-TMR-44",
        "Threads that end in the callback of a timer whose context is retained leave no memory behind") {
#if defined(WITH_ADDRESS_SANITIZER) || defined(WITH_THREAD_SANITIZER)
    return; /* Their allocators do not tell. */
#endif
    size_t before = 0;
    mallopt(M_ARENA_MAX, 1);
    for (int round = 0; round < 400; round++) {
        Probe probe = {.action = end_thread, .counted = true};
        pthread_join(start(end_in_a_counted_timer, &probe), NULL);
        RLRelease(probe.timer);
        if (round == 100) before = mallinfo2().uordblks;
    }
    ck_assert_uint_lt(mallinfo2().uordblks, before + 3000);
}

static void *end_in_a_one_shot_observer(void *probe) {
    probe_observer(probe, kRLBeforeTimers, false, 0);
    RLAddObserver(RLGetCurrent(), ((Probe *)probe)->observer, kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 60, false);
    return NULL;
}

RL_TEST(ends_in_a_one_shot_observer, "S-LOOP-19 S-OBS-16",
        "A one-shot observer whose callback ended its thread is invalid and has released its context") {
    Probe probe = {.name = "o", .action = end_thread, .counted = true};
    pthread_join(start(end_in_a_one_shot_observer, &probe), NULL);
    expect_trace("o");
    ck_assert(!RLObserverIsValid(probe.observer));
    ck_assert_int_eq(probe.releases, probe.retains);
    ck_assert_int_eq(RLGetRetainCount(probe.observer), 1);
    RLRelease(probe.observer);
}

static void *end_in_an_observer(void *probe) {
    probe_observer(probe, kRLBeforeTimers, true, 0);
    RLAddObserver(RLGetCurrent(), ((Probe *)probe)->observer, kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 60, false);
    return NULL;
}

RL_TEST(ends_in_an_observer, "S-LOOP-9",
        "An observer's callback that ends its thread leaves the observer valid and in no loop, and "
        "the next thread runs undisturbed") {
    static Probe probe = {.name = "o", .action = end_thread};
    pthread_join(start(end_in_an_observer, &probe), NULL);
    expect_trace("o");
    ck_assert(RLObserverIsValid(probe.observer));
    ck_assert_int_eq(RLGetRetainCount(probe.observer), 1);
    /* Its callback is not under way any more: elsewhere it is called. */
    probe.action = NULL;
    RLAddObserver(RLGetCurrent(), probe.observer, "elsewhere");
    keep_alive(RLGetCurrent(), "elsewhere");
    expect_run("elsewhere", 0, false, TimedOut);
    expect_trace("o");
    observe(RLGetCurrent(), kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS X");
    RLRelease(probe.observer);
}

static int observer_releases;
static Gate in_observer, may_leave;
static __thread bool is_to_end;
static void count_observer_release(const void *info) {
    (void)info;
    observer_releases++;
}
static void leave_by_exit(RLObserverRef observer, RLActivity activity, void *is_slow) {
    (void)observer, (void)activity;
    trace("o");
    if (is_slow) {
        gate_open(&in_observer);
        gate_wait(&may_leave);
    }
    if (is_to_end) pthread_exit(NULL);
}
static void run_nested(Probe *self) {
    (void)self;
    RLRunInMode("inner", 0, false);
}

static void *end_in_observers(void *observer) {
    static Probe outer = {.name = "outer", .action = run_nested};
    is_to_end = true;
    probe_observer(&outer, kRLBeforeTimers, true, 0);
    RLAddObserver(RLGetCurrent(), outer.observer, kRLDefaultMode);
    RLAddObserver(RLGetCurrent(), observer, "inner");
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    keep_alive(RLGetCurrent(), "inner");
    RLRelease(outer.observer);
    RLRunInMode(kRLDefaultMode, 60, false);
    return NULL;
}

RL_TEST(observers_are_free_after_the_end, "S-LOOP-19 S-THR-8 S-OBS-6",
        "An observer that ended its thread, also in a nested run, is called by its next loop; a "
        "one-shot is invalid by it; an Invalidate that met the callback has the context released") {
    for (int kind = 0; kind < 3; kind++) { /* Repeating; one-shot; invalidated in its callback. */
        bool is_slow = kind == 2;
        RLObserverContext context = {.info = is_slow ? &is_slow : NULL,
                                     .release = count_observer_release};
        RLObserverRef observer = RLObserverCreate(kRLBeforeTimers, kind != 1, 0, leave_by_exit,
                                                  &context);
        observer_releases = 0;
        in_observer = may_leave = (Gate)GATE_INITIALIZER;
        pthread_t thread = start(end_in_observers, observer);
        if (is_slow) {
            gate_wait(&in_observer);
            RLObserverInvalidate(observer);
            ck_assert_int_eq(observer_releases, 0);
            gate_open(&may_leave);
        }
        pthread_join(thread, NULL);
        expect_trace("outer o");
        ck_assert_int_eq(RLObserverIsValid(observer), kind == 0);
        ck_assert_int_eq(observer_releases, kind != 0);
        ck_assert_int_eq(RLGetRetainCount(observer), 1);
        RLAddObserver(RLGetCurrent(), observer, "next");
        keep_alive(RLGetCurrent(), "next");
        RLRunInMode("next", 0, false);
        expect_trace(kind == 0 ? "o" : "");
        RLObserverInvalidate(observer);
        ck_assert_int_eq(observer_releases, 1);
        RLRelease(observer);
    }
}

/* The loop M to which a timer moves in its callback ends before the callback returns. */

static RLRunLoopRef old_loop, new_loop;
static Gate have_new_loop = GATE_INITIALIZER, may_end = GATE_INITIALIZER;
static pthread_t new_owner;

static void *own_the_new_loop(void *unused) {
    (void)unused;
    new_loop = RLGetCurrent();
    gate_open(&have_new_loop);
    gate_wait(&may_end);
    return NULL;
}

static void move_to_the_new_loop(Probe *self) {
    RLRemoveTimer(old_loop, self->timer, kRLDefaultMode);
    RLAddTimer(new_loop, self->timer, kRLDefaultMode);
    gate_open(&may_end);
    pthread_join(new_owner, NULL);
    RLStop(old_loop);
}

RL_TEST(moves_to_a_loop_that_ends, "S-LOOP-9 S-TMR-26",
        "A timer that moved in its callback to a loop that was freed before the callback returned is "
        "in no loop") {
    static Probe probe = {.name = "t", .action = move_to_the_new_loop};
    old_loop = RLGetCurrent();
    new_owner = start(own_the_new_loop, NULL);
    gate_wait(&have_new_loop);
    probe_timer(&probe, date_in(-1), 0.1);
    RLAddTimer(old_loop, probe.timer, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 60, false);
    expect_trace("t");
    RLAddTimer(old_loop, probe.timer, kRLDefaultMode);
    ck_assert(RLContainsTimer(old_loop, probe.timer, kRLDefaultMode));
    RLTimerInvalidate(probe.timer);
    RLRelease(probe.timer);
}

/* A timer whose callback is on this stack is in another loop's modes by now. */

static RLRunLoopRef away_loop;
static bool is_over;

static void ask_for_dates(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST))
        ck_assert_double_eq(RLGetNextTimerFireDate(old_loop, "second"), 0);
}

static void change_modes(Probe *self) {
    RLRemoveTimer(old_loop, self->timer, kRLDefaultMode);
    RLAddTimer(away_loop, self->timer, "first");
    ck_assert_double_eq(RLGetNextTimerFireDate(away_loop, "first"), RLTimerGetNextFireDate(self->timer));
    Thread *asking = thread_start(ask_for_dates, NULL);
    static const RLMode modes[] = {"second", "third", "fourth"};
    for (int i = 0; i < 20000; i++) {
        for (int mode = 0; mode < 3; mode++) RLAddTimer(away_loop, self->timer, modes[mode]);
        for (int mode = 0; mode < 3; mode++) RLRemoveTimer(away_loop, self->timer, modes[mode]);
    }
    __atomic_store_n(&is_over, true, __ATOMIC_SEQ_CST);
    thread_join(asking);
    RLStop(old_loop);
}

static void lend_loop(LoopThread *self) {
    away_loop = self->loop;
    gate_open(&have_new_loop);
    gate_wait(&may_end);
}

RL_TEST(dates_of_a_timer_that_moved, "S-TMR-55 S-THR-1",
        "A timer that moves to another loop in its callback is asked for there. The earliest date of a loop's "
        "mode is asked for while a timer that this loop calls comes to and leaves modes of another") {
    static Probe probe = {.name = "t", .action = change_modes};
    LoopThread lender;
    old_loop = RLGetCurrent();
    keep_alive(old_loop, "second");
    have_new_loop = may_end = (Gate)GATE_INITIALIZER;
    loop_thread_start(&lender, lend_loop, NULL);
    gate_wait(&have_new_loop);
    probe_timer(&probe, date_in(-1), 10);
    RLAddTimer(old_loop, probe.timer, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 60, false);
    expect_trace("t");
    RLTimerInvalidate(probe.timer);
    RLRelease(probe.timer);
    gate_open(&may_end);
    thread_join(lender.thread);
}

/* A kernel that cannot read a timerfd without waiting, as before Linux 6.10. */

static bool refuses_nowait;

ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t offset, int flags) {
    (void)offset;
    if (refuses_nowait && flags != 0) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return readv(fd, parts, count);
}

static void drain_once(Probe *self) {
    uint64_t count;
    if (self->value++ == 0) ck_assert_int_eq(read(self->fd, &count, 8), 8);
}

static void expire_soon(int fd) {
    struct itimerspec soon = {.it_value = {0, 1000000}};
    ck_assert_int_eq(timerfd_settime(fd, 0, &soon, NULL), 0);
}

RL_TEST(drained_by_an_observer, "S-SRC-46 S-PASS-8",
        "A blocking timerfd that an observer drained after the wait is not read again, on a kernel "
        "that reads it only with waiting") {
    static Probe port = {.name = "p"}, observer = {.action = drain_once};
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    refuses_nowait = true;
    add_port(&port, fd, kRLDefaultMode);
    expire_soon(fd);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p");
    observer.fd = fd;
    add_observer(&observer, kRLAfterWaiting, kRLDefaultMode);
    expire_soon(fd);
    expect_run(kRLDefaultMode, 0.3, true, TimedOut);
    expect_trace("");
    ck_assert_int_ge(observer.value, 2);
    close(fd);
}
