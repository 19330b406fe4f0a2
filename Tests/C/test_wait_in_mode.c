/* SPDX-License-Identifier: MIT */
/* Section 31: waits that run the loop. */
#define _GNU_SOURCE
#include "support.h"
#include "system_calls.h"

#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static RLCondition condition = RL_CONDITION_INIT;
static RLLock lock = RL_LOCK_INIT;
static int ready;

static void set_ready(void *unused) {
    (void)unused;
    RLLockLock(&condition.lock);
    ready = 1;
    RLConditionSignal(&condition);
    RLLockUnlock(&condition.lock);
}
static void set_ready_and_broadcast(void *unused) {
    (void)unused;
    RLLockLock(&condition.lock);
    ready = 1;
    RLLockUnlock(&condition.lock);
    RLConditionBroadcast(&condition);
}
static void record(void *word) { trace("%s", (const char *)word); }
__attribute__((unused)) static void unlock(void *unused) {
    (void)unused;
    RLLockUnlock(&lock);
}
static void hold_and_open(void *gate) {
    RLLockLock(&lock);
    gate_open(gate);
}
static void lock_elsewhere(void) {
    Gate gate = GATE_INITIALIZER;
    Thread *thread = thread_start(hold_and_open, &gate);
    gate_wait(&gate);
    thread_join(thread);
}
/* The same by a thread that also gives it back, as the thread sanitizer wants it. */
static Gate gives_back[2];
static Thread *holder;
static void hold_and_give_back(void *unused) {
    (void)unused;
    RLLockLock(&lock);
    gate_open(&gives_back[0]);
    gate_wait(&gives_back[1]);
    RLLockUnlock(&lock);
}
static void hold_elsewhere(void) {
    holder = thread_start(hold_and_give_back, NULL);
    gate_wait(&gives_back[0]);
}
static void give_back(void *unused) {
    (void)unused;
    gate_open(&gives_back[1]);
    thread_join(holder);
}
static bool wait_until_ready(RLMode mode) {
    RLLockLock(&condition.lock);
    bool in_time = true;
    while (!ready && in_time) in_time = RLConditionWaitInMode(&condition, mode, 1e6);
    RLLockUnlock(&condition.lock);
    return in_time && ready;
}

static void signal_through_the_loop(void *loop) {
    RLPerformFunction(loop, kRLDefaultMode, record, "posted", NULL);
    RLWakeUp(loop);
    RLPerformOnLoop(loop, kRLDefaultMode, record, "requested", NULL, true);
    set_ready(NULL);
}

RL_TEST(condition_runs_the_loop, "S-SYNC-22", "While it waits for a condition the loop performs what comes for it, and the run ends with the signal") {
    observe(RLGetCurrent(), kRLDefaultMode);
    Thread *thread = when_waiting(RLGetCurrent(), signal_through_the_loop, RLGetCurrent());
    ck_assert(wait_until_ready(NULL));
    thread_join(thread);
    const char *seen = trace_take();
    ck_assert_ptr_nonnull(strstr(seen, "posted"));
    ck_assert_ptr_nonnull(strstr(seen, "requested"));
    ck_assert_int_eq(strncmp(seen, "E ", 2), 0);
    ck_assert_uint_eq(condition.waiters, 0);
    ck_assert_ptr_null(RLCopyCurrentMode(RLGetCurrent()));
}

RL_TEST(condition_in_another_mode, "S-SYNC-22", "The mode that is named is run; broadcast reaches the wait; a limit ends it; 0 makes one pass") {
    Thread *thread = when_waiting(RLGetCurrent(), set_ready_and_broadcast, NULL);
    ck_assert(wait_until_ready("mode"));
    thread_join(thread);
    RLLockLock(&condition.lock);
    double begin = monotonic_now();
    ck_assert(!RLConditionWaitInMode(&condition, "mode", 0.005));
    ck_assert(monotonic_now() - begin >= 0.005);
    probe_perform(&(Probe){.name = "pass"}, RLGetCurrent(), "mode");
    ck_assert(!RLConditionWaitInMode(&condition, "mode", 0));
    ck_assert(!RLConditionWaitInMode(&condition, "mode", -1));
    RLLockUnlock(&condition.lock);
    expect_trace("pass");
}

