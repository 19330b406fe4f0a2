/* SPDX-License-Identifier: MIT */
/*
 * Foreign runs: the waits are made by another loop, here by poll. The probes are static, because
 * what is left in a loop outlives the case that put it there.
 */
#define _GNU_SOURCE
#include "support_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static Probe source = {.name = "s"}, timer = {.name = "t"}, function = {.name = "f"};
static Probe port = {.name = "p"}, late = {.name = "l"};
static int ends[2];

static void read_one(Probe *self) { read_byte(self->fd); }

/* What the host's poll says of the descriptor within so many milliseconds; -1 waits. */
static bool is_readable(RLForeignRunRef run, int milliseconds) {
    struct pollfd entry = {.fd = RLForeignRunGetDescriptor(run), .events = POLLIN};
    int count;
    do count = poll(&entry, 1, milliseconds);
    while (count < 0 && errno == EINTR);
    return count == 1;
}
#define expect_ready(run) ck_assert(is_readable(run, -1))
#define expect_quiet(run) ck_assert(!is_readable(run, 0))
#define expect_dispatch(run, expected) ck_assert_int_eq(RLForeignRunDispatch(run), kRLRun##expected)

/* A run of a mode that has an idle source, observed by E BT BS BW AW X. */
static RLForeignRunRef observed_run(void) {
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    observe(RLGetCurrent(), kRLDefaultMode);
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    ck_assert_ptr_nonnull(run);
    return run;
}
/* The same, waiting. */
static RLForeignRunRef waiting_run(void) {
    RLForeignRunRef run = observed_run();
    ck_assert(isinf(RLForeignRunPrepare(run)));
    expect_trace("E BT BS BW");
    expect_quiet(run);
    return run;
}
static void end_run(RLForeignRunRef run) {
    RLForeignRunInvalidate(run);
    RLRelease(run);
}

static void nothing(void *info) { (void)info; }

/* A thread that wakes a loop stops here between its change of the loop's state and the call that makes a descriptor readable. */
static bool is_late;
static int is_there[2], goes_on[2];
int epoll_ctl(int set, int operation, int fd, struct epoll_event *event) {
    if (__atomic_load_n(&is_late, __ATOMIC_SEQ_CST) && operation == EPOLL_CTL_MOD && RLGetMain() != RLGetCurrent()) {
        __atomic_store_n(&is_late, false, __ATOMIC_SEQ_CST);
        write_byte(is_there[1]);
        read_byte(goes_on[0]);
    }
    return (int)syscall(SYS_epoll_ctl, set, operation, fd, event);
}

RL_TEST(a_wake_up_between_passes_ends_a_run, "S-RUN-7 S-FRN-6",
        "The host removes the last item after a dispatch and wakes the loop: the next pass does not wait, and the run is finished; "
        "with another item left the pass waits") {
    for (int left = 0; left < 2; left++) {
        RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
        RLSourceContext context = {.perform = nothing};
        RLSourceRef last = RLSourceCreate(0, &context), other = RLSourceCreate(1, &context);
        RLAddSource(RLGetCurrent(), last, kRLDefaultMode);
        if (left) RLAddSource(RLGetCurrent(), other, kRLDefaultMode);
        RLSourceSignal(last);
        expect_ready(run);
        expect_dispatch(run, GoesOn);
        RLSourceInvalidate(last);
        RLWakeUp(RLGetCurrent());
        if (left) {
            ck_assert(isinf(RLForeignRunPrepare(run)));
            expect_quiet(run);
        } else {
            ck_assert_double_eq(RLForeignRunPrepare(run), 0);
            expect_ready(run);
            expect_dispatch(run, Finished);
        }
        end_run(run);
        RLSourceInvalidate(other);
        RLRelease(last), RLRelease(other);
    }
}

static void end_and_wake(void *source) {
    RLSourceInvalidate(source);
    RLWakeUp(RLGetCurrent());
}

RL_TEST(a_wake_up_that_the_host_s_run_took_ends_a_run, "S-RUN-7 S-FRN-8 S-WAKE-9",
        "The host runs another mode between two passes, before which or in which the last item goes and the loop is woken: the next pass "
        "does not wait, and the run is finished") {
    for (int inside = 0; inside < 2; inside++) {
        RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
        RLSourceContext context = {.perform = nothing};
        RLSourceRef last = RLSourceCreate(0, &context);
        RLAddSource(RLGetCurrent(), last, kRLDefaultMode);
        keep_alive(RLGetCurrent(), "inner");
        RLSourceSignal(last);
        expect_ready(run);
        expect_dispatch(run, GoesOn);
        if (inside) RLPerformFunction(RLGetCurrent(), "inner", end_and_wake, (void *)(uintptr_t)last, NULL);
        else end_and_wake((void *)(uintptr_t)last);
        expect_run("inner", 0, false, TimedOut);
        ck_assert_double_eq(RLForeignRunPrepare(run), 0);
        expect_ready(run);
        expect_dispatch(run, Finished);
        end_run(run);
        RLRelease(last);
    }
}

RL_TEST(a_pass_is_cut_at_its_wait, "S-FRN-1 S-FRN-5 S-WAKE-10",
        "Prepare makes the steps before the wait and dispatch those after it, and the loop waits "
        "between") {
    RLRunLoopRef loop = RLGetCurrent();
    RLForeignRunRef run = observed_run();
    expect_trace("");
    ck_assert(!RLIsWaiting(loop));
    expect_ready(run);
    probe_perform(&function, loop, kRLDefaultMode);
    ck_assert(isinf(RLForeignRunPrepare(run)));
    expect_trace("E BT BS f BW");
    ck_assert(RLIsWaiting(loop));
    char *mode = RLCopyCurrentMode(loop);
    ck_assert_str_eq(mode, kRLDefaultMode);
    free(mode);
    expect_quiet(run);
    RLWakeUp(loop);
    expect_ready(run);
    ck_assert(RLIsWaiting(loop));
    probe_perform(&function, loop, kRLDefaultMode);
    expect_dispatch(run, GoesOn);
    ck_assert(!RLIsWaiting(loop));
    expect_trace("AW f");
    ck_assert(isinf(RLForeignRunPrepare(run)));
    expect_trace("BT BS BW");
    expect_quiet(run);
    end_run(run);
    expect_trace("X");
    mode = RLCopyCurrentMode(loop);
    ck_assert_ptr_null(mode);
}

RL_TEST(what_is_done_twice_does_nothing, "S-FRN-2",
        "A dispatch before the wait is over and a second prepare call nothing") {
    RLForeignRunRef run = waiting_run();
    for (int i = 0; i < 3; i++) {
        expect_dispatch(run, GoesOn);
        ck_assert(RLIsWaiting(RLGetCurrent()));
        expect_quiet(run);
        ck_assert(isinf(RLForeignRunPrepare(run)));
    }
    expect_trace("");
    end_run(run);
}

RL_TEST(a_performed_source_makes_the_wait_a_poll, "S-FRN-1 S-FRN-4 S-PASS-5 S-PASS-7",
        "After a signalled source performed there is no waiting: prepare returns 0 and dispatch "
        "polls") {
    RLForeignRunRef run = waiting_run();
    add_source(&source, kRLDefaultMode);
    RLSourceSignal(source.source);
    RLWakeUp(RLGetCurrent());
    expect_ready(run);
    expect_dispatch(run, GoesOn);
    expect_trace("AW");
    ck_assert_double_eq(RLForeignRunPrepare(run), 0);
    expect_trace("BT BS s");
    expect_ready(run);
    expect_dispatch(run, GoesOn);
    ck_assert(isinf(RLForeignRunPrepare(run)));
    expect_trace("BT BS BW");
    end_run(run);
}

