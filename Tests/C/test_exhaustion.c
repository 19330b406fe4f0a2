/* SPDX-License-Identifier: MIT */
/*
 * No descriptor to be had (S-ARG-10): by the limit of the process, and by refusing the calls with
 * which the library makes descriptors. The probes are static, because what is left in a loop
 * outlives the case that put it there.
 */
#define _GNU_SOURCE
#include "support_descriptor.h"
#include "system_calls.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The replaced calls: an errno other than 0 refuses them, and refusals are counted. */

static int epoll_refusal, eventfd_refusal, refusals, sets_made;

static bool refuses(const int *refusal) {
    int error = __atomic_load_n(refusal, __ATOMIC_SEQ_CST);
    if (error == 0) return false;
    __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST);
    errno = error;
    return true;
}

int epoll_create1(int flags) {
    if (refuses(&epoll_refusal)) return -1;
    sets_made++;
    return (int)syscall(SYS_epoll_create1, flags);
}

int eventfd(unsigned int value, int flags) {
    return refuses(&eventfd_refusal) ? -1 : (int)syscall(SYS_eventfd2, value, flags);
}

static void set_refusals(int epoll, int event) {
    __atomic_store_n(&epoll_refusal, epoll, __ATOMIC_SEQ_CST);
    __atomic_store_n(&eventfd_refusal, event, __ATOMIC_SEQ_CST);
}
static void allow_all(void) { set_refusals(0, 0); }

/* The limit of the process: no number above the highest one in use, and none below is free. */

static struct rlimit old_limit;
static int fillers[1024], filler_count;

static void exhaust_descriptors(void) {
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
    struct rlimit limit = {64, old_limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int fd;
    while ((fd = dup(0)) >= 0) fillers[filler_count++] = fd;
    ck_assert_int_eq(errno, EMFILE);
}
static void give_descriptors_back(void) {
    while (filler_count > 0) close(fillers[--filler_count]);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
}

/* Without a port source */

static Probe source = {.name = "s"}, timer = {.name = "t"}, function = {.name = "f"};
static Probe port = {.name = "p"};
static int ends[2];
static void read_one(Probe *self) { read_byte(self->fd); }
static void signal_and_wake(void *argument) {
    (void)argument;
    RLSourceSignal(source.source);
    RLWakeUp(source.loop);
}
static void stop(void *loop) { RLStop(loop); }
static void wake(void *loop) { RLWakeUp(loop); }

static void check_everything_else(RLMode mode) {
    RLRunLoopRef loop = RLGetCurrent();
    double start = monotonic_now();
    source = (Probe){.name = "s"};
    timer = (Probe){.name = "t"};
    function = (Probe){.name = "f"};
    add_source(&source, mode);
    RLSourceSignal(source.source);
    expect_run(mode, 60, true, HandledSource);
    add_timer(&timer, date_in(0.02), 0, mode);
    probe_perform(&function, loop, mode);
    expect_run(mode, 0.1, false, TimedOut);
    ck_assert_double_ge(monotonic_now() - start, 0.1 - 1e-6);
    expect_trace("s f t");
    Thread *thread = when_waiting(loop, signal_and_wake, NULL);
    expect_run(mode, 1e6, true, HandledSource);
    thread_join(thread);
    expect_trace("s");
    thread = when_waiting(loop, stop, loop);
    expect_run(mode, 1e6, false, Stopped);
    thread_join(thread);
    RLObserverRef observer = observe(loop, mode);
    thread = when_waiting(loop, wake, loop);
    expect_run(mode, 1, false, TimedOut);
    thread_join(thread);
    expect_trace("E BT BS BW AW BT BS BW AW X");
    RLObserverInvalidate(observer);
    RLSourceInvalidate(source.source);
}

RL_TEST(without_descriptors_all_but_ports_works, "S-ARG-10",
        "At the limit of descriptors sources, timers, functions, wake-up, stop and deadlines "
        "work") {
    exhaust_descriptors();
    check_everything_else(kRLDefaultMode);
    give_descriptors_back();
}
RL_TEST(without_epoll_all_but_ports_works, "S-ARG-10",
        "When epoll_create1 is refused everything but ports works") {
    set_refusals(EMFILE, 0);
    check_everything_else(kRLDefaultMode);
}
RL_TEST(without_eventfd_all_but_ports_works, "S-ARG-10",
        "When eventfd is refused everything but ports works") {
    set_refusals(0, EMFILE);
    check_everything_else(kRLDefaultMode);
}

static void use_loop(void *argument) {
    (void)argument;
    add_timer(&timer, date_in(0.01), 0, kRLDefaultMode);
    RLSourceSignal(add_source(&source, kRLDefaultMode));
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0.05, true, TimedOut);
    ck_assert_int_eq(source.calls, 1);
    ck_assert_int_eq(timer.calls, 1);
}

