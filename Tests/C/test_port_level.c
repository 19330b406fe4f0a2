/* SPDX-License-Identifier: MIT */
/* Port sources on descriptors the loop does not read: level triggered service. */
#define _GNU_SOURCE
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The library's look at what a descriptor is; it can be refused. */

static bool refuse_readlink;

ssize_t readlink(const char *restrict path, char *restrict target, size_t size) {
    if (!refuse_readlink) return syscall(SYS_readlinkat, AT_FDCWD, path, target, size);
    errno = ENOENT;
    return -1;
}

static void read_one(Probe *self) { read_byte(self->fd); }

RL_TEST(a_pipe_is_served_as_long_as_it_is_readable, "S-SRC-47",
        "The loop reads nothing from a pipe: ten bytes read one by one give ten performs") {
    static Probe probe = {.name = "p", .action = read_one};
    int ends[2];
    make_pipe(ends);
    add_port(&probe, ends[0], kRLDefaultMode);
    ck_assert_int_eq(write(ends[1], "0123456789", 10), 10);
    for (int i = 0; i < 10; i++) expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("p p p p p p p p p p");
}

static void read_all(Probe *self) {
    char text[64];
    self->value = (long)read(self->fd, text, sizeof text);
    ck_assert_int_eq(self->value, 20);
    ck_assert(memcmp(text, "abcdefghijklmnopqrst", 20) == 0);
}

RL_TEST(no_byte_of_a_socket_is_swallowed, "S-SRC-47",
        "All bytes of a message are there for the perform") {
    static Probe probe = {.name = "p", .action = read_all};
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    add_port(&probe, ends[0], kRLDefaultMode);
    ck_assert_int_eq(write(ends[1], "abcdefghijklmnopqrst", 20), 20);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p");
}

RL_TEST(an_unread_port_is_served_again_in_later_passes, "S-SRC-47 S-PASS-13",
        "A perform that reads nothing is called again in the next pass, and a timer is still "
        "served") {
    static Probe probe = {.name = "p"}, timer = {.name = "t"};
    int ends[2];
    make_pipe(ends);
    add_port(&probe, ends[0], kRLDefaultMode);
    add_timer(&timer, date_in(0.02), 0, kRLDefaultMode);
    write_byte(ends[1]);
    do {
        expect_run(kRLDefaultMode, 60, true, HandledSource);
    } while (count_of(&timer.calls) == 0 || probe.calls < 2);
}

static void count_end(Probe *self) {
    char byte;
    ck_assert_int_eq(read(self->fd, &byte, 1), 0);
}