RL_TEST(a_ready_port_makes_the_descriptor_readable, "S-FRN-3 S-PASS-8",
        "The descriptor is readable as long as a port of the mode is, and one port is served per "
        "pass") {
    make_pipe(ends);
    port.action = read_one;
    RLForeignRunRef run = observed_run();
    add_port(&port, ends[0], kRLDefaultMode);
    ck_assert(isinf(RLForeignRunPrepare(run)));
    expect_quiet(run);
    write_byte(ends[1]);
    write_byte(ends[1]);
    for (int i = 0; i < 2; i++) {
        expect_ready(run);
        expect_dispatch(run, GoesOn);
        ck_assert(isinf(RLForeignRunPrepare(run)));
    }
    expect_quiet(run);
    expect_trace("E BT BS BW AW p BT BS BW AW p BT BS BW");
    end_run(run);
}

static Socket stream = {.name = "s"};
static void receive_one(Socket *self, RLSocketCallBackType type) {
    (void)type;
    read_byte(RLSocketGetNative(self->socket));
}

RL_TEST(a_ready_socket_ends_the_wait, "S-FRN-3 S-FRN-5 S-SOCK-54",
        "A socket that becomes ready makes the descriptor readable and ends the wait of the host, and performs in the next pass") {
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    socket_make(&stream, ends[0], kRLSocketReadCallBack);
    stream.action = receive_one;
    RLForeignRunRef run = observed_run();
    socket_add(&stream);
    ck_assert(isinf(RLForeignRunPrepare(run)));
    expect_trace("E BT BS BW");
    expect_quiet(run);
    for (int i = 0; i < 2; i++) {
        write_byte(ends[1]);
        expect_ready(run);
        expect_dispatch(run, GoesOn);
        expect_trace("AW");
        ck_assert(RLForeignRunPrepare(run) == 0);
        expect_trace("BT BS s:read");
        expect_ready(run);
        expect_dispatch(run, GoesOn);
        ck_assert(isinf(RLForeignRunPrepare(run)));
        expect_trace("BT BS BW");
        expect_quiet(run);
    }
    end_run(run);
    RLSocketInvalidate(stream.socket);
    RLRelease(stream.socket);
}

RL_TEST(a_socket_and_a_port_in_one_wait, "S-FRN-1 S-SOCK-54 S-PASS-8",
        "A socket and a port become ready in a wait of the host: a port that was first is served at once, one that came after the socket in "
        "the next pass") {
    int pipe_ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    make_pipe(pipe_ends);
    socket_make(&stream, ends[0], kRLSocketReadCallBack);
    stream.action = receive_one;
    port.action = read_one;
    RLForeignRunRef run = observed_run();
    socket_add(&stream);
    add_port(&port, pipe_ends[0], kRLDefaultMode);
    for (int port_first = 0; port_first < 2; port_first++) {
        ck_assert(isinf(RLForeignRunPrepare(run)));
        trace_take();
        write_byte(port_first ? pipe_ends[1] : ends[1]);
        write_byte(port_first ? ends[1] : pipe_ends[1]);
        do {
            expect_ready(run);
            expect_dispatch(run, GoesOn);
        } while (!isinf(RLForeignRunPrepare(run)));
        expect_trace(port_first ? "AW p BT BS s:read BT BS BW" : "AW BT BS s:read p BT BS BW");
    }
    end_run(run);
    RLSocketInvalidate(stream.socket);
    RLRelease(stream.socket);
}

RL_TEST(a_due_timer_makes_the_descriptor_readable, "S-FRN-3 S-FRN-4 S-TMR-20",
        "Prepare tells the time to the next timer, and the descriptor is readable then, not "
        "before") {
    RLForeignRunRef run = observed_run();
    double start = monotonic_now();
    add_timer(&timer, date_in(0.05), 0, kRLDefaultMode);
    double left = RLForeignRunPrepare(run);
    ck_assert_double_le(left, 0.0501);
    trace_take();
    while (count_of(&timer.calls) == 0) {
        expect_ready(run);
        expect_dispatch(run, GoesOn);
        if (count_of(&timer.calls) == 0) expect_trace("");
    }
    ck_assert_double_ge(monotonic_now() - start, 0.0499);
    expect_trace("AW t");
    ck_assert(isinf(RLForeignRunPrepare(run)));
    expect_quiet(run);
    end_run(run);
}

RL_TEST(a_stop_ends_the_run, "S-FRN-3 S-FRN-6 S-STOP-6",
        "A stop in the wait makes the descriptor readable; the dispatch returns Stopped after "
        "Exit") {
    RLForeignRunRef run = waiting_run();
    Thread *other = thread_start(call_stop, RLGetCurrent());
    expect_ready(run);
    thread_join(other);
    expect_dispatch(run, Stopped);
    expect_trace("AW X");
    ck_assert(isinf(RLForeignRunPrepare(run)));
    expect_trace("E BT BS BW");
    end_run(run);
}

static void stop_in_entry(Probe *self) {
    if (self->activity == kRLEntry) RLStop(self->loop);
}

RL_TEST(a_stop_in_entry_makes_no_pass, "S-FRN-7 S-STOP-4",
        "After a stop in Entry there is no pass; prepare returns 0 and the dispatch Stopped") {
    static Probe stopper = {.name = "e", .action = stop_in_entry};
    RLForeignRunRef run = observed_run();
    add_observer(&stopper, kRLEntry, kRLDefaultMode);
    ck_assert_double_eq(RLForeignRunPrepare(run), 0);
    expect_ready(run);
    expect_dispatch(run, Stopped);
    expect_trace("E e X");
    end_run(run);
}

RL_TEST(the_hosts_code_is_heard_in_the_wait, "S-FRN-3 S-FRN-5 S-WAKE-13 S-WAKE-14 S-WAKE-15",
        "What code called by the host adds or re-dates during the wait makes the descriptor "
        "readable") {
    make_pipe(ends);
    port.action = read_one;
    RLForeignRunRef run = waiting_run();
    RLRunLoopRef loop = RLGetCurrent();
    /* A timer, found by a look that makes no pass of its own. */
    add_timer(&timer, FAR_FUTURE, 0, kRLDefaultMode);
    expect_ready(run);
    expect_dispatch(run, GoesOn);
    expect_trace("");
    expect_quiet(run);
    ck_assert_double_ge(RLForeignRunPrepare(run), 1000);
    /* Its date. */
    RLTimerSetNextFireDate(timer.timer, 0);
    expect_ready(run);
    expect_dispatch(run, GoesOn);
    expect_trace("AW t");
    ck_assert(isinf(RLForeignRunPrepare(run)));
    trace_take();
    /* A port that is ready already. */
    write_byte(ends[1]);
    add_port(&port, ends[0], kRLDefaultMode);
    expect_ready(run);
    expect_dispatch(run, GoesOn);
    expect_trace("AW p");
    ck_assert(isinf(RLForeignRunPrepare(run)));
    trace_take();
    /* A source that is signalled already. */
    RLSourceSignal(probe_source(&source, 0));
    RLAddSource(loop, source.source, kRLDefaultMode);
    expect_ready(run);
    expect_dispatch(run, GoesOn);
    ck_assert_double_eq(RLForeignRunPrepare(run), 0);
    expect_trace("AW BT BS s");
    end_run(run);
}

