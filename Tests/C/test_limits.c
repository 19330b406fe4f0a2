/* SPDX-License-Identifier: MIT */
/* Section 43: so much a source may perform in a time, and so much a mode in a pass. */
#define _GNU_SOURCE
#include "support.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static RLClockRef clock_of_loop;
static void use_clock(void) {
    clock_of_loop = RLClockCreateManual();
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
}
static void advance(double seconds) { RLClockAdvance(clock_of_loop, seconds); }

static uint64_t passes(void) {
    RLStatistics statistics = {.version = 0};
    ck_assert(RLGetStatistics(RLGetCurrent(), &statistics));
    return statistics.passes;
}

/* ---- version 0 */

static void signal_again(Probe *self) { RLSourceSignal(self->source); }

RL_TEST(a_source_waits_for_the_end_of_its_period, "S-LIM-1 S-LIM-2 S-LIM-4", "A source that signals itself performs so often in each period, and keeps its signal between them") {
    static Probe source = {.action = signal_again};
    use_clock();
    RLSourceSignal(add_source(&source, kRLDefaultMode));
    RLSourceSetLimit(source.source, 3, 10);
    advance(0);
    ck_assert_int_eq(source.calls, 3);
    ck_assert(RLSourceIsSignalled(source.source));
    advance(9.9);
    ck_assert_int_eq(source.calls, 3);
    advance(0.1);
    ck_assert_int_eq(source.calls, 6);
    advance(25);
    ck_assert_int_eq(source.calls, 12);
    RLRelease(clock_of_loop);
}

RL_TEST(the_loop_sleeps_meanwhile, "S-LIM-3", "No pass is made for a source that waits, and its mode is not empty") {
    static Probe source = {.action = signal_again};
    use_clock();
    RLSourceSignal(add_source(&source, kRLDefaultMode));
    RLSourceSetLimit(source.source, 2, 10);
    advance(0);
    uint64_t before = passes();
    advance(9);
    ck_assert_uint_le(passes() - before, 2);
    ck_assert_int_eq(source.calls, 2);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    advance(1);
    ck_assert_int_eq(source.calls, 4);
    RLRelease(clock_of_loop);
}

RL_TEST(others_go_on, "S-LIM-2", "Sources in the same batch, timers and functions have their turns while one waits") {
    static Probe noisy = {.action = signal_again}, other = {.action = signal_again}, timer = {.name = "t"}, function = {.name = "f"};
    use_clock();
    RLSourceSignal(add_source(&noisy, kRLDefaultMode));
    RLSourceSignal(add_source(&other, kRLDefaultMode));
    RLSourceSetLimit(noisy.source, 1, 10);
    RLSourceSetLimit(other.source, 5, 10);
    add_timer(&timer, date_in(1), 0, kRLDefaultMode);
    probe_perform(&function, RLGetCurrent(), kRLDefaultMode);
    advance(5);
    ck_assert_int_eq(noisy.calls, 1);
    ck_assert_int_eq(other.calls, 5);
    expect_trace("f t");
    advance(5);
    ck_assert_int_eq(noisy.calls, 2);
    ck_assert_int_eq(other.calls, 10);
    RLRelease(clock_of_loop);
}

RL_TEST(membership_is_as_ever, "S-LIM-3", "A waiting source that is removed performs where it is added, when its period is over; an invalid one never") {
    static Probe source = {.action = signal_again}, invalid = {.action = signal_again};
    use_clock();
    RLRetain(add_source(&source, kRLDefaultMode));
    RLSourceSignal(source.source);
    RLSourceSetLimit(source.source, 1, 10);
    RLSourceSignal(add_source(&invalid, kRLDefaultMode));
    RLSourceSetLimit(invalid.source, 1, 10);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    advance(0);
    ck_assert_int_eq(source.calls + invalid.calls, 2);
    RLRemoveSource(RLGetCurrent(), source.source, kRLDefaultMode);
    RLSourceInvalidate(invalid.source);
    advance(20);
    ck_assert_int_eq(source.calls + invalid.calls, 2);
    ck_assert(RLSourceIsSignalled(source.source));
    RLAddSource(RLGetCurrent(), source.source, "other");
    expect_run("other", 0, true, HandledSource);
    expect_run("other", 0, true, TimedOut);
    ck_assert_int_eq(source.calls, 2);
    RLAddSource(RLGetCurrent(), source.source, kRLDefaultMode);
    advance(10);
    ck_assert_int_eq(source.calls, 3);
    RLSourceInvalidate(source.source);
    RLRelease(source.source);
    RLRelease(clock_of_loop);
}

RL_TEST(arguments, "S-LIM-1", "What is no limit ends the one there is, and what waited performs") {
    static Probe source = {.action = signal_again};
    use_clock();
    RLSourceSignal(add_source(&source, kRLDefaultMode));
    double seconds = 7;
    ck_assert_int_eq((int)RLSourceGetLimit(source.source, &seconds), 0);
    ck_assert_double_eq(seconds, 0);
    RLSourceSetLimit(source.source, 2, 1e300);
    ck_assert_int_eq((int)RLSourceGetLimit(source.source, &seconds), 2);
    ck_assert_double_eq(seconds, 504911232.0);
    advance(0);
    ck_assert_int_eq(source.calls, 2);
    RLSourceSetLimit(source.source, 1, 5);
    advance(0);
    ck_assert_int_eq(source.calls, 3);
    const struct { RLIndex count; double seconds; } none[] = {{0, 1}, {-1, 1}, {1, 0}, {1, -1}, {1, NAN}};
    for (int i = 0; i < 5; i++) {
        RLSourceSetLimit(source.source, 1, 5);
        RLSourceSetLimit(source.source, none[i].count, none[i].seconds);
        ck_assert_int_eq((int)RLSourceGetLimit(source.source, NULL), 0);
    }
    source.action = NULL;
    int calls = source.calls;
    advance(0);
    ck_assert_int_eq(source.calls, calls + 1);
    RLSourceSetLimit(NULL, 1, 1);
    ck_assert_int_eq((int)RLSourceGetLimit(NULL, &seconds), 0);
    RLRelease(clock_of_loop);
}