static void *sleep_for_condition(void *unused) {
    RLLockLock(&condition.lock);
    while (!ready) RLConditionWait(&condition);
    ready = 2;
    RLLockUnlock(&condition.lock);
    RLConditionSignal(&condition);
    return unused;
}

static void take_ten_seconds(Probe *self) {
    if (self->value++ > 0) return;
    RLClockAdvance(self->data, 10);
    RLRunInMode("m", 0, false);
}

RL_TEST(a_limit_begins_with_the_call, "S-SYNC-4 S-SYNC-22 S-SYNC-23",
        "The time that Entry observers of a wait's run take belongs to the limit: where they come to its end, the wait is over") {
    RLClockRef clock = RLClockCreateManual();
    ck_assert(RLSetClock(RLGetCurrent(), clock));
    static Probe entry = {.action = take_ten_seconds};
    entry.data = clock;
    add_observer(&entry, kRLEntry, "m");
    keep_alive(RLGetCurrent(), "m");
    RLLockLock(&condition.lock);
    ck_assert(!RLConditionWaitInMode(&condition, "m", 5));
    RLLockUnlock(&condition.lock);
    hold_elsewhere();
    entry.value = 0;
    ck_assert(!RLLockInMode(&lock, "m", 5));
    give_back(NULL);
    RLRelease(clock);
}

static void stop_the_run(Probe *self) {
    (void)self;
    RLStop(RLGetCurrent());
}

RL_TEST(stops_do_not_lift_the_limit, "S-SYNC-4 S-SYNC-24", "A wait for a lock whose runs are all stopped ends at its limit, by whichever clock") {
    static Probe entry = {.action = stop_the_run};
    add_observer(&entry, kRLEntry, "m");
    keep_alive(RLGetCurrent(), "m");
    hold_elsewhere();
    ck_assert(!RLLockInMode(&lock, "m", 0.005));
    RLClockRef clock = RLClockCreateManual();
    ck_assert(RLSetClock(RLGetCurrent(), clock));
    entry.action = take_ten_seconds;
    entry.data = clock;
    static Probe stops = {.action = stop_the_run};
    add_observer(&stops, kRLEntry, "m");
    ck_assert(!RLLockInMode(&lock, "m", 5));
    give_back(NULL);
    RLRelease(clock);
}

RL_TEST(sleeper_and_loop, "S-SYNC-22 S-SYNC-14", "A signal reaches a thread that sleeps beside one that runs its loop, and a second signal that one") {
    pthread_t sleeper;
    pthread_create(&sleeper, NULL, sleep_for_condition, NULL);
    wait_until_count((int *)&condition.waiters, 1);
    RLLockLock(&condition.lock);
    Thread *thread = when_waiting(RLGetCurrent(), set_ready, NULL);
    while (ready != 2) RLConditionWaitInMode(&condition, NULL, 1e6);
    RLLockUnlock(&condition.lock);
    thread_join(thread);
    pthread_join(sleeper, NULL);
}

/* The thread sanitizer reports a lock that another thread gives back, and a thread that ends while it waits for one. */
#if !defined(WITH_THREAD_SANITIZER)
RL_TEST(lock_in_mode, "S-SYNC-23 S-SYNC-4", "A free lock is taken without a run; a taken one while the loop runs until it is free; a limit ends the wait") {
    observe(RLGetCurrent(), kRLDefaultMode);
    ck_assert(RLLockInMode(&lock, NULL, 1e6));
    expect_trace("");
    RLLockUnlock(&lock);
    lock_elsewhere();
    double begin = monotonic_now();
    ck_assert(!RLLockInMode(&lock, NULL, 0.005));
    ck_assert(monotonic_now() - begin >= 0.005);
    ck_assert(!RLLockInMode(&lock, NULL, 0));
    Thread *thread = when_waiting(RLGetCurrent(), unlock, NULL);
    ck_assert(RLLockInMode(&lock, kRLCommonModes, 1e6));
    thread_join(thread);
    ck_assert(!RLLockTryLock(&lock));
    RLLockUnlock(&lock);
    ck_assert(RLLockTryLock(&lock));
}
#endif

static int counter;
static void count_in_mode(LoopThread *self) {
    (void)self;
    for (int i = 0; i < 2000; i++) {
        if (i % 3) RLLockInMode(&lock, "mode", 1e6);
        else RLLockLock(&lock);
        counter++;
        RLLockUnlock(&lock);
    }
}