static void on_trigger(RLSourceRef s, const RLKernelEvent *event, void *info) {
    (void)s, (void)info;
    trace("u%d", (int)event->data);
}
static void trigger_one(void *triggered) { RLKernelEventSourceTrigger(triggered, kRLNoteTrigger, 1); }

RL_TEST(a_source_made_ready_by_a_call_is_noticed, "S-FRN-3 S-KEV-7",
        "A source that a call makes ready, by another thread or by the host's code, makes the "
        "descriptor readable") {
    RLForeignRunRef run = waiting_run();
    RLKernelEvent event = {.filter = kRLKernelFilterUser};
    RLSourceRef user = RLKernelEventSourceCreate(&event, on_trigger, NULL);
    RLAddSource(RLGetCurrent(), user, kRLDefaultMode);
    expect_dispatch(run, GoesOn);
    ck_assert(isinf(RLForeignRunPrepare(run)));
    expect_quiet(run);
    trace_take();
    for (int i = 0; i < 50; i++) {
        Thread *other = thread_start(trigger_one, user);
        expect_ready(run);
        thread_join(other);
        expect_dispatch(run, GoesOn);
        expect_trace("AW u1");
        ck_assert(isinf(RLForeignRunPrepare(run)));
        expect_quiet(run);
        trace_take();
    }
    RLKernelEventSourceTrigger(user, kRLNoteTrigger, 2);
    expect_ready(run);
    expect_dispatch(run, GoesOn);
    expect_trace("AW u2");
    /* Between dispatch and prepare: nothing is asleep, and prepare finds it. */
    RLKernelEventSourceTrigger(user, kRLNoteTrigger, 3);
    ck_assert_double_eq(RLForeignRunPrepare(run), 0);
    expect_ready(run);
    expect_dispatch(run, GoesOn);
    expect_trace("BT BS BW AW u3");
    RLRelease(user);
    end_run(run);
}

static void on_file(RLFileDescriptorRef f, RLOptionFlags types, void *info) {
    (void)types, (void)info;
    trace("f");
    if (trace_count("f") < 3) RLFileDescriptorEnableCallBacks(f, kRLFileDescriptorReadCallBack);
}

RL_TEST(a_file_that_is_always_ready_is_served, "S-FRN-3 S-FD-17",
        "A descriptor the kernel cannot watch because it is always ready is served as long as it "
        "is of interest") {
    RLForeignRunRef run = waiting_run();
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    RLFileDescriptorRef file = RLFileDescriptorCreate(fd, true, on_file, NULL);
    RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack);
    RLSourceRef s = RLFileDescriptorCreateRunLoopSource(file, 0);
    RLAddSource(RLGetCurrent(), s, kRLDefaultMode);
    for (int i = 0; i < 3; i++) {
        expect_ready(run);
        expect_dispatch(run, GoesOn);
        RLForeignRunPrepare(run);
    }
    expect_trace("AW f BT BS BW AW f BT BS BW AW f BT BS BW");
    expect_dispatch(run, GoesOn);
    expect_quiet(run);
    expect_trace("");
    RLRelease(s);
    RLRelease(file);
    end_run(run);
}

RL_TEST(no_run_begins_in_an_empty_mode, "S-FRN-6 S-RUN-4 S-MODE-3",
        "In a missing mode nothing is called; the descriptor tells when something is added") {
    observe(RLGetCurrent(), kRLDefaultMode);
    RLForeignRunRef run = RLForeignRunCreate("mine");
    RLIndex count;
    free(RLCopyAllModes(RLGetCurrent(), &count));
    ck_assert_int_eq(count, 1);
    ck_assert(isinf(RLForeignRunPrepare(run)));
    expect_quiet(run);
    ck_assert(!RLIsWaiting(RLGetCurrent()));
    RLWakeUp(RLGetCurrent());
    expect_ready(run);
    expect_dispatch(run, GoesOn);
    expect_quiet(run);
    observe(RLGetCurrent(), "mine");
    expect_trace("");
    add_timer(&timer, 0, 0, "mine");
    expect_ready(run);
    expect_dispatch(run, Finished);
    expect_trace("E BT BS BW AW t X");
    ck_assert(isinf(RLForeignRunPrepare(run)));
    expect_quiet(run);
    expect_dispatch(run, GoesOn);
    expect_trace("");
    end_run(run);
    expect_trace("");
}

static void wake_up(void *loop) { RLWakeUp(loop); }

RL_TEST(a_late_wake_up_is_forgotten, "S-FRN-3 S-FRN-6",
        "A wake-up that the loop has seen before it makes the descriptor of an empty mode readable leaves it so until the next dispatch only") {
    make_pipe(is_there);
    make_pipe(goes_on);
    RLForeignRunRef run = RLForeignRunCreate("mine");
    ck_assert(isinf(RLForeignRunPrepare(run)));
    is_late = true;
    Thread *other = thread_start(wake_up, RLGetCurrent());
    read_byte(is_there[0]);
    ck_assert(isinf(RLForeignRunPrepare(run)));
    expect_quiet(run);
    write_byte(goes_on[1]);
    thread_join(other);
    expect_ready(run);
    expect_dispatch(run, GoesOn);
    expect_quiet(run);
    end_run(run);
}

static void post_and_wake(void *loop) {
    probe_perform(&function, loop, "mine");
    RLWakeUp(loop);
}

RL_TEST(a_post_begins_a_run, "S-FRN-6 S-WAKE-8",
        "A function posted to an empty mode from another thread is performed") {
    RLForeignRunRef run = RLForeignRunCreate("mine");
    ck_assert(isinf(RLForeignRunPrepare(run)));
    Thread *other = thread_start(post_and_wake, RLGetCurrent());
    expect_ready(run);
    thread_join(other);
    expect_dispatch(run, GoesOn);
    expect_trace("f");
    end_run(run);
}

static void run_nested(Probe *self) {
    ck_assert(!self->data || !RLIsWaiting(self->loop));
    expect_run(kRLDefaultMode, 0, false, TimedOut);
}

RL_TEST(the_host_runs_the_loop_in_the_wait, "S-FRN-8 S-FRN-5 S-WAKE-9 S-NEST-1",
        "A run made by the host's code in the wait is nested, and the wait goes on after it") {
    add_source(&source, "inner");
    RLForeignRunRef run = waiting_run();
    RLRunLoopRef loop = RLGetCurrent();
    RLSourceSignal(source.source);
    source.action = run_nested;
    source.data = &source;
    expect_run("inner", 60, true, HandledSource);
    ck_assert(RLIsWaiting(loop));
    expect_trace("s E BT BS X");
    expect_ready(run);
    expect_dispatch(run, GoesOn);
    expect_quiet(run);
    expect_trace("");
    /* A wake-up that the nested run saw counts for the outer wait, too. */
    source.action = action_wake_up;
    RLSourceSignal(source.source);
    expect_run("inner", 60, true, HandledSource);
    expect_ready(run);
    expect_dispatch(run, GoesOn);
    expect_trace("s AW");
    end_run(run);
}

RL_TEST(a_stop_before_a_nested_run_is_kept, "S-FRN-8 S-STOP-3",
        "A stop in the wait, then a nested run: the nested one is not touched, the foreign one "
        "ends") {
    RLForeignRunRef run = waiting_run();
    add_source(&source, "inner");
    RLSourceSignal(source.source);
    RLStop(RLGetCurrent());
    expect_run("inner", 60, true, HandledSource);
    expect_ready(run);
    expect_dispatch(run, Stopped);
    expect_trace("s AW X");
    end_run(run);
}

