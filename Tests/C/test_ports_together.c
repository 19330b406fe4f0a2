/* SPDX-License-Identifier: MIT */
/*
 * Ports that are ready together: what a callback of one does to the others shows in their turns.
 */
#define _GNU_SOURCE
#include "support_descriptor.h"
#include "support_socket.h"
#include "system_calls.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

static Probe a = {.name = "a"}, b = {.name = "b"}, c = {.name = "c"}, t = {.name = "t"}, s = {.name = "s"};
static Probe z = {.name = "z", .action = action_stop};
static Probe *const all[] = {&a, &b, &c, &z};
static int writers[3];

/* Makes another port ready behind all others, whose callback stops the loop. */
static void ready_end(void) {
    if (!z.source) add_port(&z, make_eventfd(), kRLDefaultMode);
    eventfd_signal(z.fd);
}

static void serve(void) { expect_run(kRLDefaultMode, 60, false, Stopped); }
static void serve_one(void) { expect_run(kRLDefaultMode, 60, true, HandledSource); }
static void poll_once(void) { expect_run(kRLDefaultMode, 0, false, TimedOut); }

/* Three eventfds, ready in this order, and the end. */
static void ready_counters(void) {
    for (int i = 0; i < 3; i++) add_port(all[i], make_eventfd(), kRLDefaultMode);
    for (int i = 0; i < 3; i++) eventfd_signal(all[i]->fd);
    ready_end();
}

static void read_one(Probe *self) { read_byte(self->fd); }

/* Three pipes, with a byte each; their callbacks read it. */
static void ready_pipes(void) {
    for (int i = 0; i < 3; i++) {
        int ends[2];
        make_pipe(ends);
        writers[i] = ends[1];
        all[i]->action = read_one;
        add_port(all[i], ends[0], kRLDefaultMode);
    }
    for (int i = 0; i < 3; i++) write_byte(writers[i]);
    ready_end();
}

static void take_counter(int fd) {
    uint64_t count;
    ck_assert_int_eq(read(fd, &count, sizeof count), (int)sizeof count);
}

static int waits;

static bool count_waits(long number, const long argument[6], long *result) {
    (void)argument;
    (void)result;
    if (number == SYS_epoll_pwait || number == SYS_epoll_pwait2) waits++;
    return false;
}

RL_TEST(a_hundred, "S-SRC-50 S-PASS-14", "Of a hundred ports that are ready together each performs once, in its order") {
    static Probe probes[100];
    static char names[100][8];
    char expected[800] = "";
    for (int i = 0; i < 100; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        probes[i].name = names[i];
        add_port(&probes[i], make_eventfd(), kRLDefaultMode);
        eventfd_signal(probes[i].fd);
        if (i > 0) strcat(expected, " ");
        strcat(expected, names[i]);
    }
    strcat(expected, " z");
    ready_end();
    serve();
    expect_trace(expected);
}

RL_TEST(a_poll_serves_one, "S-RUN-27 S-SRC-50", "Each run without time serves one of the ports that are ready together") {
    ready_counters();
    for (int i = 0; i < 5; i++) {
        poll_once();
        trace("|");
    }
    expect_trace("a | b | c | z | |");
}

RL_TEST(each_has_a_pass, "S-PASS-8 S-SRC-50", "Ports that are ready together have a pass each, with its notifications") {
    observe(RLGetCurrent(), kRLDefaultMode);
    ready_counters();
    serve();
    expect_trace("E BT BS BW AW a BT BS BW AW b BT BS BW AW c BT BS BW AW z X");
}

/* What another callback took */

static void drain_b(Probe *self) {
    (void)self;
    take_counter(b.fd);
}

RL_TEST(a_counter_taken_by_another_callback, "S-SRC-50 S-PASS-16",
        "A counter that another callback has read performs no more, and makes no pass") {
    observe(RLGetCurrent(), kRLDefaultMode);
    a.action = drain_b;
    ready_counters();
    serve();
    expect_trace("E BT BS BW AW a BT BS BW AW c BT BS BW AW z X");
}

RL_TEST(the_same_without_observers, "S-SRC-50 S-RUN-27",
        "Without observers too; a run without time serves the next that is ready") {
    a.action = drain_b;
    ready_counters();
    poll_once();
    poll_once();
    expect_trace("a c");
}