RL_TEST(lock_in_mode_meets_others, "S-SYNC-23 S-SYNC-8", "Threads that sleep for a lock and threads that run their loops for it all get it") {
    LoopThread threads[4];
    for (int i = 0; i < 4; i++) loop_thread_start(&threads[i], count_in_mode, NULL);
    for (int i = 0; i < 4; i++) thread_join(threads[i].thread);
    ck_assert_int_eq(counter, 8000);
}

static void nest(void *unused) {
    (void)unused;
    Thread *thread = when_waiting(RLGetCurrent(), set_ready, NULL);
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    thread_join(thread);
    trace("nested");
}

RL_TEST(signalled_in_a_nested_run, "S-SYNC-24", "A signal in a run nested in the wait ends the wait when that has returned, in the same mode and in another") {
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, nest, NULL, NULL);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    ck_assert(wait_until_ready(kRLDefaultMode));
    ready = 0;
    RLPerformFunction(RLGetCurrent(), "mode", nest, NULL, NULL);
    ck_assert(wait_until_ready("mode"));
    expect_trace("nested nested");
}

static void wait_and_record(void *again) {
    ck_assert(wait_until_ready(NULL));
    trace("inner");
    ready = 0;
    *(Thread **)again = when_waiting(RLGetCurrent(), set_ready, NULL);
}
static void take_and_record(void *unused) {
    (void)unused;
    ck_assert(RLLockInMode(&lock, NULL, 1e6));
    trace("inner");
    RLLockUnlock(&lock);
}

RL_TEST(signalled_in_a_nested_wait, "S-SYNC-24 S-SYNC-23", "Of two waits of a thread for the same thing, one in a callback of the other, a wake-up ends the inner one") {
    Thread *again;
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, wait_and_record, &again, NULL);
    Thread *thread = when_waiting(RLGetCurrent(), set_ready, NULL);
    ck_assert(wait_until_ready(NULL));
    thread_join(thread);
    thread_join(again);
    expect_trace("inner");
    hold_elsewhere();
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, take_and_record, NULL, NULL);
    thread = when_waiting(RLGetCurrent(), give_back, NULL);
    ck_assert(RLLockInMode(&lock, NULL, 1e6));
    RLLockUnlock(&lock);
    thread_join(thread);
    expect_trace("inner");
}

enum { CROWD = 24 };
static int crowd_taken;
static uint64_t crowd_runs[CROWD];
static void take_in_a_crowd(LoopThread *self) {
    ck_assert(RLLockInMode(&lock, NULL, 1e6));
    crowd_taken++;
    RLLockUnlock(&lock);
    RLStatistics statistics = {.version = 0};
    RLGetStatistics(self->loop, &statistics);
    *(uint64_t *)self->data = statistics.runs;
}

RL_TEST(a_crowd_waits_for_a_lock, "S-SYNC-23 S-THR-9", "Of many threads that wait for one lock in their loops an unlock wakes one, not all of them") {
    LoopThread threads[CROWD];
    uint64_t runs = 0;
    RLLockLock(&lock);
    for (int i = 0; i < CROWD; i++) {
        loop_thread_start(&threads[i], take_in_a_crowd, &crowd_runs[i]);
        wait_until_waiting(threads[i].loop);
    }
    RLLockUnlock(&lock);
    for (int i = 0; i < CROWD; i++) {
        thread_join(threads[i].thread);
        runs += crowd_runs[i];
    }
    ck_assert_int_eq(crowd_taken, CROWD);
    ck_assert_uint_eq(runs, CROWD);
}

static Gate has_taken = GATE_INITIALIZER, may_give_back = GATE_INITIALIZER;
static void take_and_keep(LoopThread *self) {
    (void)self;
    ck_assert(RLLockInMode(&lock, NULL, 1e6));
    gate_open(&has_taken);
    gate_wait(&may_give_back);
    RLLockUnlock(&lock);
}