static RLForeignRunRef inner_target;

static void wake_now(void *loop) { RLWakeUp(loop); }

/* A callback that runs the host, which serves the mode and sleeps in between. */
static void host_inside(Probe *self) {
    RLForeignRunRef run = inner_target;
    trace("(");
    for (int i = 0; i < 3; i++) { /* it was not prepared: that takes a look, and no pass */
        expect_dispatch(run, GoesOn);
        expect_quiet(run);
        ck_assert_double_gt(RLForeignRunPrepare(run), 1000);
    }
    RLSourceSignal(late.source);
    Thread *other = thread_start(wake_now, self->loop);
    expect_ready(run);
    thread_join(other);
    expect_dispatch(run, GoesOn);
    ck_assert_double_gt(RLForeignRunPrepare(run), 1000);
    expect_quiet(run);
    write_byte(ends[1]);
    expect_ready(run);
    expect_dispatch(run, GoesOn);
    ck_assert_double_gt(RLForeignRunPrepare(run), 1000);
    expect_quiet(run);
    RLTimerSetNextFireDate(timer.timer, date_in(0.02));
    expect_ready(run);
    while (count_of(&timer.calls) == 0) {
        expect_ready(run);
        expect_dispatch(run, GoesOn);
    }
    RLForeignRunPrepare(run);
    expect_quiet(run);
    trace(")");
}
static void fill_for_host(RLMode mode) {
    make_pipe(ends);
    port.action = read_one;
    add_port(&port, ends[0], mode);
    add_source(&late, mode);
    add_timer(&timer, FAR_FUTURE, 1e6, mode);
}

RL_TEST(a_callback_of_the_run_runs_the_host, "S-FRN-9 S-RUN-17",
        "In a callback of the run, the host serves the mode by nested polls, and sleeps in between") {
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    fill_for_host(kRLDefaultMode);
    RLForeignRunRef run = inner_target = RLForeignRunCreate(kRLDefaultMode);
    source.action = host_inside;
    add_source(&source, kRLDefaultMode);
    RLForeignRunPrepare(run);
    RLSourceSignal(source.source);
    RLWakeUp(source.loop);
    expect_dispatch(run, GoesOn);
    RLForeignRunPrepare(run);
    expect_trace("s ( l p t )");
    expect_dispatch(run, GoesOn);
    ck_assert_double_gt(RLForeignRunPrepare(run), 1000);
    expect_quiet(run);
    ck_assert(RLIsWaiting(source.loop));
    end_run(run);
}

RL_TEST(a_callback_of_another_run_runs_the_host, "S-FRN-9 S-FRN-6",
        "In a callback of an ordinary run the host does the same, and the foreign run begins after it") {
    fill_for_host(kRLDefaultMode);
    observe(RLGetCurrent(), "other");
    RLForeignRunRef run = inner_target = RLForeignRunCreate(kRLDefaultMode);
    source.action = host_inside;
    add_source(&source, "other");
    RLSourceSignal(source.source);
    expect_run("other", 60, true, HandledSource);
    expect_trace("E BT BS s ( l p t ) X");
    observe(RLGetCurrent(), kRLDefaultMode);
    expect_ready(run);
    expect_dispatch(run, GoesOn);
    expect_trace("E BT BS BW");
    expect_quiet(run);
    end_run(run);
}

/* Posts come faster than the loop makes passes: its wake word says so, and a wake-up writes nothing. */
static void run_the_host_while_busy(Probe *self) {
    RLForeignRunRef run = inner_target;
    trace("(");
    while (RLForeignRunPrepare(run) == 0) expect_dispatch(run, GoesOn);
    expect_quiet(run);
    Thread *other = thread_start(post_and_wake, self->loop);
    expect_ready(run);
    thread_join(other);
    expect_dispatch(run, GoesOn);
    ck_assert_double_gt(RLForeignRunPrepare(run), 1000);
    expect_quiet(run);
    trace(")");
    RLStop(self->loop);
}
static Probe host = {.action = run_the_host_while_busy};
static void begin_to_be_busy(Probe *self) {
    RLWakeUp(self->loop);
    probe_perform(&host, self->loop, kRLDefaultMode);
}

RL_TEST(a_callback_of_a_busy_loop_runs_the_host, "S-FRN-9 S-WAKE-8",
        "The host sleeps and is told of wake-ups in a callback of a loop that many posts keep awake, too") {
    static Probe first = {.action = begin_to_be_busy}, many;
    RLRunLoopRef loop = RLGetCurrent();
    keep_alive(loop, kRLDefaultMode);
    keep_alive(loop, "mine");
    RLForeignRunRef run = inner_target = RLForeignRunCreate("mine");
    probe_perform(&first, loop, kRLDefaultMode);
    for (int i = 0; i < 1000; i++) probe_perform(&many, loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Stopped);
    expect_trace("( f )");
    end_run(run);
}

RL_TEST(a_loop_has_one_foreign_run, "S-FRN-12",
        "A second foreign run of a loop is refused with EBUSY until the first is invalid") {
    RLForeignRunRef run = RLForeignRunCreate("one");
    ck_assert_ptr_null(RLForeignRunCreate("two"));
    ck_assert_int_eq(errno, EBUSY);
    end_run(run);
    run = RLForeignRunCreate("two");
    ck_assert_ptr_nonnull(run);
    end_run(run);
}

static void change_mode(Probe *self) {
    RLForeignRunInvalidate(inner_target);
    inner_target = RLForeignRunCreate("inner");
    ck_assert_ptr_nonnull(inner_target);
    host_inside(self);
    ck_assert_double_gt(RLForeignRunPrepare(inner_target), 1000);
    expect_quiet(inner_target);
}

RL_TEST(a_callback_changes_the_mode_of_the_host, "S-FRN-12 S-FRN-9 S-FRN-10",
        "In a callback of a run that it makes invalid, the host gets another, which outlives the first and is told of wake-ups") {
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    fill_for_host("inner");
    RLForeignRunRef first = inner_target = RLForeignRunCreate(kRLDefaultMode);
    source.action = change_mode;
    add_source(&source, kRLDefaultMode);
    RLForeignRunPrepare(first);
    RLSourceSignal(source.source);
    RLWakeUp(source.loop);
    expect_dispatch(first, GoesOn);
    RLForeignRunPrepare(first);
    RLRelease(first);
    expect_trace("s ( l p t )");
    expect_ready(inner_target);
    expect_dispatch(inner_target, GoesOn);
    expect_quiet(inner_target);
    ck_assert(RLIsWaiting(source.loop));
    RLWakeUp(source.loop);
    expect_ready(inner_target);
    end_run(inner_target);
}

static void invalidate_inside(Probe *self) {
    (void)self;
    RLForeignRunInvalidate(inner_target);
    ck_assert(!RLForeignRunIsValid(inner_target));
}

RL_TEST(invalidation_closes_the_descriptors, "S-FRN-10",
        "Invalidation calls Exit if a run is under way, closes what was opened, and ends all") {
    RLGetCurrent();
    int before = count_descriptors();
    RLForeignRunRef run = RLForeignRunCreate("mine");
    ck_assert(RLForeignRunIsValid(run));
    end_run(run);
    ck_assert_int_eq(count_descriptors(), before);
    run = waiting_run();
    RLForeignRunInvalidate(run);
    expect_trace("X");
    ck_assert_int_eq(RLForeignRunGetDescriptor(run), -1);
    ck_assert(!RLForeignRunIsValid(run));
    ck_assert(isinf(RLForeignRunPrepare(run)));
    expect_dispatch(run, GoesOn);
    RLForeignRunInvalidate(run);
    expect_trace("");
    RLRelease(run);
    ck_assert_int_eq(count_descriptors(), before);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS X");
}