RL_TEST(the_log_tells_once, "S-LIM-5", "One line for a limit, with the source's name") {
    static Probe source = {.action = signal_again};
    use_clock();
    log_capture();
    RLSourceSignal(add_source(&source, kRLDefaultMode));
    RLSetName(source.source, "noisy");
    RLSourceSetLimit(source.source, 2, 1);
    advance(5.5);
    ck_assert_int_eq(source.calls, 12);
    ck_assert_int_eq(log_count(), 1);
    ck_assert_ptr_nonnull(strstr(log_text(), "\"noisy\" has performed 2 times in 1.0"));
    RLRelease(clock_of_loop);
}

/* ---- descriptors, ports */

/* Moving the clock does not wait for descriptors. */
static void poll_descriptors(void) {
    for (int i = 0; i < 6; i++) RLRunInMode(kRLDefaultMode, 0, false);
}
static void advance_and_poll(double seconds) {
    advance(seconds);
    poll_descriptors();
}

static void take_byte(Probe *self) { read_byte(self->fd); }

RL_TEST(a_descriptor_waits, "S-LIM-2 S-LIM-3", "Bytes in a pipe are reported in portions, one in each period") {
    static Probe port = {.action = take_byte};
    int ends[2];
    make_pipe(ends);
    use_clock();
    add_port(&port, ends[0], kRLDefaultMode);
    RLSourceSetLimit(port.source, 2, 10);
    for (int i = 0; i < 5; i++) write_byte(ends[1]);
    advance_and_poll(0);
    ck_assert_int_eq(port.calls, 2);
    uint64_t before = passes();
    advance(9);
    ck_assert_uint_le(passes() - before, 2);
    ck_assert_int_eq(port.calls, 2);
    advance_and_poll(1);
    ck_assert_int_eq(port.calls, 4);
    advance_and_poll(10);
    ck_assert_int_eq(port.calls, 5);
    RLRelease(clock_of_loop);
}

RL_TEST(a_descriptor_that_comes_back_waits, "S-LIM-1 S-LIM-3", "A descriptor is removed and added again and again: no report before the period is over, in no mode") {
    static Probe port = {0};
    int ends[2];
    make_pipe(ends);
    use_clock();
    RLRetain(add_port(&port, ends[0], kRLDefaultMode));
    RLSourceSetLimit(port.source, 1, 10);
    write_byte(ends[1]);
    for (int i = 0; i < 4; i++) {
        RLMode mode = i % 2 ? "other" : kRLDefaultMode;
        RLRunInMode(mode, 0, false);
        ck_assert_int_eq(port.calls, 1);
        RLRemoveSource(RLGetCurrent(), port.source, mode);
        RLAddSource(RLGetCurrent(), port.source, i % 2 ? kRLDefaultMode : "other");
    }
    advance_and_poll(9);
    ck_assert_int_eq(port.calls, 1);
    advance_and_poll(1);
    ck_assert_int_eq(port.calls, 2);
    RLRelease(port.source);
    RLRelease(clock_of_loop);
}

RL_TEST(a_counter_keeps_its_count, "S-LIM-2", "What is added to an eventfd while its source waits is reported after it") {
    static Probe port = {0};
    int descriptor = make_eventfd();
    use_clock();
    add_port(&port, descriptor, kRLDefaultMode);
    RLSourceSetLimit(port.source, 1, 10);
    eventfd_signal(descriptor);
    advance_and_poll(0);
    ck_assert_int_eq(port.calls, 1);
    eventfd_signal(descriptor);
    advance_and_poll(9);
    ck_assert_int_eq(port.calls, 1);
    advance_and_poll(1);
    ck_assert_int_eq(port.calls, 2);
    /* Removed and added while it waits. */
    eventfd_signal(descriptor);
    RLRetain(port.source);
    RLRemoveSource(RLGetCurrent(), port.source, kRLDefaultMode);
    RLAddSource(RLGetCurrent(), port.source, kRLDefaultMode);
    RLRelease(port.source);
    advance_and_poll(10);
    ck_assert_int_eq(port.calls, 3);
    RLRelease(clock_of_loop);
}

RL_TEST(the_last_of_one_number_gets_the_events, "S-SRC-44 S-LIM-2 S-LIM-3",
        "Of two ports with one number the one added last gets the events, also when both have waited, and while it waits the other gets none and nothing spins") {
    static Probe first = {.name = "first"}, last = {.name = "last"}, third = {.name = "third"};
    int ends[2];
    make_pipe(ends);
    use_clock();
    add_port(&first, ends[0], kRLDefaultMode);
    RLSourceSetLimit(first.source, 1, 10);
    write_byte(ends[1]);
    advance_and_poll(0);
    expect_trace("first");
    add_port(&last, ends[0], kRLDefaultMode);
    RLSourceSetLimit(last.source, 1, 40);
    poll_descriptors();
    expect_trace("last");
    uint64_t before = passes();
    for (int i = 0; i < 3; i++) advance(11);
    ck_assert_uint_le(passes() - before, 6);
    poll_descriptors();
    expect_trace("");
    advance_and_poll(10);
    expect_trace("last");
    RLSourceSetLimit(first.source, 0, 0);
    RLSourceSetLimit(last.source, 0, 0);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("last");
    /* Of one that leaves while it waits the events go back to the one before it. */
    add_port(&third, ends[0], kRLDefaultMode);
    RLSourceSetLimit(third.source, 1, 10);
    poll_descriptors();
    expect_trace("third");
    RLSourceInvalidate(third.source);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("last");
    RLRelease(clock_of_loop);
}