RL_TEST(the_next_one_sleeps_on, "S-SYNC-23", "A thread that takes the lock which an unlock has woken it for does not wake the next one that waits") {
    LoopThread first;
    LoopThread second;
    RLLockLock(&lock);
    loop_thread_start(&first, take_and_keep, NULL);
    wait_until_waiting(first.loop);
    loop_thread_start(&second, take_in_a_crowd, &crowd_runs[0]);
    wait_until_waiting(second.loop);
    RLLockUnlock(&lock);
    gate_wait(&has_taken);
    /* What had woken the thread before the first of these requests has ended its run before the second. */
    for (int i = 0; i < 2; i++) RLPerformOnLoop(second.loop, kRLDefaultMode, record, "performed", NULL, true);
    gate_open(&may_give_back);
    thread_join(first.thread);
    thread_join(second.thread);
    ck_assert_uint_eq(crowd_runs[0], 1);
    expect_trace("performed performed");
}

static Gate taken_elsewhere = GATE_INITIALIZER;
static RLRunLoopRef other_loop;
static void take_elsewhere(void *started) {
    other_loop = RLGetCurrent();
    gate_open(started);
    ck_assert(RLLockInMode(&lock, NULL, 1e6));
    gate_open(&taken_elsewhere);
    RLLockUnlock(&lock);
}
static void unlock_and_wait_for_another(void *unused) {
    Gate started = GATE_INITIALIZER;
    Thread *thread = thread_start(take_elsewhere, &started);
    gate_wait(&started);
    wait_until_waiting(other_loop);
    give_back(unused);
    gate_wait(&taken_elsewhere);
    thread_join(thread);
}

RL_TEST(a_callback_waits_for_another_thread, "S-SYNC-23", "A lock that is free is taken by a thread that waits for it while another one that waits is in a callback") {
    hold_elsewhere();
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, unlock_and_wait_for_another, NULL, NULL);
    ck_assert(RLLockInMode(&lock, NULL, 1e6));
    RLLockUnlock(&lock);
}

static Gate keeps_waiting = GATE_INITIALIZER;
static void wait_for_another(void *unused) {
    (void)unused;
    gate_open(&keeps_waiting);
    gate_wait(&taken_elsewhere);
}
static void add_late_callback(LoopThread *self) {
    /* The observer is called before what has woken the loop is looked at. */
    RLObserverRef observer = RLObserverCreate(kRLAfterWaiting, false, 0, (RLObserverCallBack)(void (*)(void))self->data, NULL);
    RLAddObserver(self->loop, observer, kRLDefaultMode);
    RLRelease(observer);
    ck_assert(RLLockInMode(&lock, NULL, 1e6));
    RLLockUnlock(&lock);
}
static void wait_in_observer(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer, (void)activity;
    wait_for_another(info);
}
static void take_and_tell(LoopThread *self) {
    (void)self;
    ck_assert(RLLockInMode(&lock, NULL, 1e6));
    RLLockUnlock(&lock);
    gate_open(&taken_elsewhere);
}

RL_TEST(a_woken_thread_calls_back_first, "S-SYNC-23", "A thread that an unlock wakes and that makes a callback before it looks for the lock leaves the lock to another one that waits") {
    LoopThread first, second;
    RLLockLock(&lock);
    loop_thread_start(&first, add_late_callback, (void *)(void (*)(void))wait_in_observer);
    wait_until_waiting(first.loop);
    loop_thread_start(&second, take_and_tell, NULL);
    wait_until_waiting(second.loop);
    RLLockUnlock(&lock);
    thread_join(second.thread);
    thread_join(first.thread);
    ck_assert(gate_is_open(&keeps_waiting));
}