RL_TEST(invalidation_in_a_callback_comes_after_it, "S-FRN-10",
        "Invalidation inside the run's callbacks takes effect when they have returned") {
    RLGetCurrent();
    int before = count_descriptors();
    RLForeignRunRef run = inner_target = waiting_run();
    timer.action = invalidate_inside;
    add_timer(&timer, 0, 0, kRLDefaultMode);
    expect_dispatch(run, Stopped);
    expect_trace("AW t X");
    RLRelease(run);
    ck_assert_int_eq(count_descriptors(), before);
    /* In prepare's part of a pass. */
    run = inner_target = RLForeignRunCreate(kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    source.action = invalidate_inside;
    RLSourceSignal(source.source);
    ck_assert(isinf(RLForeignRunPrepare(run)));
    expect_trace("E BT BS s X");
    RLRelease(run);
    ck_assert_int_eq(count_descriptors(), before);
}

RL_TEST(invalidation_in_a_nested_run_comes_after_it, "S-FRN-10 S-FRN-8",
        "Invalidation in a run that is nested in the wait takes effect when that run has "
        "returned") {
    RLForeignRunRef run = inner_target = waiting_run();
    add_source(&source, "inner");
    observe_as(RLGetCurrent(), "inner", "n.");
    source.action = invalidate_inside;
    RLSourceSignal(source.source);
    expect_run("inner", 60, true, HandledSource);
    expect_trace("n.E n.BT n.BS s n.X X");
    RLRelease(run);
    ck_assert(!RLIsWaiting(RLGetCurrent()));
}

static void use_elsewhere(void *run) {
    ck_assert(isinf(RLForeignRunPrepare(run)));
    expect_dispatch(run, GoesOn);
    RLForeignRunInvalidate(run);
    ck_assert(RLForeignRunIsValid(run));
}

RL_TEST(other_threads_cannot_use_it, "S-FRN-11",
        "On another thread prepare, dispatch and invalidate do nothing but log one line") {
    log_capture();
    RLForeignRunRef run = observed_run();
    thread_join(thread_start(use_elsewhere, run));
    ck_assert_int_eq(log_count(), 1);
    expect_trace("");
    end_run(run);
}

static RLForeignRunRef left_behind[2];
static void leave_idle(LoopThread *self) {
    (void)self;
    left_behind[1] = RLForeignRunCreate("idle");
    RLForeignRunPrepare(left_behind[1]);
    RLRelease(left_behind[1]);
}
static void leave_waiting(LoopThread *self) {
    (void)self;
    keep_alive(RLGetCurrent(), "mine");
    observe(RLGetCurrent(), "mine");
    left_behind[0] = RLForeignRunCreate("mine");
    RLForeignRunPrepare(left_behind[0]);
    RLRetain(left_behind[0]);
}

RL_TEST(the_end_of_its_thread_ends_it, "S-FRN-11 S-LOOP-16",
        "A run whose thread ends becomes invalid, its descriptors are closed, and Exit is not "
        "called") {
    int before = count_descriptors();
    LoopThread thread;
    loop_thread_start(&thread, leave_idle, NULL);
    thread_join(thread.thread);
    loop_thread_start(&thread, leave_waiting, NULL);
    thread_join(thread.thread);
    ck_assert(!RLForeignRunIsValid(left_behind[0]));
    expect_dispatch(left_behind[0], GoesOn);
    expect_trace("E BT BS BW");
    RLRelease(left_behind[0]);
    RLRelease(left_behind[0]);
    ck_assert_int_eq(count_descriptors(), before);
}

static RLForeignRunRef dropped;
static Gate is_made, may_go;
static void make_and_end(LoopThread *self) {
    (void)self;
    dropped = RLForeignRunCreate("mine");
    gate_open(&is_made);
    gate_wait(&may_go);
}

RL_TEST(dropped_while_its_thread_ends, "S-FRN-11 S-THR-1",
        "Another thread may drop the last reference to a run at the moment at which its thread "
        "ends") {
    int before = count_descriptors();
    for (int i = 0; i < 500; i++) {
        is_made = may_go = (Gate)GATE_INITIALIZER;
        LoopThread thread;
        loop_thread_start(&thread, make_and_end, NULL);
        gate_wait(&is_made);
        gate_open(&may_go);
        /* Sooner or later, so that the two meet. */
        for (int turn = 0; turn < i % 8; turn++) sched_yield();
        RLRelease(dropped);
        thread_join(thread.thread);
    }
    ck_assert_int_eq(count_descriptors(), before);
}

RL_TEST(no_descriptors_no_run, "S-FRN-12 S-ARG-10",
        "Whatever number of descriptors is missing, create returns NULL and leaves none open") {
    RLGetCurrent();
    struct rlimit old, limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    int fillers[64], filled = 0, fd;
    limit = (struct rlimit){48, old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while ((fd = dup(0)) >= 0) fillers[filled++] = fd;
    ck_assert_int_eq(errno, EMFILE);
    RLForeignRunRef run = NULL;
    int failures = 0;
    while (run == NULL) {
        ck_assert_int_gt(filled, 0);
        run = RLForeignRunCreate(kRLDefaultMode);
        if (run == NULL) {
            /* None was left open: exactly those that were closed can be had. */
            int again[8], had = 0;
            while ((fd = dup(0)) >= 0) again[had++] = fd;
            ck_assert_int_eq(had, failures);
            while (had > 0) close(again[--had]);
            failures++;
            close(fillers[--filled]);
        }
    }
    ck_assert_int_ge(failures, 3);
    while (filled > 0) close(fillers[--filled]);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    ck_assert(isinf(RLForeignRunPrepare(run)));
    RLWakeUp(RLGetCurrent());
    expect_ready(run);
    end_run(run);
}

RL_TEST(no_descriptor_for_a_connection, "S-FRN-3 S-FRN-4 S-SOCK-28",
        "A connection for which there was no descriptor is tried again by the host's waits alone") {
    static Socket listening = {.name = "s"};
    struct sockaddr_in address = loopback(0);
    socket_create(&listening, PF_INET, SOCK_STREAM, kRLSocketAcceptCallBack);
    ck_assert_int_eq(RLSocketSetAddress(listening.socket, &address, sizeof address), kRLSocketSuccess);
    socket_add(&listening);
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    ck_assert(isinf(RLForeignRunPrepare(run)));
    connect_to(port_of(RLSocketGetNative(listening.socket)));
    expect_ready(run);
    log_capture();
    struct rlimit old, none;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){1, old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    while (log_count() == 0) {
        RLForeignRunDispatch(run);
        RLForeignRunPrepare(run);
    }
    ck_assert_double_le(RLForeignRunPrepare(run), 0.1);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    while (count_of(&listening.calls) == 0) {
        expect_ready(run);
        RLForeignRunDispatch(run);
        RLForeignRunPrepare(run);
    }
    end_run(run);
}

static RLForeignRunRef forked_run;
static int forked_number;
static void go_on_in_child(void *argument) {
    (void)argument;
    ck_assert(RLForeignRunIsValid(forked_run));
    ck_assert_int_eq(RLForeignRunGetDescriptor(forked_run), forked_number);
    expect_ready(forked_run);
    expect_dispatch(forked_run, GoesOn);
    expect_quiet(forked_run);
    ck_assert(RLIsWaiting(RLGetCurrent()));
    RLWakeUp(RLGetCurrent());
    expect_ready(forked_run);
    expect_dispatch(forked_run, GoesOn);
    ck_assert(isinf(RLForeignRunPrepare(forked_run)));
    add_timer(&timer, date_in(0.02), 0, kRLDefaultMode);
    while (count_of(&timer.calls) == 0) {
        expect_ready(forked_run);
        expect_dispatch(forked_run, GoesOn);
    }
    end_run(forked_run);
    expect_trace("AW BT BS BW AW t X");
}

RL_TEST(a_child_goes_on_with_the_run, "S-FRN-13 S-FORK-1",
        "In the child of fork the run goes on under the same number, and the parent does not "
        "notice") {
    /* A lower number is free by then, so that the child gets this one only if it takes care to. */
    int low = fcntl(0, F_DUPFD_CLOEXEC, 64);
    forked_run = waiting_run();
    close(low);
    forked_number = RLForeignRunGetDescriptor(forked_run);
    ChildResult result = run_child(go_on_in_child, NULL);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
    expect_quiet(forked_run);
    expect_trace("");
    RLWakeUp(RLGetCurrent());
    expect_ready(forked_run);
    expect_dispatch(forked_run, GoesOn);
    expect_trace("AW");
    end_run(forked_run);
}

/* A host that only watches the descriptor serves everything. */

enum { rounds = 2000 };
static int posted;
static void send_many(void *argument) {
    (void)argument;
    for (int i = 0; i < rounds; i++) {
        RLSourceSignal(source.source);
        RLWakeUp(source.loop);
        probe_perform(&function, source.loop, kRLDefaultMode);
        RLWakeUp(source.loop);
        __atomic_add_fetch(&posted, 1, __ATOMIC_SEQ_CST);
        /* The next one only when this one was served: none may wait for another wake-up. */
        wait_until_count(&function.calls, i + 1);
        wait_until_count(&source.calls, i + 1);
    }
    RLStop(source.loop);
}

RL_TEST(a_host_that_watches_the_descriptor_misses_nothing, "S-FRN-2 S-FRN-3 S-WAKE-8",
        "A host with no prepare step that dispatches when the descriptor is readable loses no "
        "signal") {
    source.name = function.name = NULL;
    add_source(&source, kRLDefaultMode);
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    Thread *sender = thread_start(send_many, NULL);
    RLRunResult result;
    int host = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    ck_assert_int_eq(epoll_ctl(host, EPOLL_CTL_ADD, RLForeignRunGetDescriptor(run), &event), 0);
    do {
        int count = epoll_wait(host, &event, 1, -1);
        ck_assert(count == 1 || errno == EINTR);
        result = RLForeignRunDispatch(run);
    } while (result == kRLRunGoesOn);
    ck_assert_int_eq(result, kRLRunStopped);
    thread_join(sender);
    ck_assert_int_eq(source.calls, rounds);
    ck_assert_int_eq(function.calls, rounds);
    close(host);
    end_run(run);
}

RL_TEST(a_host_with_a_prepare_step_misses_nothing, "S-FRN-1 S-FRN-3 S-WAKE-8",
        "A host that prepares, waits and dispatches loses no signal") {
    source.name = function.name = NULL;
    add_source(&source, kRLDefaultMode);
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    Thread *sender = thread_start(send_many, NULL);
    RLRunResult result = kRLRunGoesOn;
    while (result == kRLRunGoesOn) {
        if (RLForeignRunPrepare(run) > 0) expect_ready(run);
        result = RLForeignRunDispatch(run);
    }
    ck_assert_int_eq(result, kRLRunStopped);
    thread_join(sender);
    ck_assert_int_eq(source.calls, rounds);
    end_run(run);
}

/* The client closes the run's number and gives it to a file, or to an epoll set, of its own. */
RL_TEST(a_descriptor_that_was_lost_is_the_client_s, "S-FD-18 S-FRN-10",
        "The end of a run whose number names a file of the client's by now closes nothing") {
    for (int i = 0; i < 2; i++) {
        RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
        ck_assert_ptr_nonnull(run);
        int number = RLForeignRunGetDescriptor(run), host = i ? epoll_create1(EPOLL_CLOEXEC) : open("/dev/null", O_CLOEXEC);
        struct stat before, after;
        ck_assert_int_eq(dup3(host, number, O_CLOEXEC), number);
        ck_assert_int_eq(fstat(number, &before), 0);
        end_run(run);
        ck_assert_int_eq(fstat(number, &after), 0);
        ck_assert_uint_eq(before.st_ino, after.st_ino);
        struct epoll_event event;
        if (i) ck_assert_int_eq(epoll_wait(host, &event, 1, 0), 0);
        close(number);
        close(host);
    }
}

RL_TEST(a_descriptor_that_was_lost_is_made_anew, "S-FD-18 S-FRN-3",
        "Where the number names no set any more, the next look of the run makes a new one, with a line in the log") {
    log_capture();
    add_source(&source, kRLDefaultMode);
    for (int replaced = 0; replaced < 2; replaced++) {
        RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
        int number = RLForeignRunGetDescriptor(run), file = open("/dev/null", O_CLOEXEC);
        if (replaced) ck_assert_int_eq(dup3(file, number, O_CLOEXEC), number);
        else close(number);
        ck_assert(isinf(RLForeignRunPrepare(run)));
        if (replaced) ck_assert_int_ne(RLForeignRunGetDescriptor(run), number);
        expect_quiet(run);
        RLSourceSignal(source.source);
        RLWakeUp(RLGetCurrent());
        expect_ready(run);
        expect_dispatch(run, GoesOn);
        RLForeignRunPrepare(run);
        expect_trace("s");
        add_timer(&timer, date_in(0.001), 0, kRLDefaultMode);
        while (timer.calls == 0) {
            RLForeignRunPrepare(run);
            expect_ready(run);
            RLForeignRunDispatch(run);
        }
        expect_trace("t");
        timer.calls = 0;
        end_run(run);
        if (replaced) close(number);
        close(file);
    }
    ck_assert_int_eq(log_count(), 1);
}

static bool refuses_timers;
int timerfd_create(int clock, int flags) {
    if (refuses_timers) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_timerfd_create, clock, flags);
}
/* The timer of the only run. */
static int find_timer(void) {
    for (int fd = 0; fd < 1024; fd++) {
        char path[64], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target - 1) > 0 && strstr(target, "[timerfd]")) return fd;
    }
    return -1;
}
/* A host that watches the descriptor alone. */
static void expect_timer_by_descriptor(RLForeignRunRef run) {
    timer.calls = 0;
    RLTimerSetNextFireDate(timer.timer, date_in(0.001));
    while (timer.calls == 0) {
        RLForeignRunPrepare(run);
        expect_ready(run);
        RLForeignRunDispatch(run);
    }
}