static void read_own_and_b(Probe *self) {
    read_byte(self->fd);
    read_byte(b.fd);
}

RL_TEST(bytes_taken_by_another_callback, "S-SRC-47 S-SRC-50", "A pipe that another callback has read performs no more, and makes no pass") {
    observe(RLGetCurrent(), kRLDefaultMode);
    ready_pipes();
    a.action = read_own_and_b;
    serve();
    expect_trace("E BT BS BW AW a BT BS BW AW c BT BS BW AW z X");
}

static void take_in_after_waiting(Probe *self) {
    if (self->calls == 2) take_counter(b.fd);
}

RL_TEST(a_counter_taken_by_an_observer, "S-SRC-50", "A counter that an observer of the end of its wait reads does not perform") {
    static Probe observer = {.name = "AW", .action = take_in_after_waiting};
    add_observer(&observer, kRLAfterWaiting, kRLDefaultMode);
    ready_counters();
    serve();
    expect_trace("AW a AW AW c AW z");
}

static void remove_in_after_waiting(Probe *self) {
    if (self->calls == 2) RLRemoveSource(self->loop, b.source, kRLDefaultMode);
}

RL_TEST(a_source_removed_by_an_observer, "S-SRC-50",
        "The count of a source that an observer of the end of its wait removes stays in the descriptor") {
    static Probe observer = {.name = "AW", .action = remove_in_after_waiting};
    add_observer(&observer, kRLAfterWaiting, kRLDefaultMode);
    ready_counters();
    RLRetain(b.source);
    serve();
    expect_trace("AW a AW AW c AW z");
    take_counter(b.fd);
}

static Gate taken = GATE_INITIALIZER;

static void take_elsewhere(void *argument) {
    (void)argument;
    take_counter(b.fd);
    gate_open(&taken);
}

static void wait_for_other_thread(Probe *self) {
    (void)self;
    Thread *thread = thread_start(take_elsewhere, NULL);
    gate_wait(&taken);
    thread_join(thread);
}

RL_TEST(a_counter_taken_by_another_thread, "S-SRC-50 S-PASS-16", "A counter that another thread has read meanwhile does not perform") {
    observe(RLGetCurrent(), kRLDefaultMode);
    a.action = wait_for_other_thread;
    ready_counters();
    serve();
    expect_trace("E BT BS BW AW a BT BS BW AW c BT BS BW AW z X");
}

static void run_other_loop(LoopThread *self) {
    (void)self;
    RLAddSource(RLGetCurrent(), b.source, kRLDefaultMode);
    serve_one();
}

static void let_other_loop_run(Probe *self) {
    (void)self;
    static LoopThread other;
    loop_thread_start(&other, run_other_loop, NULL);
    thread_join(other.thread);
}

RL_TEST(a_source_served_by_another_loop, "S-SRC-42 S-SRC-50", "A source in two loops performs once for an event that both were told of") {
    a.action = let_other_loop_run;
    ready_counters();
    serve();
    expect_trace("a b c z");
}

static void write_b_again(Probe *self) {
    (void)self;
    take_counter(b.fd);
    eventfd_signal(b.fd);
}

RL_TEST(a_counter_written_again, "S-SRC-46 S-SRC-50", "A counter that was read and written again meanwhile performs once") {
    a.action = write_b_again;
    ready_counters();
    serve();
    expect_trace("a b c z");
}

RL_TEST(a_semaphore_among_others, "S-SRC-46 S-SRC-50", "A semaphore performs once for each unit, and in its turn") {
    int fds[] = {make_eventfd(), eventfd(2, EFD_CLOEXEC | EFD_SEMAPHORE | EFD_NONBLOCK), make_eventfd()};
    for (int i = 0; i < 3; i++) add_port(all[i], fds[i], kRLDefaultMode);
    eventfd_signal(a.fd);
    eventfd_signal(c.fd);
    ready_end();
    serve();
    serve_one();
    ck_assert_int_eq(a.calls, 1);
    ck_assert_int_eq(b.calls, 2);
    ck_assert_int_eq(c.calls, 1);
}