static void take_in_mode(LoopThread *self) {
    (void)self;
    ck_assert(RLLockInMode(&lock, NULL, 1e6));
    RLLockUnlock(&lock);
}
static void release_and_wait(void *info) { wait_for_another(info); }
typedef enum Released { FUNCTION, REQUEST, SOURCE, TIMER } Released;
static RLSourceRef performed_source;
static RLTimerRef removed_timer;
static const void *same_info(const void *info) { return info; }
static void release_const(const void *info) { release_and_wait((void *)(uintptr_t)info); }
static void invalidate_performed(void *unused) {
    (void)unused;
    RLSourceInvalidate(performed_source);
}
static void remove_other_timer(RLTimerRef timer, void *unused) {
    (void)timer, (void)unused;
    RLRemoveTimer(RLGetCurrent(), removed_timer, kRLDefaultMode);
    RLRelease(removed_timer);
}
/* Both are due in one batch. */
static void add_two_timers(void *unused) {
    (void)unused;
    RLTimerContext context = {.retain = same_info, .release = release_const};
    RLAbsoluteTime now = RLAbsoluteTimeGetCurrent();
    RLTimerRef remover = RLTimerCreate(now, 0, 0, 0, remove_other_timer, NULL);
    removed_timer = RLTimerCreate(now, 0, 0, 0, remove_other_timer, &context);
    RLAddTimer(RLGetCurrent(), remover, kRLDefaultMode);
    RLAddTimer(RLGetCurrent(), removed_timer, kRLDefaultMode);
    RLRelease(remover);
}
static void wait_in_a_release(Released released) {
    LoopThread first, second;
    RLLockLock(&lock);
    loop_thread_start(&first, take_in_mode, NULL);
    wait_until_waiting(first.loop);
    loop_thread_start(&second, take_and_tell, NULL);
    wait_until_waiting(second.loop);
    if (released == REQUEST) {
        RLPerformOnLoop(first.loop, kRLDefaultMode, record, "", release_and_wait, false);
    } else if (released == SOURCE) {
        RLSourceContext context = {.perform = invalidate_performed, .release = release_const};
        performed_source = RLSourceCreate(0, &context);
        RLAddSource(first.loop, performed_source, kRLDefaultMode);
        RLSourceSignal(performed_source);
        RLRelease(performed_source);
        RLWakeUp(first.loop);
    } else if (released == TIMER) {
        RLPerformOnLoop(first.loop, kRLDefaultMode, add_two_timers, NULL, NULL, false);
    } else {
        RLPerformFunction(first.loop, kRLDefaultMode, record, "", release_and_wait);
        RLWakeUp(first.loop);
    }
    gate_wait(&keeps_waiting);
    RLLockUnlock(&lock);
    thread_join(second.thread);
    thread_join(first.thread);
}

RL_TEST(a_release_waits_for_another_thread, "S-SYNC-23", "A lock that is free is taken by a thread that waits while another one that waits releases a function that it has performed") {
    wait_in_a_release(FUNCTION);
}
RL_TEST(a_release_of_a_request_waits_for_another_thread, "S-SYNC-23", "The same for the release of a request") { wait_in_a_release(REQUEST); }
RL_TEST(a_release_of_a_source_waits_for_another_thread, "S-SYNC-23", "The same for the release of a source that its callback has ended") {
    wait_in_a_release(SOURCE);
}
RL_TEST(a_release_of_a_timer_waits_for_another_thread, "S-SYNC-23", "The same for the release of a timer that another one of its batch has removed") {
    wait_in_a_release(TIMER);
}

/* What a program finds in the mode of a wait is its own: it may end all of it. */
static void end_all_sources(void *unused) {
    (void)unused;
    RLIndex count;
    RLTypeRef *items = RLCopyItems(RLGetCurrent(), kRLDefaultMode, kRLItemSources, &count);
    ck_assert_int_eq(count, 1);
    for (RLIndex i = 0; i < count; i++) {
        RLSourceInvalidate((RLSourceRef)(uintptr_t)items[i]);
        RLRelease(items[i]);
    }
    free(items);
    give_back(NULL);
}

RL_TEST(all_sources_of_the_mode_end, "S-SEE-4 S-SYNC-23",
        "The sources of a mode that RLCopyItems gives in a wait are the program's: a callback ends them all, and the wait ends with the lock") {
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 1e6, 0, 0, 0, NULL, NULL);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    hold_elsewhere();
    RLSourceContext context = {0};
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, end_all_sources, NULL, NULL);
    ck_assert(RLLockInMode(&lock, NULL, 1e6));
    RLLockUnlock(&lock);
    ck_assert(!RLSourceIsValid(source));
    RLRelease(source);
    RLTimerInvalidate(timer);
    RLRelease(timer);
}

static void run_beside_the_lock(void *unused) {
    (void)unused;
    give_back(NULL);
    ck_assert_int_eq(RLRunInMode(kRLDefaultMode, 0.05, true), kRLRunTimedOut);
}
RL_TEST(a_nested_run_handles_nothing, "S-SYNC-24 S-RUN-12", "A run in a callback of a wait has handled no source when the wait is over") {
    hold_elsewhere();
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, run_beside_the_lock, NULL, NULL);
    ck_assert(RLLockInMode(&lock, NULL, 1e6));
    RLLockUnlock(&lock);
}