RL_TEST(a_timer_that_was_lost_is_made_anew, "S-FD-18 S-FRN-4",
        "Where the program has closed the run's timer, or has another file under its number, the next date makes a new one, with a line in the log, and that file is left alone") {
    log_capture();
    add_timer(&timer, FAR_FUTURE, 1e6, kRLDefaultMode);
    for (int replaced = 0; replaced < 2; replaced++) {
        RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
        expect_timer_by_descriptor(run);
        int number = find_timer(), pipe_ends[2];
        ck_assert_int_ge(number, 64);
        make_pipe(pipe_ends);
        if (replaced) ck_assert_int_eq(dup3(pipe_ends[1], number, O_CLOEXEC), number);
        else close(number);
        for (int i = 0; i < 2; i++) expect_timer_by_descriptor(run);
        end_run(run);
        if (replaced) {
            write_byte(number);
            read_byte(pipe_ends[0]);
            close(number);
        }
        close(pipe_ends[0]);
        close(pipe_ends[1]);
    }
    ck_assert_int_eq(log_count(), 1);
}

RL_TEST(a_timer_of_the_program_is_not_set, "S-FD-18 S-FRN-4",
        "Where a timer of the program's has the number of the run's, the next date makes a new one, and the program's is neither set nor closed") {
    struct itimerspec date = {.it_value = {100000, 0}}, left;
    log_capture();
    add_timer(&timer, FAR_FUTURE, 1e6, kRLDefaultMode);
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    expect_timer_by_descriptor(run);
    int number = find_timer(), mine = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    ck_assert_int_eq(timerfd_settime(mine, 0, &date, NULL), 0);
    ck_assert_int_eq(dup3(mine, number, O_CLOEXEC), number);
    for (int i = 0; i < 2; i++) expect_timer_by_descriptor(run);
    end_run(run);
    ck_assert_int_eq(timerfd_gettime(number, &left), 0);
    ck_assert_int_gt(left.it_value.tv_sec, 10000);
    ck_assert_int_eq(log_count(), 1);
    close(number);
    close(mine);
}