RL_TEST(hang_up_is_readable, "S-SRC-47",
        "The end of a pipe whose writer is gone is an event, and stays one") {
    static Probe probe = {.name = "p", .action = count_end};
    int ends[2];
    make_pipe(ends);
    add_port(&probe, ends[0], kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    close(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p p");
}

RL_TEST(error_is_readable, "S-SRC-47",
        "The writing end of a pipe whose reader is gone reports an error, which counts as "
        "readable") {
    static Probe probe = {.name = "p"};
    int ends[2];
    make_pipe(ends);
    add_port(&probe, ends[1], kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    close(ends[0]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p");
}

RL_TEST(writable_is_no_event, "S-SRC-47",
        "A socket that can be written but not read is not served and does not keep the loop "
        "awake") {
    static Probe probe = {.name = "p"};
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    observe(RLGetCurrent(), kRLDefaultMode);
    add_port(&probe, ends[0], kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.05, true, TimedOut);
    expect_trace("E BT BS BW AW X");
}

RL_TEST(a_drained_port_is_not_reported, "S-SRC-47",
        "A port another callback drained before its turn is not served") {
    static Probe first = {.name = "a", .action = read_one}, second = {.name = "b"};
    int ends[2], copy;
    make_pipe(ends);
    copy = dup(ends[0]);
    ck_assert_int_ge(copy, 0);
    second.action = read_one;
    add_port(&first, ends[0], kRLDefaultMode);
    add_port(&second, copy, kRLDefaultMode);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    ck_assert_int_eq(first.calls + second.calls, 1);
}

RL_TEST(perform_gets_the_info_alone, "S-SRC-48",
        "The perform of a port source is called with the info of its context") {
    static Probe probe = {.name = "right-info", .action = read_one, .counted = true};
    int ends[2];
    make_pipe(ends);
    add_port(&probe, ends[0], kRLDefaultMode);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("right-info");
    RLSourceInvalidate(probe.source);
    ck_assert_int_eq(probe.releases, 1);
}

static void run_nested(Probe *self) {
    read_byte(self->fd);
    if (self->calls > 2) return;
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    trace("end");
}

RL_TEST(a_nested_run_may_serve_the_same_port, "S-SRC-49 S-NEST-3",
        "A nested run inside the perform of a port source serves that source again") {
    static Probe probe = {.name = "p", .action = run_nested};
    int ends[2];
    make_pipe(ends);
    add_port(&probe, ends[0], kRLDefaultMode);
    ck_assert_int_eq(write(ends[1], "123", 3), 3);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p p p end end");
}

static void invalidate_self(Probe *self) {
    int fd = self->fd;
    RLSourceInvalidate(self->source);
    close(fd);
    trace("invalidated");
}

RL_TEST(a_port_source_may_invalidate_itself_and_close, "S-SRC-47 S-REF-4",
        "A perform may invalidate its source, which the loop alone kept alive, and close its "
        "port") {
    static Probe probe = {.name = "p", .action = invalidate_self, .counted = true};
    int ends[2];
    make_pipe(ends);
    add_port(&probe, ends[0], kRLDefaultMode);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("p invalidated");
    ck_assert_int_eq(probe.releases, 1);
}

RL_TEST(a_number_that_is_used_again_belongs_to_its_new_source, "S-SRC-39",
        "After a source was removed and its port closed, a new source on the same number is "
        "served") {
    static Probe first = {.name = "old", .action = read_one};
    static Probe second = {.name = "new", .action = read_one};
    int ends[2], again[2];
    make_pipe(ends);
    add_port(&first, ends[0], kRLDefaultMode);
    write_byte(ends[1]);
    RLRemoveSource(first.loop, first.source, kRLDefaultMode);
    close(ends[0]);
    close(ends[1]);
    make_pipe(again);
    ck_assert_int_eq(again[0], ends[0]);
    add_port(&second, again[0], kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    write_byte(again[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("new");
}

static Probe counted = {.name = "counter"};

static void give_the_number_away(Probe *self) {
    int ends[2];
    if (self->calls > 1) return;
    make_pipe(ends);
    ck_assert_int_eq(write(ends[1], "0123456789abcdef", 16), 16);
    ck_assert_int_eq(dup2(ends[0], counted.fd), counted.fd);
}

RL_TEST(a_file_with_the_number_of_a_counter_is_not_read, "S-SRC-46",
        "A pipe that an observer of the end of the wait gives the number of the ready eventfd keeps its bytes, and nothing performs") {
    static Probe observer = {.name = "AW", .action = give_the_number_away};
    char text[17];
    add_port(&counted, make_eventfd(), kRLDefaultMode);
    add_observer(&observer, kRLAfterWaiting, kRLDefaultMode);
    eventfd_signal(counted.fd);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    ck_assert_int_eq(counted.calls, 0);
    ck_assert_int_eq(read(counted.fd, text, sizeof text), 16);
}

static void read_counter(Probe *self) {
    uint64_t counter = 0;
    if (self->calls < 3) return;
    ck_assert_int_eq(read(self->fd, &counter, sizeof counter), (int)sizeof counter);
    self->value = (long)counter;
}

RL_TEST(an_eventfd_that_is_not_known_as_one_is_not_read, "S-SRC-46 S-SRC-47",
        "Where the kind of a descriptor cannot be told the loop reads nothing from it") {
    static Probe probe = {.name = "p", .action = read_counter};
    int fd = make_eventfd();
    refuse_readlink = true;
    add_port(&probe, fd, kRLDefaultMode);
    for (int i = 0; i < 5; i++) eventfd_signal(fd);
    for (int i = 0; i < 3; i++) expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("p p p");
    ck_assert_int_eq(probe.value, 5);
}