/* What another callback did to the source */

static void remove_b(Probe *self) { RLRemoveSource(self->loop, b.source, kRLDefaultMode); }
static void invalidate_b(Probe *self) {
    (void)self;
    RLSourceInvalidate(b.source);
}
static void move_b(Probe *self) {
    RLRetain(b.source);
    remove_b(self);
    RLAddSource(self->loop, b.source, "other");
    RLRelease(b.source);
}
static void bring_b_back(Probe *self) {
    RLRetain(b.source);
    remove_b(self);
    RLAddSource(self->loop, b.source, kRLDefaultMode);
    RLRelease(b.source);
}

RL_TEST(a_source_that_was_removed, "S-SRC-50", "A source that another callback removes does not perform, and its count stays") {
    a.action = remove_b;
    ready_counters();
    RLRetain(b.source);
    serve();
    expect_trace("a c z");
    take_counter(b.fd);
}

RL_TEST(a_source_that_was_invalidated, "S-SRC-9 S-SRC-50", "A source that another callback invalidates does not perform") {
    a.action = invalidate_b;
    ready_counters();
    serve();
    expect_trace("a c z");
    take_counter(b.fd);
}

RL_TEST(a_source_that_was_moved, "S-SRC-50 S-MODE-23", "A source that another callback moves to another mode performs there alone") {
    a.action = move_b;
    ready_counters();
    serve();
    expect_trace("a c z");
    expect_run("other", 60, true, HandledSource);
    expect_trace("b");
}

RL_TEST(a_source_that_came_back, "S-SRC-41 S-SRC-50", "A source that another callback removes and adds performs once") {
    a.action = bring_b_back;
    ready_counters();
    serve();
    poll_once();
    ck_assert_int_eq(trace_count("b"), 1);
}

static int reused;

static void reuse_b(Probe *self) {
    int fd = b.fd, ends[2];
    RLSourceInvalidate(b.source);
    close(fd);
    make_pipe(ends);
    ck_assert_int_eq(ends[0], fd);
    reused = ends[1];
    b = (Probe){.name = "new", .action = read_one};
    add_port(&b, fd, kRLDefaultMode);
    self->action = NULL;
}

RL_TEST(a_number_that_is_used_again, "S-SRC-39 S-SRC-50",
        "An event of a descriptor that was closed after its source was invalidated is not taken for one of the next with its number") {
    a.action = reuse_b;
    ready_counters();
    serve();
    expect_trace("a c z");
    write_byte(reused);
    serve_one();
    expect_trace("new");
}

static void put_bytes_behind_b(Probe *self) {
    reuse_b(self);
    write_byte(reused);
}

RL_TEST(bytes_behind_a_number_that_is_used_again, "S-SRC-47 S-SRC-50", "The bytes of the next descriptor with the number are all there") {
    a.action = put_bytes_behind_b;
    ready_counters();
    serve();
    poll_once();
    ck_assert_int_eq(trace_count("new"), 1);
}

static int others[2];

/* Gives the number of b, which is added, to a pipe that can be read. */
static void give_number_of_b_away(Probe *self) {
    make_pipe(others);
    ck_assert_int_eq(write(others[1], "0123456789abcdef", 16), 16);
    ck_assert_int_eq(dup2(others[0], b.fd), b.fd);
    self->action = NULL;
}

static void expect_nothing_read(void) {
    char text[17];
    ck_assert_int_eq(read(b.fd, text, sizeof text), 16);
}

RL_TEST(a_number_of_a_counter_that_is_given_away, "S-SRC-46 S-SRC-50",
        "A pipe that another callback gives the number of a ready eventfd keeps its bytes, and nothing performs for it") {
    a.action = give_number_of_b_away;
    ready_counters();
    serve();
    for (int i = 0; i < 3; i++) poll_once();
    expect_trace("a c z");
    expect_nothing_read();
}

static void read_and_give_number_of_b_away(Probe *self) {
    read_byte(self->fd);
    give_number_of_b_away(self);
}

RL_TEST(a_number_of_a_pipe_that_is_given_away, "S-SRC-50", "A pipe that another callback gives the number of a ready one performs nothing") {
    ready_pipes();
    a.action = read_and_give_number_of_b_away;
    serve();
    for (int i = 0; i < 3; i++) poll_once();
    expect_trace("a c z");
    expect_nothing_read();
}