static RLRunLoopRef stopped_loop;
static bool stop_between_word_and_mark(long number, const long argument[6], long *result) {
    (void)result;
    /* The unlocking thread wakes who sleeps on the word of the wait; the mark in the loop comes after that. */
    if (number != SYS_futex || (argument[1] & FUTEX_CMD_MASK) != FUTEX_WAKE || !stopped_loop || argument[0] == (long)&lock.word) return false;
    RLRunLoopRef loop = stopped_loop;
    stopped_loop = NULL;
    ck_assert(RLLockTryLock(&lock));
    RLStop(loop);
    RLStatistics statistics = {.version = 0};
    do RLGetStatistics(loop, &statistics);
    while (statistics.runs < 2);
    wait_until_waiting(loop);
    return false;
}

RL_TEST(stopped_while_it_is_woken, "S-SYNC-24 S-SYNC-4",
        "A thread that a stop makes look for the lock, in vain, before the wake-up has reached its loop goes on waiting without a limit") {
    LoopThread waiting;
    RLLockLock(&lock);
    loop_thread_start(&waiting, take_in_mode, NULL);
    wait_until_waiting(waiting.loop);
    stopped_loop = waiting.loop;
    hook_system_calls(stop_between_word_and_mark);
    RLLockUnlock(&lock);
    hook_system_calls(NULL);
    ck_assert_ptr_null(stopped_loop);
    RLLockUnlock(&lock);
    thread_join(waiting.thread);
}

RL_TEST(stopped, "S-SYNC-24", "A stop ends the run: the wait for a condition returns, the one for a lock goes on") {
    RLLockLock(&condition.lock);
    Thread *thread = when_waiting(RLGetCurrent(), call_stop, RLGetCurrent());
    ck_assert(RLConditionWaitInMode(&condition, NULL, 1e6));
    RLLockUnlock(&condition.lock);
    thread_join(thread);
    lock_elsewhere();
    thread = when_waiting(RLGetCurrent(), call_stop, RLGetCurrent());
    ck_assert(!RLLockInMode(&lock, NULL, 0.02));
    thread_join(thread);
}

static char *own_mode;
static void free_mode_and_stop(void *unused) {
    (void)unused;
    memset(own_mode, 'x', strlen(own_mode));
    free(own_mode);
    RLStop(RLGetCurrent());
}
static void have_it_given_back(void *unused) {
    (void)unused;
    gate_open(&gives_back[1]);
}
static void ask_for_it(RLObserverRef observer, RLActivity activity, void *unused) {
    (void)observer, (void)activity, (void)unused;
    RLPerformFunction(RLGetCurrent(), "mode", have_it_given_back, NULL, NULL);
}

RL_TEST(the_string_is_freed, "S-ARG-5 S-SYNC-24", "A callback of the wait may free the string that named the mode, which the run after a stop is in too") {
    RLObserverRef observer = RLObserverCreate(kRLExit, false, 0, ask_for_it, NULL);
    RLAddObserver(RLGetCurrent(), observer, "mode");
    hold_elsewhere();
    own_mode = strdup("mode");
    RLPerformFunction(RLGetCurrent(), "mode", free_mode_and_stop, NULL, NULL);
    const bool is_taken = RLLockInMode(&lock, own_mode, 10);
    if (!is_taken) gate_open(&gives_back[1]);
    thread_join(holder);
    ck_assert(is_taken);
    RLLockUnlock(&lock);
    RLRelease(observer);
}

#if !defined(WITH_THREAD_SANITIZER)
static void end_thread(void *unused) {
    (void)unused;
    pthread_exit(NULL);
}
static void wait_and_end(LoopThread *self) {
    RLPerformFunction(self->loop, kRLDefaultMode, end_thread, NULL, NULL);
    RLLockLock(&condition.lock);
    RLConditionWaitInMode(&condition, NULL, 1e6);
}
static void lock_and_end(LoopThread *self) {
    RLPerformFunction(self->loop, kRLDefaultMode, end_thread, NULL, NULL);
    RLLockInMode(&lock, NULL, 1e6);
}

RL_TEST(a_callback_ends_the_thread, "S-SYNC-25 S-LOOP-19", "Who is ended by a callback waits no more, and its lock is another's") {
    LoopThread first, second;
    loop_thread_start(&first, wait_and_end, NULL);
    thread_join(first.thread);
    ck_assert_uint_eq(condition.waiters, 0);
    ck_assert(RLLockTryLock(&condition.lock));
    RLLockLock(&lock);
    loop_thread_start(&second, lock_and_end, NULL);
    thread_join(second.thread);
    RLLockUnlock(&lock);
    ck_assert(RLLockTryLock(&lock));
}
#endif