RL_TEST(a_new_thread_needs_no_descriptor, "S-ARG-10",
        "A loop made when there is no descriptor works, and ends with its thread") {
    exhaust_descriptors();
    thread_join(thread_start(use_loop, NULL));
    ck_assert_int_eq(source.cancels, 1);
    give_descriptors_back();
}

/* With a port source */

static void make_ready_port(void) {
    make_pipe(ends);
    write_byte(ends[1]);
    port = (Probe){.name = "p", .action = read_one};
    probe_port(&port, ends[0]);
}

static void check_unserved_port(void) {
    RLRunLoopRef loop = RLGetCurrent();
    log_capture();
    RLAddSource(loop, port.source, kRLDefaultMode);
    ck_assert(RLContainsSource(loop, port.source, kRLDefaultMode));
    RLObserverRef observer = observe(loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.35, true, TimedOut);
    /* Trying again is no pass, and says nothing more. */
    expect_trace("E BT BS BW AW X");
    ck_assert_int_eq(log_count(), 1);
    RLObserverInvalidate(observer);
    check_everything_else(kRLDefaultMode);
    ck_assert_int_eq(port.calls, 0);
    ck_assert_int_eq(log_count(), 1);
}

static void check_served_port(void) {
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    expect_trace("p");
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    expect_trace("p");
    RLSourceInvalidate(port.source);
    RLRelease(port.source);
}

