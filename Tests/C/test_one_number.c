/* SPDX-License-Identifier: MIT */
/* Several sources on one descriptor number: one registration is made for all, and what one adds to it takes nothing from the others. */
#define _GNU_SOURCE
#include "support_descriptor.h"

#include <fcntl.h>
#include <unistd.h>

static const RLOptionFlags read_type = kRLFileDescriptorReadCallBack;
static const RLOptionFlags write_type = kRLFileDescriptorWriteCallBack;

static void read_one(Probe *self) { read_byte(self->fd); }

static void run_until_idle(void) {
    while (RLRunInMode(kRLDefaultMode, 0, true) == kRLRunHandledSource) {
    }
}

RL_TEST(who_comes_takes_nothing_from_others, "S-SRC-44 S-FD-3",
        "A descriptor object comes for writing, one for nothing, and one whose interest grows later: each is told what interests it") {
    static Descriptor a = {.name = "a"}, b = {.name = "b"}, c = {.name = "c"};
    int ends[2];
    make_pair(ends);
    add_descriptor(&a, ends[0], read_type);
    add_descriptor(&b, ends[0], write_type);
    add_descriptor(&c, ends[0], 0);
    run_until_idle();
    expect_trace("b:w");
    write_byte(ends[1]);
    run_until_idle();
    expect_trace("a:r");
    RLFileDescriptorEnableCallBacks(c.file, read_type | write_type);
    run_until_idle();
    expect_trace("c:rw");
    RLFileDescriptorEnableCallBacks(b.file, write_type);
    RLFileDescriptorEnableCallBacks(a.file, read_type);
    run_until_idle();
    expect_trace("b:w a:r");
}

RL_TEST(who_comes_after_a_hangup, "S-SOCK-51 S-FD-3",
        "A hang-up in which nobody was interested is told to one that comes, and then to the one that was there") {
    static Descriptor a = {.name = "a"}, b = {.name = "b"}, c = {.name = "c"};
    int ends[2];
    make_pair(ends);
    add_descriptor(&a, ends[0], read_type);
    write_byte(ends[1]);
    run_until_idle();
    expect_trace("a:r");
    close(ends[1]);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    add_descriptor(&b, ends[0], 0);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("");
    add_descriptor(&c, ends[0], read_type);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("c:r");
    RLFileDescriptorEnableCallBacks(b.file, read_type);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    RLFileDescriptorEnableCallBacks(a.file, read_type);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("b:r a:r");
}