static int reported;
static void report(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    (void)types, (void)info;
    read_byte(RLFileDescriptorGetNativeDescriptor(file));
    reported++;
    RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack);
}

RL_TEST(a_descriptor_object_waits, "S-LIM-2", "A descriptor object whose callback enables it again reports in portions") {
    int ends[2];
    make_pipe(ends);
    use_clock();
    RLFileDescriptorRef file = RLFileDescriptorCreate(ends[0], false, report, NULL);
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(file, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLSourceSetLimit(source, 2, 10);
    RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack);
    for (int i = 0; i < 5; i++) write_byte(ends[1]);
    for (int expected = 2; expected <= 6; expected += 2) {
        poll_descriptors();
        ck_assert_int_eq(reported, expected < 5 ? expected : 5);
        advance(10);
    }
    RLFileDescriptorInvalidate(file);
    RLRelease(source);
    RLRelease(file);
    RLRelease(clock_of_loop);
}

static void receive_data(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)socket, (void)type, (void)address, (void)data, (void)info;
    reported++;
}

RL_TEST(a_socket_waits, "S-LIM-2 S-LIM-3 S-SOCK-52", "The datagrams of a socket come in portions, and none is lost") {
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
    use_clock();
    RLSocketRef socket = RLSocketCreateWithNative(ends[0], kRLSocketDataCallBack, receive_data, NULL);
    RLSourceRef source = RLSocketCreateRunLoopSource(socket, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLAddSource(RLGetCurrent(), source, "other");
    RLSourceSetLimit(source, 2, 10);
    for (int i = 0; i < 5; i++) ck_assert_int_eq((int)write(ends[1], "x", 1), 1);
    for (int expected = 2; expected <= 6; expected += 2) {
        poll_descriptors();
        RLRunInMode("other", 0, false);
        ck_assert_int_eq(reported, expected < 5 ? expected : 5);
        uint64_t before = passes();
        advance(9);
        if (expected < 5) ck_assert_uint_le(passes() - before, 2);
        advance(1);
    }
    RLSocketInvalidate(socket);
    RLRelease(source);
    RLRelease(socket);
    RLRelease(clock_of_loop);
}

RL_TEST(another_clock_begins_anew, "S-LIM-4", "A loop that gets another clock does not wait by the former one") {
    static Probe source = {.action = signal_again};
    use_clock();
    RLSourceSignal(add_source(&source, kRLDefaultMode));
    RLSourceSetLimit(source.source, 1, 1000);
    advance(100000);
    ck_assert_int_eq(source.calls, 101);
    RLRelease(clock_of_loop);
    ck_assert(RLSetClock(RLGetCurrent(), NULL));
    for (int i = 0; i < 3; i++) RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(source.calls, 102);
}

static void expect_no_next(void) {
    RLAbsoluteTime before = RLClockGetTime(clock_of_loop);
    for (int i = 0; i < 3; i++) ck_assert(!RLClockAdvanceToNext(clock_of_loop));
    ck_assert_double_eq(RLClockGetTime(clock_of_loop), before);
}

RL_TEST(the_next_instant_is_of_what_is_there, "S-CLK-8 S-LIM-3", "A clock goes to the end of a period if a source waits for it in the mode, and not if it is elsewhere or gone") {
    static Probe source = {0};
    use_clock();
    RLAbsoluteTime begin = RLClockGetTime(clock_of_loop);
    RLRetain(add_source(&source, kRLDefaultMode));
    RLSourceSetLimit(source.source, 1, 10);
    RLSourceSignal(source.source);
    advance(0);
    RLSourceSignal(source.source);
    advance(0);
    ck_assert_int_eq(source.calls, 1);
    RLRemoveSource(RLGetCurrent(), source.source, kRLDefaultMode);
    expect_no_next();
    RLAddSource(RLGetCurrent(), source.source, "other");
    RLRunInMode("other", 0, false);
    expect_no_next();
    RLAddSource(RLGetCurrent(), source.source, kRLDefaultMode);
    ck_assert(RLClockAdvanceToNext(clock_of_loop));
    ck_assert_double_eq_tol(RLClockGetTime(clock_of_loop) - begin, 10, 0.00001);
    ck_assert_int_eq(source.calls, 2);
    RLSourceSignal(source.source);
    advance(0);
    RLRemoveSource(RLGetCurrent(), source.source, kRLDefaultMode);
    advance(20);
    expect_no_next();
    RLRunInMode("other", 0, false);
    RLRunInMode("other", 0, false);
    ck_assert_int_eq(source.calls, 3);
    RLSourceSignal(source.source);
    RLRunInMode("other", 0, false);
    RLSourceInvalidate(source.source);
    expect_no_next();
    RLRelease(source.source);
    RLRelease(clock_of_loop);
}

static int received;
static void receive(RLMachPortRef port, const RLMachMessage *message, void *info) {
    (void)port, (void)message, (void)info;
    received++;
}

RL_TEST(messages_wait_in_their_port, "S-LIM-2", "The messages of a Mach-like port come in portions, in passes of both its modes") {
    use_clock();
    RLMachPortContext context = {0};
    RLMachPortRef port = RLMachPortCreate(receive, &context, NULL);
    RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLAddSource(RLGetCurrent(), source, "other");
    RLSourceSetLimit(source, 2, 10);
    for (int i = 0; i < 5; i++) ck_assert_int_eq(RLMachPortSend(port, 1, NULL, 0, NULL, 0), kRLMessagePortSuccess);
    advance(0);
    ck_assert_int_eq(received, 2);
    RLRunInMode("other", 0, false);
    ck_assert_int_eq(received, 2);
    advance(10);
    ck_assert_int_eq(received, 4);
    advance(10);
    ck_assert_int_eq(received, 5);
    RLMachPortInvalidate(port);
    RLRelease(source);
    RLRelease(port);
    RLRelease(clock_of_loop);
}

/* ---- the wait does not end for a source that has to wait, by the system's clock */

RL_TEST(no_pass_for_what_is_elsewhere, "S-LIM-3 S-PASS-16", "The end of a period of a source that is gone, or in another mode, makes no pass") {
    for (int is_elsewhere = 0; is_elsewhere < 2; is_elsewhere++) {
        Probe source = {.name = "s"};
        RLMode mode = is_elsewhere ? "other" : kRLDefaultMode;
        keep_alive(RLGetCurrent(), kRLDefaultMode);
        add_source(&source, mode);
        RLSourceSetLimit(source.source, 1, 0.02);
        for (int i = 0; i < 2; i++) {
            RLSourceSignal(source.source);
            RLRunInMode(mode, 0, false);
        }
        if (!is_elsewhere) RLSourceInvalidate(source.source);
        expect_trace("s");
        if (!is_elsewhere) observe(RLGetCurrent(), kRLDefaultMode);
        expect_run(kRLDefaultMode, 0.1, false, TimedOut);
        expect_trace("E BT BS BW AW X");
        if (!is_elsewhere) continue;
        /* It performs where it is. */
        expect_run(mode, 30, true, HandledSource);
        expect_trace("s");
        RLSourceInvalidate(source.source);
    }
}

RL_TEST(one_pass_for_what_may_go_on, "S-LIM-2 S-LIM-3", "The end of a period makes one pass, in which the source performs") {
    static Probe source = {.name = "s", .action = signal_again};
    RLSourceSignal(add_source(&source, kRLDefaultMode));
    RLSourceSetLimit(source.source, 1, 0.02);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("s");
    observe(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 30, true, HandledSource);
    expect_trace("E BT BS BW AW BT BS s X");
}

static void note_message(RLMachPortRef port, const RLMachMessage *message, void *info) {
    (void)port, (void)message, (void)info;
    trace("m");
}
static void send_and_see(void *port) {
    ck_assert_int_eq(RLMachPortSend(port, 1, NULL, 0, NULL, 0), kRLMessagePortSuccess);
    /* The loop has looked at it. */
    while (log_count() == 0) usleep(1000);
    RLMachPortInvalidate(port);
}

RL_TEST(no_pass_for_a_message_that_waits, "S-LIM-3 S-LIM-5", "A message for a port in its period ends no wait, and is logged in the wait") {
    RLMachPortContext context = {0};
    RLMachPortRef port = RLMachPortCreate(note_message, &context, NULL);
    RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
    log_capture();
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLSourceSetLimit(source, 1, 100000);
    ck_assert_int_eq(RLMachPortSend(port, 1, NULL, 0, NULL, 0), kRLMessagePortSuccess);
    expect_run(kRLDefaultMode, 30, true, HandledSource);
    expect_trace("m");
    observe(RLGetCurrent(), kRLDefaultMode);
    Thread *thread = when_waiting(RLGetCurrent(), send_and_see, port);
    expect_run(kRLDefaultMode, 0.5, false, TimedOut);
    thread_join(thread);
    expect_trace("E BT BS BW AW X");
    RLRelease(source);
    RLRelease(port);
}

static Probe lonely = {.name = "s"}, beside = {.name = "p"};
static void lose_both(const char *line, void *info) {
    (void)line, (void)info;
    RLSourceInvalidate(lonely.source);
    RLSourceInvalidate(beside.source);
}
static void signal_lonely(Probe *self) {
    (void)self;
    RLSourceSignal(lonely.source);
}

RL_TEST(a_log_handler_that_empties_the_mode, "S-LIM-5 S-RUN-9", "What the log handler of a limit does in a poll is seen at the end of its pass") {
    beside.action = signal_lonely;
    RLSetLogHandler(lose_both, NULL);
    add_source(&lonely, kRLDefaultMode);
    const int descriptor = make_eventfd();
    add_port(&beside, descriptor, kRLDefaultMode);
    RLSourceSetLimit(beside.source, 1, 100000);
    eventfd_signal(descriptor);
    expect_run(kRLDefaultMode, 30, false, Finished);
    expect_trace("p s");
    RLSetLogHandler(NULL, NULL);
}

RL_TEST(the_log_tells_in_order, "S-LIM-5", "Sources that have to wait are reported in the order in which that came about, once each") {
    static Probe sources[5];
    static const char *const names[] = {"zero", "one", "two", "three", "four"};
    use_clock();
    log_capture();
    for (int i = 0; i < 5; i++) {
        RLSetName(add_source(&sources[i], kRLDefaultMode), names[i]);
        RLSourceSetLimit(sources[i].source, 1, 10 - i);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 5; i++) RLSourceSignal(sources[i].source);
        advance(0);
    }
    RLSourceInvalidate(sources[4].source);
    advance(20);
    ck_assert_int_eq(log_count(), 5);
    const char *place = log_text();
    for (int i = 0; i < 5; i++) {
        place = strstr(place, names[i]);
        ck_assert_ptr_nonnull(place);
    }
    RLRelease(clock_of_loop);
}