static void drain_blocking_b(Probe *self) {
    (void)self;
    take_counter(b.fd);
    ck_assert_int_eq(fcntl(b.fd, F_SETFL, 0), 0);
}

RL_TEST(a_counter_that_became_blocking, "S-SRC-46 S-SRC-50",
        "An eventfd that another callback has read, and whose O_NONBLOCK it took away, does not block the loop") {
    a.action = drain_blocking_b;
    ready_counters();
    serve();
    expect_trace("a c z");
}

static Descriptor d1 = {.name = "d", .reads = true}, d2 = {.name = "e", .reads = true};
static int pipes[2][2];

static void ready_descriptors(void (*action)(Descriptor *self)) {
    d1.action = action;
    Descriptor *both[] = {&d1, &d2};
    for (int i = 0; i < 2; i++) {
        make_pipe(pipes[i]);
        add_descriptor(both[i], pipes[i][0], kRLFileDescriptorReadCallBack);
    }
    for (int i = 0; i < 2; i++) write_byte(pipes[i][1]);
    ready_end();
}

static void disable_second(Descriptor *self) {
    (void)self;
    RLFileDescriptorDisableCallBacks(d2.file, kRLFileDescriptorReadCallBack);
}

RL_TEST(a_descriptor_that_was_disabled, "S-FD-7 S-SRC-50", "A descriptor that another callback disables is not told of, and makes no pass") {
    observe(RLGetCurrent(), kRLDefaultMode);
    ready_descriptors(disable_second);
    serve();
    expect_trace("E BT BS BW AW d:r BT BS BW AW z X");
    RLFileDescriptorEnableCallBacks(d2.file, kRLFileDescriptorReadCallBack);
    serve_one();
    expect_trace("E BT BS BW AW e:r X");
}

static void disable_and_enable_second(Descriptor *self) {
    disable_second(self);
    RLFileDescriptorEnableCallBacks(d2.file, kRLFileDescriptorReadCallBack);
}

RL_TEST(a_descriptor_that_was_enabled_again, "S-FD-9 S-SRC-50", "One that is disabled and enabled again is told of once") {
    ready_descriptors(disable_and_enable_second);
    serve();
    expect_trace("d:r e:r z");
}

static void close_second(Descriptor *self) {
    (void)self;
    ck_assert_int_ge(dup(d2.fd), 0);
    close(d2.fd);
}

RL_TEST(a_descriptor_that_was_closed, "S-FD-15 S-SRC-50",
        "A number that was closed is not told of, though its file is open elsewhere, and does not keep the loop awake") {
    observe(RLGetCurrent(), kRLDefaultMode);
    ready_descriptors(close_second);
    serve();
    expect_trace("E BT BS BW AW d:r BT BS BW AW z X");
}

static void give_number_of_second_away(Descriptor *self) {
    (void)self;
    make_pipe(others);
    write_byte(others[1]);
    ck_assert_int_eq(dup2(others[0], d2.fd), d2.fd);
}

RL_TEST(a_number_of_a_descriptor_that_is_given_away, "S-FD-15 S-SRC-50", "A file that another callback gives the number of a ready descriptor is not told of") {
    ready_descriptors(give_number_of_second_away);
    serve();
    for (int i = 0; i < 3; i++) poll_once();
    expect_trace("d:r z");
}

static void read_second(Descriptor *self) {
    (void)self;
    read_byte(d2.fd);
}

RL_TEST(a_descriptor_that_was_read, "S-FD-8 S-SRC-50", "A descriptor that another callback has read is not told of, and makes no pass") {
    observe(RLGetCurrent(), kRLDefaultMode);
    ready_descriptors(read_second);
    serve();
    expect_trace("E BT BS BW AW d:r BT BS BW AW z X");
}

static void invalidate_second(Descriptor *self) {
    (void)self;
    RLFileDescriptorInvalidate(d2.file);
}

RL_TEST(a_descriptor_that_was_invalidated, "S-FD-11 S-SRC-50", "A descriptor that another callback invalidates is not told of") {
    ready_descriptors(invalidate_second);
    serve();
    expect_trace("d:r z");
}