RL_TEST(a_number_that_was_always_ready, "S-SRC-50 S-FD-17",
        "A number that was /dev/null names a pipe by now: a port that comes then is served, also beside a port that was there before") {
    static Probe old = {.name = "old"}, port = {.name = "p", .action = read_one};
    int ends[2], number = open("/dev/null", O_RDONLY | O_CLOEXEC);
    add_port(&old, number, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    make_pipe(ends);
    ck_assert_int_eq(dup2(ends[0], number), number);
    add_port(&port, number, kRLDefaultMode);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p");
}

RL_TEST(a_number_that_became_always_ready, "S-FD-17",
        "Of those on /dev/null each has its turn: one that was there, one that comes and one whose interest grows") {
    static Descriptor a = {.name = "a"}, b = {.name = "b"}, c = {.name = "c"};
    int number = open("/dev/null", O_RDWR | O_CLOEXEC);
    add_descriptor(&a, number, read_type);
    add_descriptor(&c, number, 0);
    add_descriptor(&b, number, write_type);
    run_until_idle();
    expect_trace("a:r b:w");
    RLFileDescriptorEnableCallBacks(c.file, read_type);
    run_until_idle();
    expect_trace("c:r");
}

RL_TEST(a_number_that_was_used_again, "S-SRC-50",
        "The file of a number was closed and the number used again: one that comes is told of the new file, those before it are not") {
    static Descriptor a = {.name = "a"}, b = {.name = "b"}, c = {.name = "c"}, d = {.name = "d"};
    int ends[2], others[2];
    make_pair(ends);
    make_pair(others);
    add_descriptor(&a, ends[0], read_type);
    add_descriptor(&b, ends[0], write_type);
    run_until_idle();
    expect_trace("b:w");
    RLFileDescriptorEnableCallBacks(b.file, write_type);
    int number = ends[0];
    close(number);
    ck_assert_int_eq(dup2(others[0], number), number);
    add_descriptor(&c, number, read_type);
    add_descriptor(&d, number, 0);
    write_byte(others[1]);
    run_until_idle();
    expect_trace("c:r");
    RLFileDescriptorEnableCallBacks(d.file, read_type);
    run_until_idle();
    expect_trace("d:r");
}

RL_TEST(a_number_that_was_closed, "S-SRC-43 S-SRC-41",
        "Ports come to a number that is closed, and another when it is open: that one is served") {
    static Probe first = {.name = "1"}, second = {.name = "2"}, port = {.name = "p", .action = read_one};
    /* No other file gets it. */
    enum { number = 200 };
    int ends[2];
    close(number);
    add_port(&first, number, kRLDefaultMode);
    add_port(&second, number, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    make_pipe(ends);
    ck_assert_int_eq(dup2(ends[0], number), number);
    add_port(&port, number, kRLDefaultMode);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p");
}

static Descriptor removed = {.name = "b"}, invalid = {.name = "c"};
static void remove_others(Descriptor *self) {
    (void)self;
    RLRemoveSource(RLGetCurrent(), removed.source, kRLDefaultMode);
    RLFileDescriptorInvalidate(invalid.file);
}

RL_TEST(removed_while_one_is_told, "S-SRC-50 S-FD-3",
        "The first that is told removes the second and invalidates the third: the fourth is told, they are not, and the second is when it is back") {
    static Descriptor a = {.name = "a", .action = remove_others}, d = {.name = "d"};
    int ends[2];
    make_pair(ends);
    add_descriptor(&a, ends[0], read_type);
    add_descriptor(&removed, ends[0], read_type);
    add_descriptor(&invalid, ends[0], read_type);
    add_descriptor(&d, ends[0], read_type);
    RLRetain(removed.source);
    write_byte(ends[1]);
    run_until_idle();
    expect_trace("a:r d:r");
    RLAddSource(RLGetCurrent(), removed.source, kRLDefaultMode);
    run_until_idle();
    expect_trace("b:r");
    RLRelease(removed.source);
}

static void enable_reading(void *file) { RLFileDescriptorEnableCallBacks(file, read_type); }

static void run_here(LoopThread *self) {
    RLAddSource(self->loop, ((Descriptor *)self->data)->source, kRLDefaultMode);
    keep_alive(self->loop, kRLDefaultMode);
    gate_open(&self->ready);
    RLRunInMode(kRLDefaultMode, 60, false);
}

RL_TEST(several_modes_and_loops, "S-SRC-44 S-FD-3",
        "Members of one number in two modes and two loops: interest that another thread enables reaches the loop that sleeps, for those that came before "
        "and after") {
    static Descriptor a = {.name = "a"}, b = {.name = "b"}, c = {.name = "c"};
    int ends[2];
    make_pair(ends);
    add_descriptor(&a, ends[0], 0);
    RLAddSource(RLGetCurrent(), a.source, "m");
    add_descriptor(&b, ends[0], write_type);
    add_descriptor(&c, ends[0], 0);
    RLAddSource(RLGetCurrent(), c.source, "m");
    run_until_idle();
    expect_trace("b:w");
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    Thread *thread = when_waiting(RLGetCurrent(), enable_reading, a.file);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    thread_join(thread);
    thread = when_waiting(RLGetCurrent(), enable_reading, c.file);
    expect_run("m", 60, true, HandledSource);
    thread_join(thread);
    expect_trace("a:r c:r");
    LoopThread other = {.ready = GATE_INITIALIZER};
    loop_thread_start(&other, run_here, &a);
    wait_until_waiting(other.loop);
    RLFileDescriptorEnableCallBacks(a.file, read_type);
    while (count_of(&a.calls) < 2) RLRunInMode(kRLDefaultMode, 0, true);
    RLStop(other.loop);
    thread_join(other.thread);
    ck_assert_int_eq(count_of(&a.calls), 2);
}

static Descriptor in_parent = {.name = "a"}, later = {.name = "b"};
static int of_both[2];
static void go_on_in_child(void *unused) {
    (void)unused;
    static Descriptor own = {.name = "c"};
    trace_take();
    add_descriptor(&own, of_both[0], read_type);
    RLFileDescriptorEnableCallBacks(later.file, read_type);
    run_until_idle();
    expect_trace("a:r b:r c:r");
}

RL_TEST(the_child_of_a_fork, "S-FORK-1 S-FD-3",
        "In the child of a fork those that were on the number are told, with one that comes there, and the parent's are told too") {
    make_pair(of_both);
    add_descriptor(&in_parent, of_both[0], read_type);
    add_descriptor(&later, of_both[0], 0);
    run_until_idle();
    write_byte(of_both[1]);
    ChildResult child = run_child(go_on_in_child, NULL);
    ck_assert_msg(child.status == 0, "%s", child.output);
    run_until_idle();
    expect_trace("a:r");
    RLFileDescriptorEnableCallBacks(later.file, read_type);
    run_until_idle();
    expect_trace("b:r");
}