static bool refuses_dates;
int timerfd_settime(int fd, int flags, const struct itimerspec *date, struct itimerspec *former) {
    if (refuses_dates) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_timerfd_settime, fd, flags, date, former);
}

RL_TEST(a_timer_that_takes_no_date_is_kept, "S-ARG-11 S-FRN-4",
        "Where the kernel refuses to set the run's timer, prepare says when to come again, and no descriptor is made or lost") {
    log_capture();
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    add_timer(&timer, date_in(0.001), 0.001, kRLDefaultMode);
    RLForeignRunPrepare(run);
    int number = find_timer(), count = count_descriptors();
    refuses_dates = true;
    while (timer.calls < 20) {
        ck_assert_double_le(RLForeignRunPrepare(run), 0.1);
        RLForeignRunDispatch(run);
    }
    refuses_dates = false;
    ck_assert_int_eq(count_descriptors(), count);
    expect_timer_by_descriptor(run);
    ck_assert_int_eq(find_timer(), number);
    ck_assert_int_eq(log_count(), 0);
    end_run(run);
}

static void make_timer_in_child(void *run) {
    add_timer(&timer, date_in(0.001), 1e6, kRLDefaultMode);
    for (int i = 0; i < 3; i++) {
        ck_assert_double_le(RLForeignRunPrepare(run), 0.1);
        ck_assert_int_eq(RLForeignRunGetDescriptor(run), forked_number);
    }
    /* What is no timer makes the descriptor readable. */
    RLWakeUp(RLGetCurrent());
    expect_ready(run);
    RLForeignRunDispatch(run);
    ck_assert_double_le(RLForeignRunPrepare(run), 0.1);
    refuses_timers = false;
    expect_timer_by_descriptor(run);
    end_run(run);
}

RL_TEST(a_child_without_room_for_the_timer, "S-FRN-13 S-FRN-4",
        "A run for whose timer there was no room in the child of fork keeps its descriptor, asks to be prepared in a tenth of a second, and makes the timer once there is room") {
    forked_run = waiting_run();
    forked_number = RLForeignRunGetDescriptor(forked_run);
    refuses_timers = true;
    ChildResult result = run_child(make_timer_in_child, forked_run);
    refuses_timers = false;
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
    end_run(forked_run);
}

/* Until the host would wait, which is soon. */
static void serve_all(RLForeignRunRef run) {
    for (int passes = 0; is_readable(run, 0); passes++) {
        ck_assert_int_lt(passes, 10);
        expect_dispatch(run, GoesOn);
        RLForeignRunPrepare(run);
    }
}

RL_TEST(an_automatic_clock, "S-CLK-9 S-FRN-3",
        "With an automatic clock the host waits until there is something to do, and moves no time") {
    RLClockRef clock = RLClockCreateManual();
    ck_assert(RLSetClock(RLGetCurrent(), clock));
    RLClockSetAutomatic(clock, true);
    RLAbsoluteTime begin = RLClockGetTime(clock);
    RLForeignRunRef run = waiting_run();
    add_timer(&timer, begin + 60, 0, kRLDefaultMode);
    expect_ready(run);
    serve_all(run);
    ck_assert(RLClockGetTime(clock) == begin);
    RLClockAdvance(clock, 60);
    expect_ready(run);
    serve_all(run);
    ck_assert_int_eq(count_of(&timer.calls), 1);
    end_run(run);
    RLRelease(clock);
}

/* What is freed meanwhile looks like nothing that it was. The sanitizers have a free of their own. */
static _Atomic bool scribbles;
#if !defined(WITH_ADDRESS_SANITIZER) && !defined(WITH_THREAD_SANITIZER)
void __libc_free(void *memory);
void free(void *memory) {
    if (scribbles && memory) memset(memory, 0x5a, malloc_usable_size(memory));
    __libc_free(memory);
}
#endif

static RLForeignRunRef given_back;
static void give_back(Probe *self) {
    (void)self;
    end_run(given_back);
}

RL_TEST(given_back_in_a_run_of_the_host, "S-FRN-8 S-FRN-10",
        "A callback of a run that the host makes during the wait ends the foreign run and gives back the last reference") {
    RLForeignRunRef run = given_back = waiting_run();
    timer.action = give_back;
    add_timer(&timer, date_in(-1), 0, "inner");
    scribbles = true;
    expect_run("inner", 1, false, Finished);
    scribbles = false;
    expect_trace("t X");
    run = RLForeignRunCreate(kRLDefaultMode);
    ck_assert_ptr_nonnull(run);
    end_run(run);
}

/* A callback ends its thread: in a prepare, in a dispatch, in one within a callback, in the Exit of an invalidation, and after the
 * run was ended within a callback. */
enum { IN_PREPARE, IN_DISPATCH, IN_NESTED_DISPATCH, IN_INVALIDATE, AFTER_INVALIDATE, WAYS };
static RLForeignRunRef left;
static int way, released;
static void count_release(void *unused) { (void)unused, released++; }
static void end_thread(Probe *self) {
    (void)self;
    if (way == AFTER_INVALIDATE) RLForeignRunInvalidate(left);
    pthread_exit(NULL);
}
static void dispatch_left(Probe *self) {
    (void)self;
    RLForeignRunDispatch(left);
}
static void leave_by_callback(void *unused) {
    (void)unused;
    static Probe ending[WAYS], outer[WAYS];
    ending[way].action = end_thread;
    outer[way].action = dispatch_left;
    left = RLForeignRunCreate(kRLDefaultMode);
    RLPerformFunction(RLGetCurrent(), "never", nothing, NULL, count_release);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    if (way == IN_PREPARE || way == IN_INVALIDATE) add_observer(&ending[way], way == IN_PREPARE ? kRLBeforeWaiting : kRLExit, kRLDefaultMode);
    else add_timer(&ending[way], date_in(-1), 0, kRLDefaultMode);
    if (way == IN_NESTED_DISPATCH || way == AFTER_INVALIDATE) {
        add_timer(&outer[way], date_in(-1), 0, "outer");
        RLRunInMode("outer", 1, false);
    }
    RLForeignRunPrepare(left);
    if (way == IN_INVALIDATE) RLForeignRunInvalidate(left);
    while (RLForeignRunDispatch(left) == kRLRunGoesOn) {}
}

