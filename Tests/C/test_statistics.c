/* SPDX-License-Identifier: MIT */
/* What a loop counts, and what it measures when it is asked to. */
#define _GNU_SOURCE
#include "support.h"

#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_t own;
/* Done before the next reading of the clock by that thread. */
static void (*at_read)(void);

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (at_read && pthread_equal(own, pthread_self())) {
        void (*action)(void) = at_read;
        at_read = NULL;
        action();
    }
    return (int)syscall(SYS_clock_gettime, clock, time);
}

static RLStatistics statistics_of(RLRunLoopRef loop) {
    RLStatistics statistics = {.version = 0};
    ck_assert(RLGetStatistics(loop, &statistics));
    return statistics;
}

static RLItemStatistics item_statistics(RLRunLoopRef loop, RLTypeRef item) {
    RLItemStatistics statistics = {.version = 0};
    ck_assert(RLGetItemStatistics(loop, item, &statistics));
    return statistics;
}

static void expect_no_item_statistics(RLRunLoopRef loop, RLTypeRef item) {
    RLItemStatistics statistics = {.version = 0, .calls = 77};
    ck_assert(!RLGetItemStatistics(loop, item, &statistics));
    ck_assert_uint_eq(statistics.calls, 77);
}

static void nothing(void *info) { (void)info; }

static uint64_t times_in_histogram(RLRunLoopRef loop, RLHistogram histogram) {
    RLHistogramBucket buckets[608];
    RLIndex count = RLGetHistogram(loop, histogram, buckets, 608);
    uint64_t sum = 0;
    ck_assert_int_le(count, 608);
    for (RLIndex i = 0; i < count; i++) {
        ck_assert_uint_gt(buckets[i].count, 0);
        if (i > 0) ck_assert_double_gt(buckets[i].limit, buckets[i - 1].limit);
        sum += buckets[i].count;
    }
    return sum;
}

/* Counting */

RL_TEST(a_new_loop_has_counted_nothing, "S-STAT-1", "All numbers of a new loop are 0, also in the memory of a former one") {
    RLStatistics zeros, found = statistics_of(RLGetCurrent());
    memset(&zeros, 0, sizeof zeros);
    ck_assert_int_eq(memcmp(&found, &zeros, sizeof zeros), 0);
}

static void expect_zeros(void *unused) {
    (void)unused;
    RLStatistics zeros, found = statistics_of(RLGetCurrent());
    memset(&zeros, 0, sizeof zeros);
    ck_assert_int_eq(memcmp(&found, &zeros, sizeof zeros), 0);
    RLSetAccounting(RLGetCurrent(), true);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, nothing, NULL, NULL);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_uint_eq(statistics_of(RLGetCurrent()).callOuts, 1);
}

RL_TEST(a_loop_in_used_memory_has_counted_nothing, "S-STAT-1 S-STAT-3", "A thread after another begins with zeros and without measuring") {
    for (int i = 0; i < 4; i++) thread_join(thread_start(expect_zeros, NULL));
}

RL_TEST(what_a_loop_does_is_counted, "S-STAT-1", "Runs, passes and what is performed are counted, each by its kind") {
    static Probe source, other, timer, observer, port;
    RLRunLoopRef loop = RLGetCurrent();
    int fd = make_eventfd();
    add_source(&source, kRLDefaultMode);
    add_source(&other, kRLDefaultMode);
    add_port(&port, fd, kRLDefaultMode);
    add_timer(&timer, 0, 0, kRLDefaultMode);
    RLSourceSignal(source.source);
    RLSourceSignal(other.source);
    RLPerformFunction(loop, kRLDefaultMode, nothing, NULL, NULL);
    RLPerformFunction(loop, kRLDefaultMode, nothing, NULL, NULL);
    RLPerformInOrder(loop, (RLMode[]){kRLDefaultMode}, 1, 0, NULL, nothing, NULL, NULL);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    RLStatistics found = statistics_of(loop);
    ck_assert_uint_eq(found.runs, 1);
    ck_assert_uint_eq(found.passes, 1);
    ck_assert_uint_eq(found.waits, 0);
    ck_assert_uint_eq(found.sleeps, 0);
    ck_assert_uint_eq(found.sources, 2);
    ck_assert_uint_eq(found.ports, 0);
    ck_assert_uint_eq(found.timers, 1);
    ck_assert_uint_eq(found.functions, 2);
    ck_assert_uint_eq(found.requests, 1);
    ck_assert_uint_eq(found.observers, 0);
    ck_assert_uint_eq(found.mainQueue, 0);
    ck_assert_uint_eq(found.callOuts, 0);
    eventfd_signal(fd);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    add_observer(&observer, kRLEntry | kRLExit, kRLDefaultMode);
    Thread *stopper = when_waiting(loop, call_stop, loop);
    expect_run(kRLDefaultMode, 1000, false, Stopped);
    thread_join(stopper);
    found = statistics_of(loop);
    ck_assert_uint_eq(found.runs, 4);
    ck_assert_uint_eq(found.ports, 1);
    ck_assert_uint_eq(found.sources, 3);
    ck_assert_uint_eq(found.observers, 2);
    ck_assert_uint_eq(found.waits, 1);
    ck_assert_uint_ge(found.sleeps, 1);
}

