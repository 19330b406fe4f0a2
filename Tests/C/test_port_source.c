/* SPDX-License-Identifier: MIT */
/*
 * Port sources: sources that a descriptor signals. The probes are static, because what is left in a
 * loop outlives the case that put it there.
 */
#define _GNU_SOURCE
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static void read_one(Probe *self) { read_byte(self->fd); }

static int ports_asked, port_answer;
static RLPort counted_port(void *info) {
    (void)info;
    ports_asked++;
    return port_answer;
}
static void never_performed(void *info) {
    (void)info;
    ck_abort_msg("perform was called");
}

static RLSourceRef counting_port_source(int fd) {
    RLSourceContext1 context = {0};
    context.version = 1;
    context.getPort = counted_port;
    context.perform = never_performed;
    port_answer = fd;
    return RLSourceCreate(0, (RLSourceContext *)&context);
}

RL_TEST(get_port_is_asked_at_add_and_remove, "S-SRC-39 S-SRC-24",
        "getPort is asked when the source is added and removed, and nothing else is called then") {
    int ends[2];
    make_pipe(ends);
    RLSourceRef source = counting_port_source(ends[0]);
    ck_assert_int_eq(ports_asked, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    int asked = ports_asked;
    ck_assert_int_ge(asked, 1);
    ck_assert(RLContainsSource(RLGetCurrent(), source, kRLDefaultMode));
    RLRemoveSource(RLGetCurrent(), source, kRLDefaultMode);
    ck_assert(!RLContainsSource(RLGetCurrent(), source, kRLDefaultMode));
    asked = ports_asked;
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 0.05, false, Finished);
    ck_assert_int_eq(ports_asked, asked);
    RLRelease(source);
}