static void want_writing(Descriptor *self) {
    (void)self;
    RLFileDescriptorEnableCallBacks(d2.file, kRLFileDescriptorWriteCallBack);
}

RL_TEST(a_descriptor_that_wants_more, "S-FD-5 S-SRC-50", "What another callback enables meanwhile is told in the same turn") {
    int first[2], second[2];
    make_pair(first);
    make_pair(second);
    d1.action = want_writing;
    add_descriptor(&d1, first[0], kRLFileDescriptorReadCallBack);
    add_descriptor(&d2, second[0], kRLFileDescriptorReadCallBack);
    write_byte(first[1]);
    write_byte(second[1]);
    ready_end();
    serve();
    expect_trace("d:r e:rw z");
}

static void hang_up_second(Descriptor *self) {
    (void)self;
    close(pipes[1][1]);
    disable_second(self);
}

RL_TEST(a_hang_up_that_interests_nobody, "S-SOCK-51 S-SRC-50",
        "A hang-up among other events that interests nobody does not keep the loop awake, and is told once it does") {
    ready_descriptors(hang_up_second);
    serve();
    hook_system_calls(count_waits);
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    hook_system_calls(NULL);
    /* Where the kernel has no waits in nanoseconds, one of whole milliseconds may be followed by a second. */
    ck_assert_int_le(waits, 8);
    expect_trace("d:r z");
    RLFileDescriptorEnableCallBacks(d2.file, kRLFileDescriptorReadCallBack);
    serve_one();
    expect_trace("e:r");
}

RL_TEST(two_objects_of_one_number, "S-SRC-44 S-SRC-50", "Two objects of one descriptor are both told, and so is the one behind them") {
    static Descriptor twin = {.name = "twin"};
    ready_descriptors(NULL);
    d1.reads = false;
    add_descriptor(&twin, pipes[0][0], kRLFileDescriptorReadCallBack);
    serve();
    serve_one();
    ck_assert_int_eq(trace_count("d:r"), 1);
    ck_assert_int_eq(twin.calls, 1);
    ck_assert_int_eq(d2.calls, 1);
}

/* What else is to have its turn */

static void signal_s(Probe *self) {
    (void)self;
    RLSourceSignal(s.source);
}

RL_TEST(a_source_signalled_meanwhile, "S-PASS-11 S-SRC-50", "A source that a callback signals performs before the next port") {
    add_source(&s, kRLDefaultMode);
    a.action = signal_s;
    ready_counters();
    serve();
    expect_trace("a s b c z");
}

static void make_timer_due(Probe *self) {
    if (self->calls == 1) add_timer(&t, date_in(-1), 0, kRLDefaultMode);
}

RL_TEST(a_timer_due_meanwhile, "S-PASS-10 S-PASS-13 S-SRC-50", "A timer that becomes due while ports wait for their turns fires after one of them at most") {
    a.action = make_timer_due;
    ready_counters();
    serve();
    const char *order = trace_take();
    ck_assert_msg(strcmp(order, "a t b c z") == 0 || strcmp(order, "a b t c z") == 0, "%s", order);
}

static void wake_self(Probe *self) { RLWakeUp(self->loop); }

RL_TEST(a_wake_up_meanwhile, "S-WAKE-4 S-SRC-50", "A wake-up from a callback is dropped, whether or not other ports wait for their turns") {
    observe(RLGetCurrent(), kRLDefaultMode);
    a.action = wake_self;
    ready_counters();
    serve();
    expect_trace("E BT BS BW AW a BT BS BW AW b BT BS BW AW c BT BS BW AW z X");
}

RL_TEST(a_stop_meanwhile, "S-STOP-9 S-SRC-50", "A stop from a callback ends the run; the next one serves the ports that are left") {
    a.action = action_stop;
    ready_counters();
    expect_run(kRLDefaultMode, 60, false, Stopped);
    expect_trace("a");
    serve();
    expect_trace("b c z");
}

static Socket late = {.name = "socket"};