/* ---- other threads, by the system's clock */

static Probe theirs = {.action = signal_again};
static void run_limited(LoopThread *self) {
    (void)self;
    RLSourceSignal(add_source(&theirs, kRLDefaultMode));
    RLSourceSetLimit(theirs.source, 1, 100000);
    expect_run(kRLDefaultMode, 1000, false, Stopped);
}

RL_TEST(a_lifted_limit_is_seen_at_once, "S-LIM-1", "Another thread lifts the limit: the loop, which sleeps, performs") {
    LoopThread other;
    loop_thread_start(&other, run_limited, NULL);
    wait_until_waiting(other.loop);
    ck_assert_int_eq(count_of(&theirs.calls), 1);
    RLSourceSetLimit(theirs.source, 3, 100000);
    wait_until_count(&theirs.calls, 4);
    wait_until_waiting(other.loop);
    ck_assert_int_eq(count_of(&theirs.calls), 4);
    RLStop(other.loop);
    thread_join(other.thread);
}

/* Two loops with one clock, and a source of both that signals nothing. */
static Probe of_both;
static RLAbsoluteTime begin_of_both;
static Gate is_in_callback, may_leave;
static void wait_in_callback(Probe *self) {
    (void)self;
    gate_open(&is_in_callback);
    gate_wait(&may_leave);
}
static void signal_both_loops(Probe *self) {
    (void)self;
    RLSourceSignal(of_both.source);
}
static void run_with_both(LoopThread *self) {
    static Probe first = {.action = signal_both_loops}, second = {.action = wait_in_callback};
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    if (self->data) add_timer(&first, begin_of_both + 10, 0, kRLDefaultMode);
    else add_timer(&second, begin_of_both + 5, 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1000, false, Stopped);
}
static void advance_by_ten(void *unused) {
    (void)unused;
    advance(10);
}