RL_TEST(order_does_not_count, "S-SRC-40 S-PASS-8",
        "Ready ports are served in the order in which they became ready, whatever their order is") {
    static Probe first = {.name = "first", .action = read_one};
    static Probe second = {.name = "second", .action = read_one};
    Probe *probes[] = {&second, &first};
    int ends[2][2];
    for (int i = 0; i < 2; i++) {
        RLSourceContext context = {0};
        make_pipe(ends[i]);
        RLSourceRef model = probe_port(probes[i], ends[i][0]);
        context.version = 1;
        RLSourceGetContext(model, &context);
        probes[i]->source = RLSourceCreate(i == 0 ? -5 : 5, &context);
        ck_assert_int_eq(RLSourceGetOrder(probes[i]->source), i == 0 ? -5 : 5);
        RLAddSource(RLGetCurrent(), probes[i]->source, kRLDefaultMode);
        RLRelease(model);
    }
    write_byte(ends[1][1]);
    write_byte(ends[0][1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("first second");
}

RL_TEST(data_from_before_the_addition_are_noticed, "S-SRC-41",
        "A port that was readable before its source was added is served") {
    static Probe probe = {.name = "p", .action = read_one};
    int ends[2];
    make_pipe(ends);
    write_byte(ends[1]);
    observe(RLGetCurrent(), kRLDefaultMode);
    add_port(&probe, ends[0], kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("E BT BS BW AW p X");
}

RL_TEST(data_that_came_while_another_mode_ran_are_noticed, "S-SRC-41 S-MODE-23",
        "A port that became readable while another mode ran is served when its mode runs") {
    static Probe probe = {.name = "p", .action = read_one};
    int ends[2];
    make_pipe(ends);
    add_port(&probe, ends[0], "mine");
    keep_alive(RLGetCurrent(), "other");
    expect_run("mine", 0, false, TimedOut);
    write_byte(ends[1]);
    expect_run("other", 0.02, false, TimedOut);
    expect_trace("");
    expect_run("mine", 60, true, HandledSource);
    expect_trace("p");
}

RL_TEST(an_event_is_served_in_the_mode_that_runs_first, "S-SRC-42",
        "A source in several modes performs once per event, in the mode that runs first") {
    static Probe probe = {.name = "p"};
    int fd = make_eventfd();
    add_port(&probe, fd, "one");
    RLAddSource(probe.loop, probe.source, "two");
    eventfd_signal(fd);
    expect_run("two", 60, true, HandledSource);
    expect_run("one", 0, true, TimedOut);
    expect_trace("p");
    eventfd_signal(fd);
    expect_run("one", 60, true, HandledSource);
    expect_run("two", 0, true, TimedOut);
    expect_trace("p");
}

static int closed_descriptor(void) {
    int ends[2];
    make_pipe(ends);
    write_byte(ends[1]);
    close(ends[0]);
    close(ends[1]);
    return ends[0];
}
static int regular_file(void) {
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    fputs("content", file);
    fflush(file);
    rewind(file);
    return fileno(file);
}

static void check_unusable_port(int fd) {
    static Probe probe = {.name = "never"};
    RLRunLoopRef loop = RLGetCurrent();
    add_port(&probe, fd, kRLDefaultMode);
    RLRetain(probe.source);
    observe(loop, kRLDefaultMode);
    ck_assert(RLContainsSource(loop, probe.source, kRLDefaultMode));
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS X");
    expect_run(kRLDefaultMode, 0.1, true, TimedOut);
    expect_trace("E BT BS BW AW X");
    RLRemoveSource(loop, probe.source, kRLDefaultMode);
    ck_assert(!RLContainsSource(loop, probe.source, kRLDefaultMode));
    expect_run(kRLDefaultMode, 0.1, true, Finished);
    RLAddSource(loop, probe.source, kRLDefaultMode);
    RLSourceInvalidate(probe.source);
    expect_run(kRLDefaultMode, 0.1, true, Finished);
    RLRelease(probe.source);
}

RL_TEST(port_minus_one, "S-SRC-43 S-RUN-3",
        "A source whose port is -1 is a member, never performs, and the loop sleeps") {
    check_unusable_port(-1);
}
RL_TEST(port_closed, "S-SRC-43 S-RUN-3",
        "A source whose port is closed is a member, never performs, and the loop sleeps") {
    check_unusable_port(closed_descriptor());
}
RL_TEST(port_beyond_the_table, "S-SRC-43",
        "A port number no process can have is as good as a closed one") {
    check_unusable_port(0x7FFFFFFF);
}
RL_TEST(port_most_negative, "S-SRC-43", "Any negative port is as good as -1") {
    check_unusable_port(-0x7FFFFFFF - 1);
}
RL_TEST(port_regular_file, "S-SRC-43 S-RUN-3",
        "A source whose port is a regular file is a member, never performs, and the loop sleeps") {
    check_unusable_port(regular_file());
}
RL_TEST(port_dev_null, "S-SRC-43 S-RUN-3",
        "A source whose port is /dev/null is a member, never performs, and the loop sleeps") {
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    check_unusable_port(fd);
}

RL_TEST(a_bad_port_leaves_the_good_ones_alone, "S-SRC-43",
        "A good port in a mode with bad ones is served") {
    static Probe bad[3] = {{.name = "never"}, {.name = "never"}, {.name = "never"}};
    static Probe good = {.name = "p", .action = read_one};
    int ends[2];
    int closed = closed_descriptor();
    make_pipe(ends);
    add_port(&bad[0], -1, kRLDefaultMode);
    add_port(&bad[1], regular_file(), kRLDefaultMode);
    add_port(&good, ends[0], kRLDefaultMode);
    add_port(&bad[2], closed == ends[0] || closed == ends[1] ? -1 : closed, kRLDefaultMode);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p");
}

RL_TEST(the_last_added_of_one_port_gets_the_events, "S-SRC-44",
        "Of two sources with one port in a mode the one added last is served") {
    static Probe first = {.name = "first", .action = read_one};
    static Probe last = {.name = "last", .action = read_one};
    int ends[2];
    make_pipe(ends);
    add_port(&first, ends[0], kRLDefaultMode);
    add_port(&last, ends[0], kRLDefaultMode);
    ck_assert(RLContainsSource(first.loop, first.source, kRLDefaultMode));
    ck_assert(RLContainsSource(first.loop, last.source, kRLDefaultMode));
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_trace("last last");
}

static void note_flag(Probe *self) {
    self->value = RLSourceIsSignalled(self->source);
    read_byte(self->fd);
}

RL_TEST(a_signal_does_not_make_a_port_source_perform, "S-SRC-45 S-SRC-38",
        "Signalling a port source sets its flag, which its next perform clears, and no more") {
    static Probe probe = {.name = "p", .action = note_flag, .value = -1};
    int ends[2];
    make_pipe(ends);
    add_port(&probe, ends[0], kRLDefaultMode);
    RLSourceSignal(probe.source);
    ck_assert(RLSourceIsSignalled(probe.source));
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("");
    ck_assert(RLSourceIsSignalled(probe.source));
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p");
    ck_assert_int_eq(probe.value, 0);
    ck_assert(!RLSourceIsSignalled(probe.source));
}

static void try_to_read_counter(Probe *self) {
    uint64_t counter;
    errno = 0;
    self->value = read(self->fd, &counter, sizeof counter) == -1 && errno == EAGAIN;
}

RL_TEST(an_eventfd_is_read_before_the_perform, "S-SRC-46",
        "Several writes to an eventfd give one perform, before which the counter was read") {
    static Probe probe = {.name = "p", .action = try_to_read_counter};
    int fd = make_eventfd();
    add_port(&probe, fd, kRLDefaultMode);
    for (int i = 0; i < 5; i++) eventfd_signal(fd);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(probe.value, 1);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    eventfd_signal(fd);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p p");
}

RL_TEST(a_blocking_eventfd_does_not_block_the_loop, "S-SRC-46",
        "The counter of an eventfd without O_NONBLOCK is read only when there is something to "
        "read") {
    static Probe probe = {.name = "p"};
    int fd = eventfd(0, EFD_CLOEXEC);
    add_port(&probe, fd, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    eventfd_signal(fd);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("p");
}

RL_TEST(a_semaphore_eventfd_gives_one_perform_per_unit, "S-SRC-46",
        "A semaphore eventfd of three units gives three performs and then none") {
    static Probe probe = {.name = "p"};
    int fd = eventfd(3, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    add_port(&probe, fd, kRLDefaultMode);
    for (int i = 0; i < 3; i++) expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("p p p");
}

RL_TEST(a_timerfd_is_read_before_the_perform, "S-SRC-46",
        "A timerfd that expired several times gives one perform, before which it was read") {
    static Probe probe = {.name = "p", .action = try_to_read_counter};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct itimerspec soon = {{0, 0}, {0, 1000000}};
    add_port(&probe, fd, kRLDefaultMode);
    ck_assert_int_eq(timerfd_settime(fd, 0, &soon, NULL), 0);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(probe.value, 1);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("p");
}