static void add_ready_socket(Probe *self) {
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    write_byte(ends[1]);
    socket_make(&late, ends[0], kRLSocketReadCallBack);
    socket_add(&late);
    self->action = NULL;
}

static void read_socket(Socket *self, RLSocketCallBackType type) {
    (void)type;
    read_byte(RLSocketGetNative(self->socket));
}

RL_TEST(a_socket_added_meanwhile, "S-SOCK-54 S-SRC-50",
        "A ready socket that a callback adds is told before the ports that wait for their turns, or after one of them, and none of those is lost") {
    a.action = add_ready_socket;
    late.action = read_socket;
    ready_counters();
    serve();
    for (int i = 0; i < 4; i++) poll_once();
    ck_assert_int_eq(late.calls, 1);
    ck_assert_int_eq(b.calls, 1);
    ck_assert_int_eq(c.calls, 1);
    const char *order = trace_take();
    ck_assert_msg(strstr(order, "socket:read") <= order + strlen("a b "), "%s", order);
}

static void make_a_ready_again(Probe *self) {
    if (self->calls == 1) eventfd_signal(a.fd);
}

RL_TEST(a_port_ready_again, "S-PASS-14 S-SRC-50", "A port that becomes ready again comes after those that were ready before") {
    a.action = make_a_ready_again;
    ready_counters();
    serve();
    serve_one();
    expect_trace("a b c z a");
}

static void read_nothing(Probe *self) {
    if (self->calls == 3 && self == &c) RLStop(self->loop);
}

RL_TEST(ports_that_are_always_ready, "S-PASS-14 S-SRC-50", "Ports that stay ready are served in turn") {
    z = (Probe){.name = NULL};
    ready_pipes();
    for (int i = 0; i < 3; i++) all[i]->action = read_nothing;
    expect_run(kRLDefaultMode, 60, false, Stopped);
    expect_trace("a b c a b c a b c");
}

static void write_nothing(Probe *self) {
    if (self == &a && self->calls == 2) {
        add_port(&s, make_eventfd(), kRLDefaultMode);
        eventfd_signal(s.fd);
        s.action = action_stop;
    }
}

RL_TEST(a_port_beside_those_that_are_always_ready, "S-PASS-13 S-PASS-14 S-SRC-50",
        "A port that becomes ready beside others that stay so waits for two turns of each at most") {
    z = (Probe){.name = NULL};
    ready_pipes();
    for (int i = 0; i < 3; i++) all[i]->action = write_nothing;
    expect_run(kRLDefaultMode, 60, false, Stopped);
    ck_assert_int_le(a.calls, 4);
}

/* Runs */

static void run_nested(Probe *self) {
    (void)self;
    serve();
    trace("end");
}

RL_TEST(a_nested_run_serves_the_others, "S-NEST-3 S-SRC-50", "A nested run in the mode serves the ports that wait for their turns") {
    a.action = run_nested;
    ready_counters();
    serve_one();
    expect_trace("a b c z end");
}

static void serve_itself_nested(Probe *self) {
    if (self->calls > 1) return;
    eventfd_signal(self->fd);
    for (int i = 0; i < 4; i++) serve_one();
    trace("end");
}

RL_TEST(a_nested_run_serves_the_same_port, "S-SRC-49 S-SRC-50", "A nested run serves the port again that runs it") {
    a.action = serve_itself_nested;
    ready_counters();
    serve_one();
    expect_trace("a b c z a end");
}

static void run_other_mode(Probe *self) {
    (void)self;
    expect_run("other", 60, true, HandledSource);
    trace("end");
}

RL_TEST(a_nested_run_of_another_mode, "S-MODE-23 S-SRC-42 S-SRC-50",
        "A nested run of another mode serves what is in that; a source in both modes performs once") {
    a.action = run_other_mode;
    ready_counters();
    RLAddSource(b.loop, b.source, "other");
    serve();
    expect_trace("a b end c z");
}

static void invalidate_self(Probe *self) {
    int fd = self->fd;
    RLSourceInvalidate(self->source);
    close(fd);
    trace("gone");
}