RL_TEST(a_loop_that_is_behind_shares_the_period, "S-LIM-1 S-LIM-4", "A source that performed in one loop waits in another one whose time with the same clock is before that") {
    clock_of_loop = RLClockCreateManual();
    begin_of_both = RLClockGetTime(clock_of_loop);
    RLSourceSetLimit(probe_source(&of_both, 0), 1, 20);
    LoopThread ahead, behind;
    loop_thread_start(&ahead, run_with_both, clock_of_loop);
    loop_thread_start(&behind, run_with_both, NULL);
    wait_until_waiting(ahead.loop);
    wait_until_waiting(behind.loop);
    RLAddSource(ahead.loop, of_both.source, kRLDefaultMode);
    RLAddSource(behind.loop, of_both.source, kRLDefaultMode);
    Thread *mover = thread_start(advance_by_ten, NULL);
    gate_wait(&is_in_callback);
    wait_until_count(&of_both.calls, 1);
    RLSourceSignal(of_both.source);
    gate_open(&may_leave);
    thread_join(mover);
    ck_assert_int_eq(count_of(&of_both.calls), 1);
    advance(20);
    ck_assert_int_eq(count_of(&of_both.calls), 2);
    RLSourceInvalidate(of_both.source);
    RLStop(ahead.loop);
    RLStop(behind.loop);
    thread_join(ahead.thread);
    thread_join(behind.thread);
    RLRelease(of_both.source);
    RLRelease(clock_of_loop);
}

static void sleep_in_vain(LoopThread *self) {
    (void)self;
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 1000, false, Stopped);
}

RL_TEST(a_sleeping_loop_hears_of_a_period, "S-LIM-2 S-LIM-3", "A thread adds a descriptor within its period to a loop that sleeps, which reports it after that") {
    static Probe port = {0};
    int ends[2];
    make_pipe(ends);
    LoopThread other;
    loop_thread_start(&other, sleep_in_vain, NULL);
    wait_until_waiting(other.loop);
    RLSourceRef source = add_port(&port, ends[0], kRLDefaultMode);
    RLRetain(source);
    RLSourceSetLimit(source, 1, 0.2);
    write_byte(ends[1]);
    double begin = monotonic_now();
    expect_run(kRLDefaultMode, 1000, true, HandledSource);
    RLRemoveSource(RLGetCurrent(), source, kRLDefaultMode);
    RLAddSource(other.loop, source, kRLDefaultMode);
    wait_until_count(&port.calls, 2);
    ck_assert_double_ge(monotonic_now() - begin, 0.2 - 0.0001);
    RLSourceInvalidate(source);
    RLStop(other.loop);
    thread_join(other.thread);
    RLRelease(source);
}

RL_TEST(what_waited_has_the_next_pass, "S-LIM-1", "A poll after the limit is removed, or replaced, performs what waited; a port is asked for in it") {
    static Probe source, port = {.name = "p"};
    int ends[2];
    make_pipe(ends);
    use_clock();
    RLSourceRef reader = add_port(&port, ends[0], kRLDefaultMode);
    RLSourceSetLimit(reader, 1, 10);
    write_byte(ends[1]);
    RLSourceSignal(add_source(&source, kRLDefaultMode));
    RLSourceSetLimit(source.source, 1, 10);
    poll_descriptors();
    ck_assert_int_eq(source.calls, 1);
    ck_assert_int_eq(port.calls, 1);
    for (int i = 0; i < 2; i++) {
        RLSourceSignal(source.source);
        expect_run(kRLDefaultMode, 0, false, TimedOut);
        ck_assert_int_eq(source.calls, 1 + i);
        ck_assert_int_eq(port.calls, 1 + i);
        RLSourceSetLimit(source.source, i == 0 ? 1 : 0, 20);
        RLSourceSetLimit(reader, i == 0 ? 1 : 0, 20);
        expect_run(kRLDefaultMode, 0, false, TimedOut);
        ck_assert_int_eq(source.calls, 2 + i);
        ck_assert_int_eq(port.calls, 2 + i);
    }
    RLRelease(clock_of_loop);
}

RL_TEST(a_period_ends_by_itself, "S-LIM-2", "By the system's clock, too, the wait ends with the period") {
    static Probe source = {.action = signal_again};
    RLSourceSignal(add_source(&source, kRLDefaultMode));
    RLSourceSetLimit(source.source, 1, 0.01);
    double begin = monotonic_now();
    while (source.calls < 4) RLRunInMode(kRLDefaultMode, 10, true);
    ck_assert_double_ge(monotonic_now() - begin, 0.03 - 0.0001);
}

