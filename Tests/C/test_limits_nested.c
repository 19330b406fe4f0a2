/* SPDX-License-Identifier: MIT */
/* Section 43 where more than one run or loop looks: what a nested run or another loop finds out or uses up is known to the others. */
#define _GNU_SOURCE
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static uint64_t passes(RLRunLoopRef loop) {
    RLStatistics statistics = {.version = 0};
    ck_assert(RLGetStatistics(loop, &statistics));
    return statistics.passes;
}

/* ---- runs */

static void signal_again_then_stop(Probe *self) {
    if (self->calls == 1) RLSourceSignal(self->source);
    else RLStop(self->loop);
}

static void outlive_the_period(Probe *self) {
    if (self->calls == 1) expect_run("inner", 0.05, false, TimedOut);
}

RL_TEST(a_period_that_ends_in_a_nested_run, "S-LIM-2 S-LIM-3 S-PASS-16",
        "A source whose period ends in a nested run of another mode performs when that is over, also where the outer run has only its wait before it; the "
        "nested run makes no pass for it") {
    static const RLActivity activities[] = {kRLBeforeTimers, kRLBeforeSources, kRLBeforeWaiting, kRLAfterWaiting};
    for (int i = 0; i < 4; i++) {
        RLRunLoopRef loop = RLGetCurrent();
        Probe source = {.name = "s", .action = signal_again_then_stop}, observer = {.action = outlive_the_period};
        add_source(&source, kRLDefaultMode);
        RLRetain(source.source);
        RLSourceSetLimit(source.source, 1, 0.02);
        if (i == 0) {
            keep_alive(loop, "inner");
            observe_as(loop, "inner", "n.");
        }
        RLSourceSignal(source.source);
        for (int poll = 0; poll < 2; poll++) expect_run(kRLDefaultMode, 0, false, TimedOut);
        add_observer(&observer, activities[i], kRLDefaultMode);
        RLWakeUp(loop);
        /* A lost end of the period would let this run wait with a signalled source. */
        expect_run(kRLDefaultMode, 30, false, Stopped);
        expect_trace("s n.E n.BT n.BS n.BW n.AW n.X s");
        RLObserverInvalidate(observer.observer);
        RLSourceInvalidate(source.source);
        RLRelease(source.source);
    }
}