#if !defined(WITH_THREAD_SANITIZER)
static Gate in_callback = GATE_INITIALIZER, may_end = GATE_INITIALIZER;
static void end_when_told(void *unused) {
    gate_open(&in_callback);
    gate_wait(&may_end);
    end_thread(unused);
}
static void wait_and_end_when_told(LoopThread *self) {
    RLPerformFunction(self->loop, kRLDefaultMode, end_when_told, NULL, NULL);
    RLLockLock(&condition.lock);
    RLConditionWaitInMode(&condition, NULL, 1e6);
}
static void wait_for_condition(LoopThread *self) {
    (void)self;
    wait_until_ready(NULL);
}
static int waits_ended;
static void wait_once(LoopThread *self) {
    (void)self;
    RLLockLock(&condition.lock);
    RLConditionWaitInMode(&condition, NULL, 1e6);
    waits_ended++;
    RLLockUnlock(&condition.lock);
}

RL_TEST(a_signalled_thread_ends, "S-SYNC-25 S-SYNC-14", "A signal for a thread that a callback ends before it learns of it reaches another that waited") {
    LoopThread first, second;
    loop_thread_start(&first, wait_and_end_when_told, NULL);
    gate_wait(&in_callback);
    loop_thread_start(&second, wait_for_condition, NULL);
    wait_until_waiting(second.loop);
    set_ready(NULL);
    gate_open(&may_end);
    thread_join(first.thread);
    thread_join(second.thread);
}

RL_TEST(a_signalled_thread_ends_beside_two, "S-SYNC-25 S-SYNC-14", "The signal of a thread that ends reaches one of two others that wait in their loops, not both") {
    LoopThread first, others[2];
    loop_thread_start(&first, wait_and_end_when_told, NULL);
    gate_wait(&in_callback);
    for (int i = 0; i < 2; i++) {
        loop_thread_start(&others[i], wait_once, NULL);
        wait_until_waiting(others[i].loop);
    }
    set_ready(NULL);
    gate_open(&may_end);
    thread_join(first.thread);
    wait_until_count(&waits_ended, 1);
    /* The other wait goes on, as far as that can be shown: its thread is signalled by nobody. */
    take_time(0.05);
    ck_assert_int_eq(count_of(&waits_ended), 1);
    RLConditionBroadcast(&condition);
    for (int i = 0; i < 2; i++) thread_join(others[i].thread);
}

static void unmap(void *page) { munmap(page, 4096); }
static void wait_in_a_page(LoopThread *self) {
    RLCondition *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    RLPerformFunction(self->loop, kRLDefaultMode, end_thread, NULL, NULL);
    pthread_cleanup_push(unmap, page);
    RLLockLock(&page->lock);
    RLConditionWaitInMode(page, NULL, 1e6);
    pthread_cleanup_pop(1);
}

RL_TEST(a_condition_ends_with_the_thread, "S-SYNC-25", "A cleanup handler around a wait whose callback ends the thread may free the condition") {
    LoopThread first;
    loop_thread_start(&first, wait_in_a_page, NULL);
    thread_join(first.thread);
}
#endif

static void wait_for_lock_in_callback(void *unused) {
    ck_assert(RLLockInMode(&lock, NULL, 1e6));
    trace("locked");
    unlock(unused);
}
static void wait_for_condition_in_callback(void *unused) {
    (void)unused;
    wait_until_ready(NULL);
    trace("ready");
}
static uint64_t count_runs(RLRunLoopRef loop) {
    RLStatistics statistics = {.version = 0};
    RLGetStatistics(loop, &statistics);
    return statistics.runs;
}
/* The thread has been stopped once, and then sleeps. */
static RLThreadRef cancel_in_a_wait(void (*function)(void *)) {
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    ck_assert(RLThreadStart(thread));
    RLRunLoopRef loop = RLThreadGetRunLoop(thread);
    RLPerformOnLoop(loop, kRLDefaultMode, function, NULL, NULL, false);
    do wait_until_waiting(loop);
    while (count_runs(loop) < 2);
    RLThreadCancel(thread);
    while (count_runs(loop) < 3) take_time(0.001);
    wait_until_waiting(loop);
    ck_assert(stays_waiting(loop, 0.05));
    ck_assert_uint_le(count_runs(loop), 5);
    return thread;
}