static void run_in_child(void *source) {
    RLClockAdvance(RLGetClock(RLGetCurrent()), 10);
    if (((Probe *)source)->calls != 2) _exit(1);
}

RL_TEST(the_child_of_fork_goes_on, "S-LIM-2 S-FORK-1", "A source that waits in the parent goes on in the child") {
    static Probe source = {.action = signal_again};
    use_clock();
    RLSourceSignal(add_source(&source, kRLDefaultMode));
    RLSourceSetLimit(source.source, 1, 10);
    advance(0);
    ck_assert_int_eq(run_child(run_in_child, &source).status, 0);
    advance(10);
    ck_assert_int_eq(source.calls, 2);
    RLRelease(clock_of_loop);
}

/* ---- a mode's limit */

static int performed;
static void count_function(void *info) {
    ck_assert_int_eq((int)(long)info, performed);
    performed++;
}
static void note_performed(Probe *self) { self->value = performed; }

RL_TEST(timers_have_their_turn_among_functions, "S-LIM-6", "A timer fires after one portion of a thousand functions, which go on in their order") {
    static Probe timer = {.action = note_performed};
    RLSetPassLimit(RLGetCurrent(), kRLDefaultMode, 10);
    ck_assert_int_eq((int)RLGetPassLimit(RLGetCurrent(), kRLDefaultMode), 10);
    for (long i = 0; i < 1000; i++) RLPerformFunction(RLGetCurrent(), kRLDefaultMode, count_function, (void *)i, NULL);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1000, false, Finished);
    ck_assert_int_eq(performed, 1000);
    ck_assert_int_eq((int)timer.value, 10);
}

RL_TEST(functions_of_other_modes_keep_their_order, "S-LIM-6", "What waited for a mode comes in portions, before what was posted later") {
    static Probe timer = {.action = note_performed};
    RLSetPassLimit(RLGetCurrent(), "other", 10);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    for (long i = 0; i < 100; i++) RLPerformFunction(RLGetCurrent(), "other", count_function, (void *)i, NULL);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    for (long i = 100; i < 200; i++) RLPerformFunction(RLGetCurrent(), "other", count_function, (void *)i, NULL);
    add_timer(&timer, date_in(-1), 0, "other");
    expect_run("other", 1000, false, Finished);
    ck_assert_int_eq(performed, 200);
    ck_assert_int_le((int)timer.value, 20);
}

RL_TEST(timers_have_their_turn_among_requests, "S-LIM-6", "Requests come in portions") {
    static Probe timer = {.action = note_performed};
    RLSetPassLimit(RLGetCurrent(), kRLDefaultMode, 10);
    for (long i = 0; i < 100; i++) RLPerformOnLoop(RLGetCurrent(), kRLDefaultMode, count_function, (void *)i, NULL, false);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1000, false, Finished);
    ck_assert_int_eq(performed, 100);
    ck_assert_int_eq((int)timer.value, 10);
}

static void count_source(Probe *self) {
    (void)self;
    if (++performed == 20) RLStop(RLGetCurrent());
}

RL_TEST(timers_have_their_turn_among_sources, "S-LIM-6", "Signalled sources come in portions, by their order") {
    static Probe sources[20], timer = {.action = note_performed};
    RLSetPassLimit(RLGetCurrent(), kRLDefaultMode, 5);
    for (int i = 0; i < 20; i++) {
        sources[i].action = count_source;
        RLSourceSignal(add_source(&sources[i], kRLDefaultMode));
    }
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1000, false, Stopped);
    ck_assert_int_eq((int)timer.value, 5);
    ck_assert_int_eq(performed, 20);
    for (int i = 0; i < 20; i++) ck_assert_int_eq(sources[i].calls, 1);
}

enum { LATECOMERS = 8 };
static Probe latecomers[LATECOMERS];
static long order_of_late[LATECOMERS], late;
static RLMachPortRef late_ports[LATECOMERS];

static void note_latecomer(Probe *self) { order_of_late[late++] = self->value; }
static void note_late_message(RLMachPortRef port, const RLMachMessage *message, void *info) {
    (void)port;
    (void)message;
    note_latecomer(info);
}
static void check_late(void) {
    ck_assert_int_eq((int)late, LATECOMERS);
    for (long i = 0; i < LATECOMERS; i++) ck_assert_int_eq((int)order_of_late[i], (int)i);
}

/* Sources that were signalled, or ports that became ready, in the order of their numbers, in another mode than the one that runs. */
static void make_latecomers(RLMode mode, bool are_ports) {
    for (int i = 0; i < LATECOMERS; i++) {
        latecomers[i].value = i;
        if (are_ports) {
            RLMachPortContext context = {.info = &latecomers[i]};
            late_ports[i] = RLMachPortCreate(note_late_message, &context, NULL);
            latecomers[i].source = RLMachPortCreateRunLoopSource(late_ports[i], 0);
        } else {
            latecomers[i].action = note_latecomer;
            probe_source(&latecomers[i], 0);
        }
        RLAddSource(RLGetCurrent(), latecomers[i].source, mode);
    }
    for (int i = 0; i < LATECOMERS; i++) {
        if (are_ports)
            ck_assert(RLMachPortSend(late_ports[i], 1, "x", 1, NULL, 0) == 0);
        else
            RLSourceSignal(latecomers[i].source);
    }
    /* Beside a source and a port of its own, so that runs of the mode look at both kinds. */
    keep_alive(RLGetCurrent(), "late");
    RLMachPortRef port = RLMachPortCreate(NULL, NULL, NULL);
    RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, "late");
    RLRelease(source);
    RLRelease(port);
    for (int pass = 0; pass < 2; pass++) expect_run("late", 0, false, TimedOut);
    RLSetPassLimit(RLGetCurrent(), "late", 1);
}
static void end_latecomers(bool are_ports) {
    for (int pass = 0; pass < LATECOMERS; pass++) RLRunInMode("late", 0, false);
    check_late();
    for (int i = 0; i < LATECOMERS; i++) {
        if (are_ports) {
            RLMachPortInvalidate(late_ports[i]);
            RLRelease(late_ports[i]);
        }
        RLRelease(latecomers[i].source);
    }
}
static void join_one_by_one(void) {
    for (int i = 0; i < LATECOMERS; i++) RLAddSource(RLGetCurrent(), latecomers[i].source, "late");
}