RL_TEST(a_limit_of_none_keeps_no_port_from_being_served, "S-ARG-10",
        "Under a limit of no descriptors at all the kernel refuses to look at one; a port source is served nevertheless where "
        "an observer is called between its event and its turn") {
    RLRunLoopRef loop = RLGetCurrent();
    make_ready_port();
    RLAddSource(loop, port.source, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    expect_trace("p");
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
    struct rlimit none = {0, old_limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    RLObserverRef observer = observe(loop, kRLDefaultMode);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 1, true, HandledSource);
    expect_trace("E BT BS BW AW p X");
    expect_run(kRLDefaultMode, 0.05, true, TimedOut);
    expect_trace("E BT BS BW AW X");
    RLObserverInvalidate(observer);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
    RLSourceInvalidate(port.source);
    RLRelease(port.source);
}

RL_TEST(a_port_is_served_once_there_are_descriptors, "S-ARG-10",
        "At the limit a port source is added with one log line, the loop goes on, and the port is "
        "served when descriptors can be had again") {
    make_ready_port();
    exhaust_descriptors();
    check_unserved_port();
    give_descriptors_back();
    check_served_port();
}
RL_TEST(a_port_is_served_once_there_is_an_epoll, "S-ARG-10",
        "A port source whose epoll_create1 was refused with EMFILE is served later") {
    make_ready_port();
    set_refusals(EMFILE, 0);
    check_unserved_port();
    allow_all();
    check_served_port();
}
RL_TEST(a_port_is_served_once_the_system_has_files, "S-ARG-10",
        "A port source whose epoll_create1 was refused with ENFILE is served later") {
    make_ready_port();
    set_refusals(ENFILE, 0);
    check_unserved_port();
    allow_all();
    check_served_port();
}
RL_TEST(a_port_is_served_once_there_is_an_eventfd, "S-ARG-10",
        "A port source is served later if eventfd was refused when it was added") {
    make_ready_port();
    set_refusals(0, EMFILE);
    check_unserved_port();
    allow_all();
    check_served_port();
}

static void allow_silently(void *argument) {
    int before = count_of(&refusals);
    (void)argument;
    /* At least one more attempt in the same wait is refused; then one is not. */
    while (count_of(&refusals) == before) sched_yield();
    allow_all();
}

RL_TEST(a_waiting_loop_tries_again, "S-ARG-10",
        "A loop that waits finds out by itself that descriptors can be had again") {
    make_ready_port();
    set_refusals(EMFILE, EMFILE);
    log_capture();
    RLAddSource(RLGetCurrent(), port.source, kRLDefaultMode);
    Thread *thread = when_waiting(RLGetCurrent(), allow_silently, NULL);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    thread_join(thread);
    expect_trace("p");
    RLRelease(port.source);
}

RL_TEST(time_waits_for_a_loop_that_cannot_look, "S-CLK-9 S-ARG-10",
        "An automatic clock stands still while a loop has no descriptor to look at its ports with, one of which is ready") {
    RLClockRef clock = RLClockCreateManual();
    ck_assert(RLSetClock(RLGetCurrent(), clock));
    RLClockSetAutomatic(clock, true);
    make_ready_port();
    set_refusals(EMFILE, EMFILE);
    log_capture();
    RLAddSource(RLGetCurrent(), port.source, kRLDefaultMode);
    double begin = RLClockGetTime(clock);
    add_timer(&timer, begin + 50, 50, kRLDefaultMode);
    Thread *thread = when_waiting(RLGetCurrent(), allow_silently, NULL);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    thread_join(thread);
    expect_trace("p");
    ck_assert(RLClockGetTime(clock) == begin);
    expect_run(kRLDefaultMode, 60, false, TimedOut);
    expect_trace("t");
    RLTimerInvalidate(timer.timer);
    RLRelease(port.source);
    RLRelease(clock);
}

RL_TEST(nothing_spins, "S-ARG-10",
        "While descriptors are refused the loop tries again a few times a second, not all the "
        "time") {
    make_ready_port();
    set_refusals(EMFILE, EMFILE);
    log_capture();
    RLAddSource(RLGetCurrent(), port.source, kRLDefaultMode);
    int before = count_of(&refusals);
    expect_run(kRLDefaultMode, 1, true, TimedOut);
    ck_assert_int_gt(count_of(&refusals) - before, 1);
    ck_assert_int_lt(count_of(&refusals) - before, 100);
    RLRelease(port.source);
}

RL_TEST(an_unserved_port_may_be_removed, "S-ARG-10",
        "Removing or invalidating a port source that never had a descriptor leaves nothing "
        "behind") {
    make_ready_port();
    set_refusals(EMFILE, EMFILE);
    log_capture();
    RLAddSource(RLGetCurrent(), port.source, kRLDefaultMode);
    RLRemoveSource(RLGetCurrent(), port.source, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, true, Finished);
    RLAddSource(RLGetCurrent(), port.source, kRLDefaultMode);
    RLSourceInvalidate(port.source);
    expect_run(kRLDefaultMode, 60, true, Finished);
    allow_all();
    expect_run(kRLDefaultMode, 60, true, Finished);
    expect_trace("");
    RLRelease(port.source);
}

RL_TEST(a_mode_that_has_its_descriptors_goes_on, "S-ARG-10",
        "Exhaustion does not disturb a mode whose ports were registered before") {
    static Probe early = {.name = "early", .action = read_one};
    int early_ends[2];
    make_pipe(early_ends);
    add_port(&early, early_ends[0], "early");
    expect_run("early", 0.01, true, TimedOut);
    make_ready_port();
    set_refusals(EMFILE, EMFILE);
    log_capture();
    RLAddSource(RLGetCurrent(), port.source, kRLDefaultMode);
    write_byte(early_ends[1]);
    expect_run("early", 60, true, HandledSource);
    expect_trace("early");
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
    allow_all();
    check_served_port();
}

RL_TEST(low_limits_leave_room, "S-ARG-10",
        "Where the limit allows only small numbers the library's descriptors are small ones") {
    struct rlimit limit = {40, 40};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    make_ready_port();
    RLAddSource(RLGetCurrent(), port.source, kRLDefaultMode);
    check_served_port();
    check_everything_else(kRLDefaultMode);
}

/* With a set that has to be made anew */

static Descriptor descriptor = {.name = "d"};
static int descriptor_ends[2], waits;

/* A port and a descriptor object in a set, when no other set can be had. */
static void register_both(void) {
    make_ready_port();
    make_pipe(descriptor_ends);
    add_descriptor(&descriptor, descriptor_ends[0], kRLFileDescriptorReadCallBack);
    RLAddSource(RLGetCurrent(), port.source, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p");
    log_capture();
    set_refusals(EMFILE, EMFILE);
}

static bool is_wait(long number) { return number == SYS_epoll_pwait || number == SYS_epoll_pwait2; }

static void invalidate_descriptor(void *unused) {
    (void)unused;
    RLFileDescriptorInvalidate(descriptor.file);
}

/* Between the kernel's first answer and what the loop makes of it. */
static bool invalidate_after_wait(long number, const long argument[6], long *result) {
    if (!is_wait(number)) return false;
    *result = system_call(number, argument);
    if (*result <= 0) return true;
    hook_system_calls(NULL);
    thread_join(thread_start(invalidate_descriptor, NULL));
    return true;
}

RL_TEST(another_thread_invalidates_what_is_ready, "S-ARG-10",
        "An object that another thread invalidates when the kernel has just reported it costs the mode neither its set nor a new one") {
    register_both();
    write_byte(descriptor_ends[1]);
    hook_system_calls(invalidate_after_wait);
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
    ck_assert(!RLFileDescriptorIsValid(descriptor.file));
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p");
    ck_assert_int_eq(refusals, 0);
    ck_assert_int_eq(log_count(), 0);
    allow_all();
    RLSourceInvalidate(port.source);
    RLRelease(port.source);
}

static bool count_waits(long number, const long argument[6], long *result) {
    (void)argument, (void)result;
    if (is_wait(number)) waits++;
    return false;
}

RL_TEST(a_closed_file_at_the_limit, "S-ARG-10 S-FD-15",
        "A file that was closed but is open elsewhere and ready, when no other set can be had: the loop keeps its set and serves it, does not "
        "spin, and makes another set once it can") {
    register_both();
    ck_assert_int_ge(dup(descriptor_ends[0]), 0);
    close(descriptor_ends[0]);
    write_byte(descriptor_ends[1]);
    hook_system_calls(count_waits);
    expect_run(kRLDefaultMode, 1, true, TimedOut);
    ck_assert_int_lt(waits, 100);
    ck_assert_int_gt(refusals, 1);
    ck_assert_int_lt(refusals, 100);
    for (int i = 0; i < 3; i++) {
        write_byte(ends[1]);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("p");
    }
    ck_assert_int_eq(log_count(), 1);
    int before = sets_made;
    allow_all();
    for (int i = 0; i < 600 && sets_made == before; i++) expect_run(kRLDefaultMode, 0.1, true, TimedOut);
    waits = 0;
    expect_run(kRLDefaultMode, 0.05, true, TimedOut);
    ck_assert_int_le(waits, 8);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p");
    ck_assert_int_eq(sets_made, before + 1);
    hook_system_calls(NULL);
    RLSourceInvalidate(port.source);
    RLRelease(port.source);
}