RL_TEST(its_thread_ends_in_a_callback, "S-FRN-11 S-LOOP-10 S-LOOP-19",
        "A callback of a foreign run ends its thread: the run is the client's alone, and with it the loop is gone") {
    for (way = 0; way < WAYS; way++) {
        released = 0;
        thread_join(thread_start(leave_by_callback, NULL));
        ck_assert(!RLForeignRunIsValid(left));
        ck_assert_int_eq(RLGetRetainCount(left), 1);
        RLRelease(left);
        ck_assert_int_eq(released, 1);
    }
}

static void make_run_at_the_end(void *is_prepared, RLRunLoopRef loop, RLMode mode) {
    (void)loop, (void)mode;
    left = RLForeignRunCreate(kRLDefaultMode);
    if (is_prepared) RLForeignRunPrepare(left);
}
static void end_with_a_cancel(void *is_prepared) {
    RLSourceContext context = {.info = is_prepared, .cancel = make_run_at_the_end, .perform = nothing};
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    RLPerformFunction(RLGetCurrent(), "another", nothing, NULL, count_release);
}

RL_TEST(made_in_a_cancel, "S-FRN-11 S-LOOP-10 S-LOOP-16", "A foreign run that a cancel at the end of the thread has made, and begun, ends with the thread: its loop is gone") {
    const int before = count_descriptors();
    for (intptr_t is_prepared = 0; is_prepared < 2; is_prepared++) {
        released = 0;
        thread_join(thread_start(end_with_a_cancel, (void *)is_prepared));
        ck_assert(!RLForeignRunIsValid(left));
        ck_assert_int_eq(RLForeignRunGetDescriptor(left), -1);
        RLRelease(left);
        ck_assert_int_eq(released, 1);
    }
    ck_assert_int_eq(count_descriptors(), before);
}

/* A thread moves the clock while the loop of another is in a foreign run, which ends with that thread. */
static RLClockRef moved_clock;
static Gate begun, moving, returned; /* Made anew for each round. */
static void wait_for_the_move(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)info, (void)loop, (void)mode;
    gate_wait(&returned);
}
static void begin_run(RLThreadRef thread, void *info) {
    (void)thread, (void)info;
    left = RLForeignRunCreate(kRLDefaultMode);
    RLForeignRunPrepare(left);
    gate_open(&begun);
    gate_wait(&moving);
    /* The move waits by now, or will find the loop at its end. */
    for (int i = 0; i < 20; i++) sched_yield();
}
static void leave_by_pthread_exit(RLThreadRef thread, void *unused) {
    (void)thread, (void)unused;
    RLSetClock(RLGetCurrent(), moved_clock);
    RLSourceContext context = {.cancel = wait_for_the_move, .perform = nothing};
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    add_timer(&timer, date_in(5), 0, kRLDefaultMode);
    RLThreadAddExitCallBack(thread, begin_run, NULL);
    pthread_exit(NULL);
}

RL_TEST(a_move_of_the_clock_meets_its_end, "S-CLK-7 S-FRN-11",
        "A thread that moves the clock does not wait any longer for a loop whose foreign run ends with its thread, before the sources leave it") {
    for (int i = 0; i < 20; i++) {
        moved_clock = RLClockCreateManual();
        begun = moving = returned = (Gate)GATE_INITIALIZER;
        RLThreadRef thread = RLThreadCreate(leave_by_pthread_exit, NULL, NULL);
        RLThreadStart(thread);
        gate_wait(&begun);
        gate_open(&moving);
        RLClockAdvance(moved_clock, 10);
        gate_open(&returned);
        RLThreadJoin(thread);
        RLRelease(thread);
        RLRelease(left);
        RLRelease(moved_clock);
    }
}

/* A loss, which the next prepare logs. */
static RLForeignRunRef logging_run;
static enum { DISPATCHES, RUNS, INVALIDATES, LOG_WAYS } log_way;
static int logged;
static void use_run_in_log(const char *line, void *info) {
    (void)line, (void)info;
    logged++;
    if (log_way == DISPATCHES) {
        RLForeignRunPrepare(logging_run);
        RLForeignRunDispatch(logging_run);
    } else if (log_way == RUNS) {
        RLRunInMode(kRLDefaultMode, 0, false);
    } else {
        RLForeignRunInvalidate(logging_run);
    }
}
static void log_in_prepare(void *is_under_way) {
    if (is_under_way) keep_alive(RLGetCurrent(), kRLDefaultMode);
    logging_run = RLForeignRunCreate(kRLDefaultMode);
    RLForeignRunPrepare(logging_run);
    close(RLForeignRunGetDescriptor(logging_run));
    RLWakeUp(RLGetCurrent());
    RLSetLogHandler(use_run_in_log, NULL);
    for (int i = 0; i < 3; i++) {
        RLForeignRunPrepare(logging_run);
        RLForeignRunDispatch(logging_run);
    }
    ck_assert_int_eq(logged, 1);
    ck_assert_int_eq(RLForeignRunIsValid(logging_run), log_way != INVALIDATES);
    ck_assert_int_eq(RLIsWaiting(RLGetCurrent()), is_under_way && log_way != INVALIDATES);
    RLForeignRunInvalidate(logging_run);
    ck_assert(!RLIsWaiting(RLGetCurrent()));
    ck_assert_int_eq(RLGetRetainCount(logging_run), 1);
    RLRelease(logging_run);
}
RL_TEST(a_log_handler_in_a_prepare, "S-FRN-1 S-FRN-9 S-FRN-10",
        "The log handler that a prepare calls may serve the run, run the loop or invalidate the run, whether or not a run is under way") {
    for (log_way = 0; log_way < LOG_WAYS; log_way++) {
        for (long is_under_way = 0; is_under_way < 2; is_under_way++) {
            ChildResult result = run_child(log_in_prepare, (void *)is_under_way);
            ck_assert_msg(result.status == 0, "way %d, %ld: %#x: %s", log_way, is_under_way, result.status, result.output);
        }
    }
}

RL_TEST(arguments, "S-FRN-6 S-ARG-1",
        "NULL does nothing, and NULL and the pseudo-mode are no modes") {
    log_capture();
    ck_assert_ptr_null(RLForeignRunCreate(NULL));
    ck_assert_ptr_null(RLForeignRunCreate(kRLCommonModes));
    ck_assert_int_eq(RLForeignRunGetDescriptor(NULL), -1);
    ck_assert(isinf(RLForeignRunPrepare(NULL)));
    expect_dispatch(NULL, GoesOn);
    RLForeignRunInvalidate(NULL);
    ck_assert(!RLForeignRunIsValid(NULL));
    RLForeignRunRef run = RLForeignRunCreate("");
    ck_assert_uint_eq(RLGetTypeIDOf(run), RLForeignRunGetTypeID());
    ck_assert(RLEqual(run, run));
    char *text = RLCopyDescription(run);
    ck_assert_ptr_nonnull(strstr(text, "RLForeignRun"));
    free(text);
    end_run(run);
}