RL_TEST(sources_that_come_into_the_mode, "S-LIM-6", "Sources that join the mode after their signals perform in the order of those") {
    make_latecomers("other", false);
    join_one_by_one();
    end_latecomers(false);
}

RL_TEST(sources_of_a_mode_that_becomes_common, "S-LIM-6", "So do common sources of a mode that becomes common") {
    make_latecomers(kRLCommonModes, false);
    RLAddCommonMode(RLGetCurrent(), "late");
    end_latecomers(false);
}

RL_TEST(a_source_that_comes_counts_from_then, "S-LIM-6", "A source that comes into the loop, or back into it, after its signal has its turn behind what was signalled there before") {
    static Probe a = {.name = "a"}, b = {.name = "b"};
    add_source(&b, kRLDefaultMode);
    RLSourceRef late = probe_source(&a, 0);
    RLSetPassLimit(RLGetCurrent(), kRLDefaultMode, 1);
    for (int time = 0; time < 2; time++) {
        if (time == 1) RLSourceSignal(late);
        RLSourceSignal(b.source);
        if (time == 0) RLSourceSignal(late);
        if (time == 1) RLRemoveSource(RLGetCurrent(), late, kRLDefaultMode);
        RLAddSource(RLGetCurrent(), late, kRLDefaultMode);
        for (int pass = 0; pass < 2; pass++) expect_run(kRLDefaultMode, 0, false, TimedOut);
    }
    expect_trace("b a b a");
    RLRelease(late);
}

RL_TEST(a_source_keeps_its_turn_among_modes, "S-LIM-6 S-RUN-13", "A source that runs of one mode leave signalled has its turn in another mode before what was signalled later") {
    static Probe first = {.name = "first"}, other = {.name = "other"}, both = {.name = "both"};
    add_source(&first, "x");
    add_source(&other, "y");
    RLSourceRef source = probe_source(&both, 1);
    RLAddSource(RLGetCurrent(), source, "x");
    RLAddSource(RLGetCurrent(), source, "y");
    RLSetPassLimit(RLGetCurrent(), "y", 1);
    RLSourceSignal(source);
    RLSourceSignal(first.source);
    RLSourceSignal(other.source);
    expect_run("x", 0, true, HandledSource);
    expect_run("y", 0, false, TimedOut);
    expect_trace("first both");
    /* So it has where a callback runs the other mode. */
    expect_run("y", 0, false, TimedOut);
    expect_trace("other");
    RLRelease(source);
}

RL_TEST(ports_that_come_into_the_mode, "S-PASS-14", "Mach-like ports that join the mode when they are ready are served in the order in which they became so") {
    make_latecomers("other", true);
    join_one_by_one();
    end_latecomers(true);
}

RL_TEST(ports_of_a_mode_that_becomes_common, "S-PASS-14", "So are common ones of a mode that becomes common") {
    make_latecomers(kRLCommonModes, true);
    RLAddCommonMode(RLGetCurrent(), "late");
    end_latecomers(true);
}

static void signal_both(void *sources) {
    Probe *both = sources;
    for (int i = 0; i < 2; i++) RLSourceSignal(both[i].source);
    RLWakeUp(both->loop);
}

RL_TEST(a_portion_that_has_to_wait, "S-LIM-6 S-LIM-2 S-WAKE-8", "The loop does not sleep with a signalled source because the first portion of them waits for a period") {
    static Probe sources[2] = {{.name = "first"}, {.name = "second", .action = action_stop}};
    for (int i = 0; i < 2; i++) add_source(&sources[i], kRLDefaultMode);
    RLSourceSetLimit(sources[0].source, 1, 100000);
    RLSetPassLimit(RLGetCurrent(), kRLDefaultMode, 1);
    RLSourceSignal(sources[0].source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    Thread *thread = when_waiting(RLGetCurrent(), signal_both, sources);
    expect_run(kRLDefaultMode, 30, false, Stopped);
    thread_join(thread);
    expect_trace("first second");
}

static void post_again(void *info) {
    (void)info;
    performed++;
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, post_again, NULL, NULL);
    if (performed >= 300) RLStop(RLGetCurrent());
}

RL_TEST(a_client_that_posts_for_ever_leaves_turns, "S-LIM-6 S-PASS-13", "Functions that post themselves leave a port its turn") {
    static Probe port = {.action = note_performed};
    int ends[2];
    make_pipe(ends);
    write_byte(ends[1]);
    add_port(&port, ends[0], kRLDefaultMode);
    RLSetPassLimit(RLGetCurrent(), kRLDefaultMode, 10);
    for (int i = 0; i < 100; i++) RLPerformFunction(RLGetCurrent(), kRLDefaultMode, post_again, NULL, NULL);
    expect_run(kRLDefaultMode, 1000, false, Stopped);
    ck_assert_int_ge(port.calls, 5);
}