RL_TEST(cancelled_in_a_wait, "S-THREAD-4 S-SYNC-24", "A thread that is cancelled in a wait in a callback ends when the wait is over, and sleeps until then") {
    RLLockLock(&lock);
    RLThreadRef thread = cancel_in_a_wait(wait_for_lock_in_callback);
    RLLockUnlock(&lock);
    ck_assert(RLThreadJoin(thread));
    RLRelease(thread);
    thread = cancel_in_a_wait(wait_for_condition_in_callback);
    set_ready(NULL);
    ck_assert(RLThreadJoin(thread));
    RLRelease(thread);
    expect_trace("locked ready");
}

static int waits_left;
static void wait_and_run(void *unused) {
    (void)unused;
    RLLockLock(&condition.lock);
    while (waits_left-- > 0) RLConditionWaitInMode(&condition, NULL, 1e6);
    RLLockUnlock(&condition.lock);
    /* The loop has it until the end of the thread. */
    static Probe probe = {.name = "source"};
    RLSourceRef source = probe_source(&probe, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    trace("%d", RLRunInMode(kRLDefaultMode, 1e6, false));
}

RL_TEST(cancelled_in_a_wait_before_a_run, "S-THREAD-4", "A run that a callback makes after its wait was stopped because the thread is to end is stopped too") {
    waits_left = 1;
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    ck_assert(RLThreadStart(thread));
    RLRunLoopRef loop = RLThreadGetRunLoop(thread);
    RLPerformOnLoop(loop, kRLDefaultMode, wait_and_run, NULL, NULL, false);
    do wait_until_waiting(loop);
    while (count_runs(loop) < 2);
    RLThreadCancel(thread);
    ck_assert(RLThreadJoin(thread));
    RLRelease(thread);
    char expected[8];
    snprintf(expected, sizeof expected, "%d", kRLRunStopped);
    expect_trace(expected);
}

static void *sleep_in_place_of_a_waiter(void *gate) {
    /* Woken for the lock, and never comes to look: as a thread that a fork overtakes. */
    syscall(SYS_futex, &lock.word, FUTEX_WAIT_PRIVATE, 3, NULL, NULL, 0);
    gate_open(gate);
    return NULL;
}
static int in_child;
static void unlock_and_fork(void *gate) {
    while (count_of((int *)&lock.word) != 3) take_time(0.001);
    pthread_t sleeper;
    Gate woken = GATE_INITIALIZER;
    (void)gate;
    pthread_create(&sleeper, NULL, sleep_in_place_of_a_waiter, &woken);
    /* Until the unlock finds it asleep. */
    while (syscall(SYS_futex, &lock.word, FUTEX_CMP_REQUEUE_PRIVATE, 0, 1, &lock.word, 3) != 1) take_time(0.001);
    RLLockUnlock(&lock);
    gate_wait(&woken);
    pthread_join(sleeper, NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        in_child = 1;
        return;
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    RLLockLock(&lock);
    RLLockUnlock(&lock);
    /* The parent's wait was not woken; a sleeper would pass the lock on. */
    RLStop(RLGetCurrent());
}

RL_TEST(fork_after_another_was_woken, "S-SYNC-25 S-SYNC-6", "A lock that is free in the child of fork is taken there by the wait that goes on, whichever thread the unlock had woken") {
    RLLockLock(&lock);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, unlock_and_fork, NULL, NULL);
    ck_assert(RLLockInMode(&lock, NULL, 1e6));
    if (in_child) _exit(0);
    RLLockUnlock(&lock);
}

static void fork_inside(void *unused) {
    (void)unused;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        Thread *thread = when_waiting(RLGetCurrent(), set_ready, NULL);
        (void)thread;
        trace("child");
        return;
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ready = 1;
    RLStop(RLGetCurrent());
}

RL_TEST(fork_during_a_wait, "S-SYNC-25", "The child of a fork in a callback of the wait is signalled as the parent would be") {
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, fork_inside, NULL, NULL);
    ck_assert(wait_until_ready(NULL));
    if (trace_count("child")) _exit(ready == 1 ? 0 : 1);
}