static void poll_with_signals(Probe *self) {
    if (self->calls > 1) return;
    Probe *sources = self->data;
    for (int i = 0; i < 3; i++) RLSourceSignal(sources[i].source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    trace("nested-done");
}

RL_TEST(a_portion_in_a_nested_run, "S-LIM-6 S-WAKE-9", "The outer run does not sleep before the rest of what a nested poll has performed a portion of") {
    static Probe sources[3] = {{.name = "1"}, {.name = "2"}, {.name = "3", .action = action_stop}};
    static Probe observer = {.action = poll_with_signals, .data = sources};
    for (int i = 0; i < 3; i++) add_source(&sources[i], kRLDefaultMode);
    add_observer(&observer, kRLBeforeWaiting, kRLDefaultMode);
    RLSetPassLimit(RLGetCurrent(), kRLDefaultMode, 1);
    expect_run(kRLDefaultMode, 30, false, Stopped);
    expect_trace("1 nested-done 2 3");
}

RL_TEST(a_portion_counts_the_mode_alone, "S-LIM-6 S-PASS-16 S-LIM-3", "Signalled sources of another mode are no rest of a portion: no pass is made for them") {
    static Probe waiting = {.name = "w"}, elsewhere = {.name = "e"};
    RLRunLoopRef loop = RLGetCurrent();
    add_source(&waiting, kRLDefaultMode);
    add_source(&elsewhere, "other");
    RLSourceSetLimit(waiting.source, 1, 100000);
    RLSetPassLimit(loop, kRLDefaultMode, 1);
    RLSourceSignal(waiting.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    RLSourceSignal(waiting.source);
    RLSourceSignal(elsewhere.source);
    observe(loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    expect_trace("w E BT BS BW AW X");
}

/* ---- members of a batch */

static void remove_the_other(Probe *self) { RLRemoveSource(self->loop, ((Probe *)self->data)->source, kRLDefaultMode); }

static void remove_and_add_the_other(Probe *self) {
    remove_the_other(self);
    RLAddSource(self->loop, ((Probe *)self->data)->source, kRLDefaultMode);
}

static void perform_and_signal_the_other(Probe *self) {
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    RLSourceSignal(((Probe *)self->data)->source);
}

RL_TEST(a_batch_member_waits, "S-LIM-1 S-LIM-2 S-SRC-33",
        "A source of the batch has a limit when its turn comes, too: if a callback has removed it, added it again, or run the loop and signalled it") {
    static void (*const actions[])(Probe *) = {remove_the_other, remove_and_add_the_other, perform_and_signal_the_other};
    RLClockRef clock = RLClockCreateManual();
    RLRunLoopRef loop = RLGetCurrent();
    ck_assert(RLSetClock(loop, clock));
    for (int i = 0; i < 3; i++) {
        Probe limited = {0}, first = {.action = actions[i], .data = &limited};
        add_source(&first, kRLDefaultMode);
        RLSourceRef source = probe_source(&limited, 1);
        RLAddSource(loop, source, kRLDefaultMode);
        RLSourceSetLimit(source, 1, 10);
        if (i < 2) {
            RLSourceSignal(source);
            expect_run(kRLDefaultMode, 0, false, TimedOut);
            ck_assert_int_eq(limited.calls, 1);
        }
        for (int again = 0; again < 2; again++) {
            RLSourceSignal(first.source);
            RLSourceSignal(source);
            expect_run(kRLDefaultMode, 0, false, TimedOut);
            ck_assert_int_eq(limited.calls, 1);
            ck_assert(RLSourceIsSignalled(source));
            RLAddSource(loop, source, kRLDefaultMode);
        }
        RLClockAdvance(clock, 10);
        ck_assert_int_eq(limited.calls, 2);
        RLSourceInvalidate(source);
        RLSourceInvalidate(first.source);
        RLRelease(source);
    }
    RLRelease(clock);
}

/* ---- loops */

static Gate may_run = GATE_INITIALIZER, is_there = GATE_INITIALIZER;
static RLSourceRef shared;
static uint64_t passes_there;

static void run_there(LoopThread *self) {
    RLAddSource(self->loop, shared, kRLDefaultMode);
    gate_open(&is_there);
    gate_wait(&may_run);
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    passes_there = passes(self->loop);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
}

/* The source, which is in this loop, is used up here, gets a byte more, and is then looked at in the other loop, where it has been before. */
static void use_up_here(int writer, const int *calls) {
    LoopThread other;
    loop_thread_start(&other, run_there, NULL);
    gate_wait(&is_there);
    write_byte(writer);
    while (count_of(calls) == 0) RLRunInMode(kRLDefaultMode, 30, true);
    write_byte(writer);
    gate_open(&may_run);
    thread_join(other.thread);
    ck_assert_int_eq(count_of(calls), 1);
    ck_assert_uint_le(passes_there, 2);
    RLSourceSetLimit(shared, 0, 0);
    while (count_of(calls) == 1) RLRunInMode(kRLDefaultMode, 30, true);
}

static void take_byte(Probe *self) { read_byte(self->fd); }

RL_TEST(a_port_used_up_in_another_loop, "S-LIM-1 S-LIM-3 S-LIM-4", "A version 1 source of two loops has one count: the second makes no pass for it and sleeps") {
    static Probe port = {.action = take_byte};
    int ends[2];
    make_pipe(ends);
    shared = add_port(&port, ends[0], kRLDefaultMode);
    RLSourceSetLimit(shared, 1, 100000);
    use_up_here(ends[1], &port.calls);
}

static int data_calls;
static void receive_data(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)socket, (void)type, (void)address, (void)data, (void)info;
    __atomic_add_fetch(&data_calls, 1, __ATOMIC_SEQ_CST);
}

RL_TEST(a_socket_used_up_in_another_loop, "S-LIM-3 S-LIM-4 S-SOCK-52", "A loop that finds a socket ready whose limit another loop has used up sleeps until it may perform") {
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    RLSocketRef socket = RLSocketCreateWithNative(ends[0], kRLSocketDataCallBack, receive_data, NULL);
    shared = RLSocketCreateRunLoopSource(socket, 0);
    RLSourceSetLimit(shared, 1, 100000);
    RLAddSource(RLGetCurrent(), shared, kRLDefaultMode);
    use_up_here(ends[1], &data_calls);
    RLSocketInvalidate(socket);
    RLRelease(shared);
    RLRelease(socket);
    close(ends[1]);
}

static int reports;
static void report(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    (void)types, (void)info;
    read_byte(RLFileDescriptorGetNativeDescriptor(file));
    RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack);
    __atomic_add_fetch(&reports, 1, __ATOMIC_SEQ_CST);
}

RL_TEST(a_descriptor_object_used_up_in_another_loop, "S-LIM-1 S-LIM-4", "So does one with a descriptor object") {
    int ends[2];
    make_pipe(ends);
    RLFileDescriptorRef file = RLFileDescriptorCreate(ends[0], false, report, NULL);
    RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack);
    shared = RLFileDescriptorCreateRunLoopSource(file, 0);
    RLSourceSetLimit(shared, 1, 100000);
    RLAddSource(RLGetCurrent(), shared, kRLDefaultMode);
    use_up_here(ends[1], &reports);
    RLFileDescriptorInvalidate(file);
    RLRelease(shared);
    RLRelease(file);
}