RL_TEST(a_source_that_invalidates_itself, "S-REF-4 S-SRC-50", "A source may invalidate itself, which the loop alone kept alive, in any turn") {
    for (int i = 0; i < 3; i++) {
        all[i]->action = invalidate_self;
        all[i]->counted = true;
    }
    ready_counters();
    serve();
    expect_trace("a gone b gone c gone z");
    for (int i = 0; i < 3; i++) ck_assert_int_eq(all[i]->releases, 1);
}

static void end_thread(Probe *self) {
    (void)self;
    pthread_exit(NULL);
}

static void run_until_thread_ends(LoopThread *self) {
    (void)self;
    b.action = end_thread;
    for (int i = 0; i < 3; i++) all[i]->counted = true;
    ready_counters();
    RLRunInMode(kRLDefaultMode, 60, false);
}

RL_TEST(a_callback_that_ends_its_thread, "S-LOOP-19 S-SRC-50", "What the library holds for a perform of a later turn is given back when it ends its thread") {
    static LoopThread other;
    loop_thread_start(&other, run_until_thread_ends, NULL);
    thread_join(other.thread);
    expect_trace("a b");
    for (int i = 0; i < 3; i++) ck_assert_int_eq(all[i]->releases, 1);
    take_counter(c.fd);
}

RL_TEST(a_flag_is_cleared_in_its_turn, "S-SRC-45 S-SRC-50", "The flag of a signalled port is cleared by the perform of its turn, and not before") {
    ready_counters();
    RLSourceSignal(b.source);
    serve_one();
    ck_assert(RLSourceIsSignalled(b.source));
    serve_one();
    ck_assert(!RLSourceIsSignalled(b.source));
    expect_trace("a b");
}

static RLPort port_of_info(void *info) { return *(int *)info; }

RL_TEST(a_port_without_a_function, "S-SRC-36 S-SRC-46 S-SRC-50", "A port without a function counts as handled in its turn, and its counter is read") {
    static int fd;
    fd = make_eventfd();
    RLSourceContext1 context = {.version = 1, .info = &fd, .getPort = port_of_info};
    RLSourceRef source = RLSourceCreate(0, (RLSourceContext *)&context);
    ready_counters();
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    eventfd_signal(fd);
    for (int i = 0; i < 5; i++) serve_one();
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_trace("a b c z");
    uint64_t count;
    ck_assert_int_lt(read(fd, &count, sizeof count), 0);
    RLRelease(source);
}

static void go_on_in_child(void *argument) {
    (void)argument;
    for (int i = 0; i < 6; i++) poll_once();
    ck_assert_int_eq(trace_count("b"), 1);
    _exit(0);
}

static void fork_in_turn(Probe *self) {
    read_one(self);
    self->action = read_one;
    ChildResult result = run_child(go_on_in_child, NULL);
    ck_assert_msg(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0, "%s", result.output);
    trace("child");
}

RL_TEST(a_fork_between, "S-FORK-1 S-SRC-50",
        "The child of a fork in a callback serves what is ready there, and the parent then what the child has left") {
    ready_pipes();
    a.action = fork_in_turn;
    for (int i = 0; i < 6; i++) poll_once();
    /* The child has read what the pipes share. */
    expect_trace("a child");
}

static void poll_host(RLForeignRunRef run, int turns) {
    for (int i = 0; i < turns; i++) {
        RLForeignRunPrepare(run);
        struct pollfd entry = {.fd = RLForeignRunGetDescriptor(run), .events = POLLIN};
        if (poll(&entry, 1, 20) > 0) RLForeignRunDispatch(run);
    }
}

RL_TEST(a_host_serves_one_at_a_time, "S-FRN-3 S-PASS-8 S-SRC-50", "A foreign run serves ports that are ready together one a pass, also after a nested run of the library's own") {
    static RLForeignRunRef run;
    b.action = run_nested;
    ready_counters();
    observe(RLGetCurrent(), kRLDefaultMode);
    run = RLForeignRunCreate(kRLDefaultMode);
    poll_host(run, 20);
    ck_assert_int_eq(a.calls + b.calls + c.calls, 3);
    eventfd_signal(a.fd);
    eventfd_signal(c.fd);
    poll_host(run, 20);
    ck_assert_int_eq(a.calls + b.calls + c.calls, 5);
    RLForeignRunInvalidate(run);
    RLRelease(run);
}