RL_TEST(arguments_of_a_mode, "S-LIM-6", "Common modes, NULL, no limit") {
    RLRunLoopRef rl = RLGetCurrent();
    RLAddCommonMode(rl, "other");
    RLSetPassLimit(rl, kRLCommonModes, 7);
    ck_assert_int_eq((int)RLGetPassLimit(rl, kRLDefaultMode), 7);
    ck_assert_int_eq((int)RLGetPassLimit(rl, "other"), 7);
    ck_assert_int_eq((int)RLGetPassLimit(rl, "third"), 0);
    RLSetPassLimit(rl, "other", -1);
    ck_assert_int_eq((int)RLGetPassLimit(rl, "other"), 0);
    RLSetPassLimit(NULL, "other", 1);
    RLSetPassLimit(rl, NULL, 1);
    ck_assert_int_eq((int)RLGetPassLimit(NULL, "other"), 0);
    ck_assert_int_eq((int)RLGetPassLimit(rl, NULL), 0);
}

/* ---- numbers that name other files by the end of the period */

static int reports;
static void count_data(RLSocketRef s, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)s, (void)type, (void)address, (void)data, (void)info;
    reports++;
}
static void count_report(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    (void)file, (void)types, (void)info;
    reports++;
}

/* With a limit the source reports once; then the number names another file, which has something to read. */
static void give_away(RLSourceRef limited, int number, int peer, int other, int times) {
    RLAddSource(RLGetCurrent(), limited, kRLDefaultMode);
    RLSourceSetLimit(limited, 1, 10);
    ck_assert_int_eq(write(peer, "12345678", 8), 8);
    advance_and_poll(0);
    ck_assert_int_eq(reports, 1);
    ck_assert_int_eq(dup3(other, number, O_CLOEXEC), number);
    for (int i = 0; i < times; i++) advance_and_poll(11);
    ck_assert_int_eq(reports, 1);
}

RL_TEST(a_number_that_names_another_file_after_the_period, "S-SRC-51 S-LIM-3",
        "A socket, a descriptor object and a port whose number was closed and used again in a period get nothing of the other file, which keeps its bytes") {
    int own[2], others[2];
    char text[9] = "";
    use_clock();
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, own), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, others), 0);
    ck_assert_int_eq(write(others[1], "another!", 8), 8);
    RLSocketRef s = RLSocketCreateWithNative(own[0], kRLSocketDataCallBack, count_data, NULL);
    RLSourceRef source = RLSocketCreateRunLoopSource(s, 0);
    give_away(source, own[0], own[1], others[0], 3);
    ck_assert_int_eq(recv(own[0], text, 8, MSG_DONTWAIT), 8);
    ck_assert_str_eq(text, "another!");
    RLSocketInvalidate(s);
    RLRelease(source);
    RLRelease(s);
    reports = 0;
    make_pipe(own);
    make_pipe(others);
    write_byte(others[1]);
    RLFileDescriptorRef file = RLFileDescriptorCreate(own[0], false, count_report, NULL);
    RLFileDescriptorEnablePersistentCallBacks(file, kRLFileDescriptorReadCallBack);
    source = RLFileDescriptorCreateRunLoopSource(file, 0);
    give_away(source, own[0], own[1], others[0], 3);
    RLFileDescriptorInvalidate(file);
    RLRelease(source);
    RLRelease(file);
    RLRelease(clock_of_loop);
}

static void note_report(Probe *self) {
    (void)self;
    reports++;
}

RL_TEST(a_counter_of_the_programs_after_the_period, "S-SRC-51 S-SRC-46",
        "An eventfd that gets the number of a port in its period keeps its count, also if it is a port itself by then") {
    for (int is_added = 0; is_added < 2; is_added++) {
        static Probe ports[2], others[2];
        Probe *port = &ports[is_added], *other = &others[is_added];
        const uint64_t one = 1;
        uint64_t count = 0;
        reports = 0;
        port->action = note_report;
        use_clock();
        const int fd = make_eventfd();
        add_port(port, fd, kRLDefaultMode);
        RLSourceSetLimit(port->source, 1, 10);
        ck_assert_int_eq(write(fd, &one, 8), 8);
        advance_and_poll(0);
        ck_assert_int_eq(reports, 1);
        ck_assert_int_eq(dup3(make_eventfd(), fd, O_CLOEXEC), fd);
        if (is_added) add_port(other, fd, kRLDefaultMode);
        advance_and_poll(11);
        ck_assert_int_eq(write(fd, &one, 8), 8);
        advance_and_poll(11);
        ck_assert_int_eq(reports, 1);
        ck_assert_int_eq(other->calls, is_added);
        ck_assert_int_eq(read(fd, &count, 8), is_added ? -1 : 8);
        RLSourceInvalidate(port->source);
        if (is_added) RLSourceInvalidate(other->source);
        RLRelease(clock_of_loop);
    }
}

RL_TEST(members_come_and_go_while_a_source_waits, "S-LIM-2 S-LIM-3", "A port that waits hears its number after its period, whoever else had it in the meantime") {
    static Probe port = {.action = note_report}, other;
    const uint64_t one = 1;
    reports = 0;
    use_clock();
    const int fd = make_eventfd();
    add_port(&port, fd, kRLDefaultMode);
    RLSourceSetLimit(port.source, 1, 10);
    ck_assert_int_eq(write(fd, &one, 8), 8);
    advance_and_poll(0);
    add_port(&other, fd, kRLDefaultMode);
    ck_assert_int_eq(write(fd, &one, 8), 8);
    advance_and_poll(1);
    ck_assert_int_eq(other.calls, 1);
    RLRemoveSource(RLGetCurrent(), other.source, kRLDefaultMode);
    ck_assert_int_eq(write(fd, &one, 8), 8);
    /* It comes into a further mode meanwhile, and waits there too. */
    RLAddSource(RLGetCurrent(), port.source, "other");
    expect_run("other", 0, true, TimedOut);
    advance_and_poll(8);
    ck_assert_int_eq(reports, 1);
    advance_and_poll(2);
    ck_assert_int_eq(reports, 2);
    ck_assert_int_eq(write(fd, &one, 8), 8);
    advance_and_poll(11);
    ck_assert_int_eq(reports, 3);
    RLRelease(clock_of_loop);
}