/* ---- the log */

static void end_the_thread(const char *line, void *info) {
    (void)line, (void)info;
    pthread_exit(NULL);
}

static Probe held = {.counted = true};

static void wait_and_end(void *argument) {
    (void)argument;
    RLSourceRef source = add_source(&held, kRLDefaultMode);
    RLSourceSetLimit(source, 1, 100000);
    RLSourceSignal(source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    RLSourceSignal(source);
    RLRunInMode(kRLDefaultMode, 30, false);
    ck_abort_msg("the log handler has not ended the thread");
}

RL_TEST(a_log_handler_that_ends_its_thread, "S-LOOP-19 S-LIM-5", "The source that the line is about is released") {
    RLSetLogHandler(end_the_thread, NULL);
    thread_join(thread_start(wait_and_end, NULL));
    RLSetLogHandler(NULL, NULL);
    wait_until_count(&held.releases, held.retains);
    ck_assert_int_ge(held.releases, 1);
}

/* ---- functions that wait on the list of a mode */

static int performed_of_mode;
static void run_until_the_third(void *order) {
    trace("f%d", (int)(intptr_t)order);
    performed_of_mode++;
    if (order == (void *)1) expect_run("m", 30, false, Stopped);
    if (order == (void *)3) RLStop(RLGetCurrent());
}

RL_TEST(what_a_limit_leaves_on_a_list_is_performed_by_nested_runs, "S-LIM-6 S-BLK-15 S-BLK-10",
        "A nested run performs the functions that the limit of the outer round has left, whether they were queued or waited on the list of the mode") {
    static Probe source = {.name = "s"};
    RLRunLoopRef loop = RLGetCurrent();
    add_source(&source, "m");
    add_source(&source, kRLDefaultMode);
    RLSetPassLimit(loop, "m", 2);
    for (int waits = 0; waits < 2; waits++) {
        performed_of_mode = 0;
        for (intptr_t i = 1; i <= 4; i++) RLPerformFunction(loop, "m", run_until_the_third, (void *)i, NULL);
        /* A run in another mode puts them on the list. */
        if (waits) expect_run(kRLDefaultMode, 0, false, TimedOut);
        while (performed_of_mode < 4) RLRunInMode("m", 0, false);
        expect_trace("f1 f3 f4 f2");
    }
}

static void trace_order(void *name) { trace("%s", (const char *)name); }
static void run_other_mode(void *name) {
    trace("%s", (const char *)name);
    expect_run("other", 0, false, Finished);
    trace("back");
}

RL_TEST(what_waits_for_other_modes_is_not_left_by_a_limit, "S-LIM-6 S-BLK-3 S-BLK-15",
        "A nested run of another mode sees what waits for it as it would without the limit of the outer round") {
    RLRunLoopRef loop = RLGetCurrent();
    keep_alive(loop, kRLDefaultMode);
    RLSetPassLimit(loop, kRLDefaultMode, 1);
    RLPerformFunction(loop, kRLDefaultMode, run_other_mode, "a1", NULL);
    RLPerformFunction(loop, "other", trace_order, "b1", NULL);
    RLPerformFunction(loop, kRLDefaultMode, trace_order, "a2", NULL);
    RLPerformFunction(loop, "other", trace_order, "b2", NULL);
    keep_alive(loop, "third");
    expect_run("third", 0, false, TimedOut);
    for (int i = 0; i < 2; i++) expect_run(kRLDefaultMode, 0, false, TimedOut);
    RLRunInMode("other", 0, false);
    expect_trace("a1 back a2 b1 b2");
}

RL_TEST(functions_of_other_modes_do_not_count, "S-LIM-6", "A pass performs as many functions of its mode as the limit says, however many for other modes lie between them") {
    RLRunLoopRef loop = RLGetCurrent();
    keep_alive(loop, kRLDefaultMode);
    RLSetPassLimit(loop, kRLDefaultMode, 2);
    RLPerformFunction(loop, kRLDefaultMode, trace_order, "a1", NULL);
    for (int i = 0; i < 1000; i++) RLPerformFunction(loop, "other", trace_order, "b", NULL);
    for (int i = 0; i < 2; i++) RLPerformFunction(loop, kRLDefaultMode, trace_order, i == 0 ? "a2" : "a3", NULL);
    observe(loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    const char *seen = trace_take();
    ck_assert_msg(strstr(seen, "a1 a2") != NULL, "%s", seen);
}