RL_TEST(skipped_dates_are_counted, "S-STAT-1 S-TMR-29", "A late repeating timer has the dates that it left out counted") {
    static Probe timer = {.action = action_take_time, .value = 50};
    add_timer(&timer, 0, 0.01, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    RLStatistics found = statistics_of(RLGetCurrent());
    ck_assert_uint_eq(found.timers, 1);
    ck_assert_uint_ge(found.skippedDates, 4);
}

static void wait_for_stop(LoopThread *self) {
    keep_alive(self->loop, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 1000, false);
}

RL_TEST(wake_ups_are_counted, "S-STAT-1 S-STAT-2", "A wake-up of a sleeping loop is taken by it and costs a system call, both seen by another thread") {
    static LoopThread other;
    loop_thread_start(&other, wait_for_stop, NULL);
    RLRetain(other.loop);
    while (statistics_of(other.loop).sleeps == 0) sched_yield();
    ck_assert_uint_eq(statistics_of(other.loop).wakeUps, 0);
    while (statistics_of(other.loop).rouses == 0) {
        wait_until_waiting(other.loop);
        RLWakeUp(other.loop);
    }
    while (statistics_of(other.loop).wakeUps == 0 || statistics_of(other.loop).passes < 2) sched_yield();
    RLStop(other.loop);
    thread_join(other.thread);
    RLStatistics found = statistics_of(other.loop);
    ck_assert_uint_eq(found.runs, 1);
    ck_assert_uint_ge(found.passes, 2);
    ck_assert_uint_ge(found.waits, 1);
    RLRelease(other.loop);
}

RL_TEST(an_unknown_version_is_refused, "S-STAT-2", "Another version, and NULL, get false and nothing is written") {
    RLStatistics statistics = {.version = 1, .passes = 77};
    RLItemStatistics item = {.version = 1, .calls = 77};
    ck_assert(!RLGetStatistics(RLGetCurrent(), &statistics));
    ck_assert_uint_eq(statistics.passes, 77);
    statistics.version = 0;
    ck_assert(!RLGetStatistics(NULL, &statistics));
    ck_assert(!RLGetStatistics(RLGetCurrent(), NULL));
    static Probe source;
    add_source(&source, kRLDefaultMode);
    RLSetAccounting(RLGetCurrent(), true);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert(!RLGetItemStatistics(RLGetCurrent(), source.source, &item));
    item.version = 0;
    ck_assert(!RLGetItemStatistics(NULL, source.source, &item));
    ck_assert(!RLGetItemStatistics(RLGetCurrent(), NULL, &item));
    ck_assert(!RLGetItemStatistics(RLGetCurrent(), source.source, NULL));
    ck_assert_uint_eq(item.calls, 77);
    RLSetAccounting(NULL, true);
    ck_assert(!RLIsAccounting(NULL));
    ck_assert_int_eq(RLGetHistogram(NULL, kRLHistogramCallOuts, NULL, 0), 0);
    ck_assert_int_eq(RLGetHistogram(RLGetCurrent(), 99, NULL, 0), 0);
    ck_assert_double_eq(RLGetQuantile(NULL, kRLHistogramCallOuts, 0.5), 0);
    ck_assert_double_eq(RLGetQuantile(RLGetCurrent(), -1, 0.5), 0);
}

/* Measuring */

RL_TEST(call_outs_are_measured_while_it_is_on, "S-STAT-3", "Every kind of call-out has an account of its item, which stays after the end") {
    static Probe source = {.action = action_take_time, .value = 20}, timer = {.action = action_take_time, .value = 10};
    static Probe observer, port, unmeasured;
    RLRunLoopRef loop = RLGetCurrent();
    int fd = make_eventfd();
    add_source(&source, kRLDefaultMode);
    add_source(&unmeasured, kRLDefaultMode);
    add_port(&port, fd, kRLDefaultMode);
    add_timer(&timer, date_in(-1), 0.001, kRLDefaultMode);
    add_observer(&observer, kRLEntry, kRLDefaultMode);
    RLSourceSignal(unmeasured.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert(!RLIsAccounting(loop));
    RLSetAccounting(loop, true);
    RLSetAccounting(loop, true);
    ck_assert(RLIsAccounting(loop));
    RLSourceSignal(source.source);
    RLPerformFunction(loop, kRLDefaultMode, nothing, NULL, NULL);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    eventfd_signal(fd);
    while (port.calls == 0) expect_run(kRLDefaultMode, 0, false, TimedOut);
    RLSetAccounting(loop, false);
    ck_assert(!RLIsAccounting(loop));
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);

    expect_no_item_statistics(loop, unmeasured.source);
    RLItemStatistics of_source = item_statistics(loop, source.source);
    ck_assert_uint_eq(of_source.calls, 1);
    ck_assert_double_ge(of_source.total, 0.02);
    ck_assert_double_eq(of_source.longest, of_source.total);
    ck_assert_double_eq(of_source.last, of_source.total);
    ck_assert_uint_eq(item_statistics(loop, port.source).calls, 1);
    RLItemStatistics of_timer = item_statistics(loop, timer.timer);
    ck_assert_uint_ge(of_timer.calls, 1);
    ck_assert_double_ge(of_timer.total, 0.01 * (double)of_timer.calls);
    ck_assert_double_ge(of_timer.longest, 0.01);
    ck_assert_uint_ge(item_statistics(loop, observer.observer).calls, 2);

    RLStatistics found = statistics_of(loop);
    ck_assert_uint_ge(found.callOuts, 5);
    ck_assert_double_ge(found.callOutTime, 0.03);
    ck_assert_double_ge(found.longestCallOut, 0.02);
    ck_assert_double_ge(found.accountedTime, found.callOutTime);
    ck_assert_uint_eq(times_in_histogram(loop, kRLHistogramCallOuts), found.callOuts);
    ck_assert_uint_eq(times_in_histogram(loop, kRLHistogramLateness), of_timer.calls);
    ck_assert_uint_eq(times_in_histogram(loop, kRLHistogramSignals), 1);
    double ended = found.accountedTime;
    take_time(0.01);
    ck_assert_double_eq(statistics_of(loop).accountedTime, ended);

    RLSetAccounting(loop, true);
    expect_no_item_statistics(loop, source.source);
    ck_assert_uint_eq(statistics_of(loop).callOuts, 0);
    ck_assert_uint_eq(times_in_histogram(loop, kRLHistogramCallOuts), 0);
}

/* On a busy machine the time of a run may be over before it sleeps. */
static void run_until_it_sleeps(Probe *self) {
    do expect_run("nested", self->value / 1000.0, false, TimedOut);
    while (statistics_of(RLGetCurrent()).asleepTime == 0);
}

RL_TEST(a_call_out_has_the_time_of_its_run, "S-STAT-3", "A callback that runs the loop has that run's time, and what is called in there is measured by itself") {
    static Probe source = {.action = run_until_it_sleeps, .value = 30}, inner = {.action = action_take_time, .value = 10};
    RLRunLoopRef loop = RLGetCurrent();
    add_source(&source, kRLDefaultMode);
    add_source(&inner, "nested");
    RLSetAccounting(loop, true);
    RLSourceSignal(source.source);
    RLSourceSignal(inner.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    RLItemStatistics outside = item_statistics(loop, source.source), inside = item_statistics(loop, inner.source);
    ck_assert_double_ge(inside.total, 0.01);
    ck_assert_double_ge(outside.total, 0.03);
    ck_assert_double_ge(outside.total, inside.total);
}

static void sleep_until_stopped(LoopThread *self) {
    static Probe source;
    (void)self;
    add_source(&source, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 1000, false);
}

RL_TEST(a_sleep_at_the_beginning, "S-STAT-3", "Of a sleep that is under way when measuring begins, the rest is measured") {
    LoopThread other;
    loop_thread_start(&other, sleep_until_stopped, NULL);
    while (statistics_of(other.loop).sleeps == 0) sched_yield();
    RLSetAccounting(other.loop, true);
    double slept;
    do slept = statistics_of(other.loop).accountedTime;
    while (slept < 0.01);
    RLRetain(other.loop);
    RLStop(other.loop);
    thread_join(other.thread);
    RLStatistics found = statistics_of(other.loop);
    ck_assert_double_ge(found.asleepTime, slept);
    ck_assert_double_ge(found.accountedTime, found.asleepTime);
    RLRelease(other.loop);
}

RL_TEST(a_sleep_at_the_end, "S-STAT-3", "Of a sleep that is under way when the numbers are read or measuring ends, the part until then is measured, and what comes later is not") {
    LoopThread other;
    loop_thread_start(&other, sleep_until_stopped, NULL);
    RLRetain(other.loop);
    while (statistics_of(other.loop).sleeps == 0) sched_yield();
    for (int round = 0; round < 3; round++) {
        /* The second round begins in the same sleep, the third sees the next one. */
        RLSetAccounting(other.loop, true);
        if (round == 2) {
            uint64_t sleeps = statistics_of(other.loop).sleeps;
            RLWakeUp(other.loop);
            while (statistics_of(other.loop).sleeps == sleeps) sched_yield();
        }
        RLStatistics before, found;
        do before = statistics_of(other.loop);
        while (before.asleepTime < 0.01);
        ck_assert_double_le(before.asleepTime, before.accountedTime);
        found = statistics_of(other.loop);
        ck_assert_double_ge(found.asleepTime, before.asleepTime);
        RLSetAccounting(other.loop, false);
        before = found;
        found = statistics_of(other.loop);
        ck_assert_double_ge(found.asleepTime, before.asleepTime);
        ck_assert_double_le(found.asleepTime, found.accountedTime);
        RLSetAccounting(other.loop, false);
        ck_assert_double_eq(statistics_of(other.loop).asleepTime, found.asleepTime);
    }
    double slept = statistics_of(other.loop).asleepTime;
    RLStop(other.loop);
    thread_join(other.thread);
    ck_assert_double_eq(statistics_of(other.loop).asleepTime, slept);
    RLRelease(other.loop);
}

static void hosted_in_child(void *run) {
    RLRunLoopRef loop = RLGetCurrent();
    double slept = statistics_of(loop).asleepTime;
    while (RLForeignRunPrepare(run) > 0) RLForeignRunDispatch(run);
    RLForeignRunDispatch(run);
    RLStatistics found = statistics_of(loop);
    ck_assert_double_ge(found.asleepTime, slept);
    ck_assert_double_le(found.asleepTime, found.accountedTime);
}

RL_TEST(the_wait_of_a_host_is_a_sleep, "S-STAT-3 S-FRN-5", "A loop that another one hosts sleeps while its host has nothing to dispatch, and not in its callbacks") {
    static Probe timer = {.action = action_take_time, .value = 10};
    RLRunLoopRef loop = RLGetCurrent();
    add_timer(&timer, date_in(0.02), 0.02, kRLDefaultMode);
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    ck_assert_ptr_nonnull(run);
    RLForeignRunPrepare(run);
    RLSetAccounting(loop, true);
    while (timer.calls < 3 || statistics_of(loop).asleepTime == 0) {
        struct pollfd entry = {.fd = RLForeignRunGetDescriptor(run), .events = POLLIN};
        poll(&entry, 1, -1);
        /* Twice without a prepare before it, then with one. */
        if (timer.calls == 2) RLForeignRunPrepare(run);
        RLForeignRunDispatch(run);
    }
    RLForeignRunPrepare(run);
    RLStatistics before = statistics_of(loop), found;
    do found = statistics_of(loop);
    while (found.asleepTime < before.asleepTime + 0.001 && RLForeignRunPrepare(run) > 0);
    ck_assert_double_gt(found.asleepTime, 0);
    ck_assert_double_ge(found.callOutTime, 0.03);
    ck_assert_double_le(found.asleepTime + found.callOutTime, found.accountedTime);
    ck_assert_int_eq(run_child(hosted_in_child, run).status, 0);
    while (RLForeignRunPrepare(run) > 0) {
        struct pollfd entry = {.fd = RLForeignRunGetDescriptor(run), .events = POLLIN};
        poll(&entry, 1, -1);
    }
    RLForeignRunDispatch(run);
    RLSetAccounting(loop, false);
    found = statistics_of(loop);
    ck_assert_double_le(found.asleepTime + found.callOutTime, found.accountedTime);
    RLForeignRunInvalidate(run);
    RLRelease(run);
}

static void begin_anew(Probe *self) {
    action_take_time(self);
    RLSetAccounting(RLGetCurrent(), false);
    RLSetAccounting(RLGetCurrent(), true);
}

RL_TEST(a_beginning_in_a_call_out, "S-STAT-3", "A callback in which measuring ends and begins again is not measured by what began after it") {
    static Probe source = {.action = begin_anew, .value = 30}, next = {.action = action_take_time, .value = 1};
    RLRunLoopRef loop = RLGetCurrent();
    add_source(&source, kRLDefaultMode);
    add_source(&next, "next");
    RLSetAccounting(loop, true);
    RLSourceSignal(source.source);
    RLSourceSignal(next.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_uint_eq(statistics_of(loop).callOuts, 0);
    expect_no_item_statistics(loop, source.source);
    expect_run("next", 0, false, TimedOut);
    ck_assert_uint_eq(statistics_of(loop).callOuts, 1);
    ck_assert_uint_eq(times_in_histogram(loop, kRLHistogramCallOuts), 1);
    ck_assert_double_le(statistics_of(loop).callOutTime, statistics_of(loop).accountedTime);
}

static void measure_anew(void *rl) {
    RLSetAccounting(rl, false);
    RLSetAccounting(rl, true);
}
static void measure_anew_elsewhere(void) { thread_join(thread_start(measure_anew, (void *)RLGetCurrent())); }
static void begin_anew_at_end(Probe *self) {
    (void)self;
    at_read = measure_anew_elsewhere;
}

RL_TEST(a_beginning_while_a_call_out_is_counted, "S-STAT-3", "What another thread's new beginning has cleared is not brought back by the call-out that just ends") {
    static Probe source = {.action = begin_anew_at_end};
    RLRunLoopRef loop = RLGetCurrent();
    own = pthread_self();
    add_source(&source, kRLDefaultMode);
    RLSetAccounting(loop, true);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_ptr_null((void *)(uintptr_t)at_read);
    ck_assert_uint_eq(statistics_of(loop).callOuts, 0);
    ck_assert_uint_eq(times_in_histogram(loop, kRLHistogramCallOuts), 0);
    ck_assert_double_eq(statistics_of(loop).callOutTime, 0);
    expect_no_item_statistics(loop, source.source);
}

static void invalidate_and_release(Probe *self) {
    RLSourceInvalidate(self->source);
}

RL_TEST(an_account_ends_with_its_item, "S-STAT-4", "What is made in the memory of a measured item has no account; one that ends in its callback has none for long") {
    RLRunLoopRef loop = RLGetCurrent();
    static Probe probes[64];
    uintptr_t seen[64];
    int again = 0;
    RLSetAccounting(loop, true);
    for (int i = 0; i < 64; i++) {
        probes[i].action = invalidate_and_release;
        add_source(&probes[i], kRLDefaultMode);
        seen[i] = (uintptr_t)probes[i].source;
        for (int j = 0; j < i; j++) again += seen[j] == seen[i];
        expect_no_item_statistics(loop, probes[i].source);
        RLSourceSignal(probes[i].source);
        expect_run(kRLDefaultMode, 0, false, TimedOut);
    }
#if defined(WITH_ADDRESS_SANITIZER) /* It keeps freed memory from being used again. */
    again++;
#endif
    ck_assert_int_gt(again, 0);
    ck_assert_uint_ge(statistics_of(loop).callOuts, 64);
}

static void expect_accounts(void *source) {
    RLRunLoopRef loop = RLGetCurrent();
    ck_assert_uint_eq(item_statistics(loop, source).calls, 1);
    RLSourceSignal(source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_uint_eq(item_statistics(loop, source).calls, 2);
    ck_assert_uint_eq(statistics_of(loop).sources, 2);
}

RL_TEST(the_child_goes_on_measuring, "S-STAT-4 S-FORK-1", "In the child of fork the loop has its numbers and adds to them; the parent's stay") {
    static Probe probe;
    RLRunLoopRef loop = RLGetCurrent();
    add_source(&probe, kRLDefaultMode);
    RLSetAccounting(loop, true);
    RLSourceSignal(probe.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_int_eq(run_child(expect_accounts, probe.source).status, 0);
    ck_assert_uint_eq(item_statistics(loop, probe.source).calls, 1);
}

RL_TEST(quantiles_are_told_to_a_sixteenth, "S-STAT-5", "The longest time is in the last bucket, not more than a sixteenth below its limit") {
    static Probe probe = {.action = action_take_time, .value = 1};
    RLRunLoopRef loop = RLGetCurrent();
    add_source(&probe, kRLDefaultMode);
    ck_assert_double_eq(RLGetQuantile(loop, kRLHistogramCallOuts, 1), 0);
    RLSetAccounting(loop, true);
    for (int i = 0; i < 20; i++) {
        probe.value = i == 7 ? 20 : 1;
        RLSourceSignal(probe.source);
        expect_run(kRLDefaultMode, 0, false, TimedOut);
    }
    RLStatistics found = statistics_of(loop);
    double longest = RLGetQuantile(loop, kRLHistogramCallOuts, 1);
    ck_assert_double_ge(longest, found.longestCallOut - 2e-9);
    ck_assert_double_le(longest, found.longestCallOut * 17 / 16 + 2e-9);
    ck_assert_double_eq(RLGetQuantile(loop, kRLHistogramCallOuts, 99), longest);
    double shortest = RLGetQuantile(loop, kRLHistogramCallOuts, -1);
    ck_assert_double_eq(RLGetQuantile(loop, kRLHistogramCallOuts, 0), shortest);
    ck_assert_double_ge(shortest, 0.001);
    double median = RLGetQuantile(loop, kRLHistogramCallOuts, 0.5);
    ck_assert_double_ge(median, shortest);
    ck_assert_double_le(median, longest);
    ck_assert_double_le(median * 20, found.callOutTime * 2 * 17 / 16);
}

static void measured_loop(LoopThread *self) {
    static Probe probes[4];
    Gate *end = self->data;
    while (!gate_is_open(end)) {
        for (int i = 0; i < 4; i++) {
            RLSourceRef source = probe_source(&probes[i], 0);
            RLAddSource(self->loop, source, kRLDefaultMode);
            RLSourceSignal(source);
            RLRunInMode(kRLDefaultMode, 0, false);
            RLSourceInvalidate(source);
            RLRelease(source);
        }
    }
}

RL_TEST(another_thread_measures_and_reads, "S-STAT-2 S-STAT-3 S-THR-1", "Accounting is put on and off and read while the loop calls out and its items end") {
    static LoopThread other;
    static Gate end = GATE_INITIALIZER;
    loop_thread_start(&other, measured_loop, &end);
    for (int i = 0; i < 3000; i++) {
        RLIndex count;
        RLSetAccounting(other.loop, i % 2 == 0);
        RLTypeRef *items = RLCopyItems(other.loop, kRLDefaultMode, kRLItemSources, &count);
        for (RLIndex j = 0; j < count; j++) {
            RLItemStatistics statistics = {.version = 0};
            RLGetItemStatistics(other.loop, items[j], &statistics);
            RLRelease(items[j]);
        }
        free(items);
        ck_assert(!isnan(RLGetQuantile(other.loop, kRLHistogramCallOuts, 0.9)));
        statistics_of(other.loop);
    }
    gate_open(&end);
    thread_join(other.thread);
}
