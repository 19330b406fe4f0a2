/* SPDX-License-Identifier: MIT */
/*
 * Timers that go by the wall clock or the boot clock of the system. This program defines clock_gettime itself, so that these clocks, as
 * everybody in the process sees them, can be set, and stands between the library and the kernel, so that it can report that they were:
 * by the wait for the library's timerfd and the read from it.
 */
#define _GNU_SOURCE
#include "support.h"
#include "system_calls.h"
#include "thread_starts.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* In nanoseconds; atomic. */
static int64_t wall_shift, boot_shift;
static int readings; /* of the wall clock and the boot clock */

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (!is_wall && clock != CLOCK_BOOTTIME) return result;
    __atomic_add_fetch(&readings, 1, __ATOMIC_SEQ_CST);
    int64_t time = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + __atomic_load_n(is_wall ? &wall_shift : &boot_shift, __ATOMIC_SEQ_CST);
    now->tv_sec = time / 1000000000;
    now->tv_nsec = time % 1000000000;
    return result;
}

/* The library's timerfd: the one with an interval that begins in two hundred years. */
static bool is_clock_watch(int descriptor) {
    struct itimerspec setting;
    return timerfd_gettime(descriptor, &setting) == 0 && setting.it_interval.tv_sec > 1000000 && setting.it_value.tv_sec > 1000000;
}

static int listener = -1;            /* its number, once the library waits for it */
static int watches, cancels, naps;   /* waits begun, changes reported, seconds slept for want of a descriptor */
static int reported = -1;            /* an eventfd that counts the changes to be reported */
static bool refuses_descriptors, naps_are_short;

static bool report_changes(long number, const long argument[6], long *result) {
    if (number == SYS_ppoll && argument[1] == 1 && argument[2] == 0) {
        struct pollfd *asked = (struct pollfd *)argument[0];
        if (!is_clock_watch(asked->fd)) return false;
        __atomic_store_n(&listener, asked->fd, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&watches, 1, __ATOMIC_SEQ_CST);
        struct pollfd both[2] = {*asked, {.fd = reported, .events = POLLIN}};
        const long other[6] = {(long)both, 2};
        *result = system_call(SYS_ppoll, other);
        if (*result > 0) *result = 1, asked->revents = POLLIN;
        return true;
    }
    if (number == SYS_read && argument[0] == __atomic_load_n(&listener, __ATOMIC_SEQ_CST)) {
        uint64_t count;
        if (read(reported, &count, sizeof count) != sizeof count) return false;
        __atomic_add_fetch(&cancels, 1, __ATOMIC_SEQ_CST);
        errno = ECANCELED;
        *result = -1;
        return true;
    }
    if (number != SYS_clock_nanosleep || ((const struct timespec *)argument[2])->tv_sec != 1) return false;
    __atomic_add_fetch(&naps, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&naps_are_short, __ATOMIC_SEQ_CST)) return false;
    const struct timespec moment = {0, 1000000};
    const long other[6] = {argument[0], argument[1], (long)&moment};
    *result = system_call(SYS_clock_nanosleep, other);
    return true;
}

int timerfd_create(int clock, int flags) {
    if (__atomic_load_n(&refuses_descriptors, __ATOMIC_SEQ_CST)) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_timerfd_create, clock, flags);
}

static void listen_for_changes(void) {
    reported = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    hook_system_calls(report_changes);
}

/* Sets both clocks forward or back, and has the kernel report it. */
static void set_clocks(double seconds) {
    __atomic_add_fetch(&boot_shift, (int64_t)(seconds * 1e9), __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&wall_shift, (int64_t)(seconds * 1e9), __ATOMIC_SEQ_CST);
    eventfd_signal(reported);
}

static void call_probe(RLTimerRef timer, void *info) {
    Probe *probe = info;
    (void)timer;
    __atomic_add_fetch(&probe->calls, 1, __ATOMIC_SEQ_CST);
    if (probe->action) probe->action(probe);
}

static RLTimerRef make_by(RLTimerClock clock, Probe *probe, RLAbsoluteTime date) {
    RLTimerContext context = {0, probe, NULL, NULL, NULL};
    probe->loop = RLGetCurrent();
    return probe->timer = RLTimerCreateWithClock(clock, date, 0, call_probe, &context);
}

static void add_by(RLTimerClock clock, Probe *probe, RLAbsoluteTime date, RLMode mode) {
    RLTimerRef timer = make_by(clock, probe, date);
    RLAddTimer(RLGetCurrent(), timer, mode);
    RLRelease(timer);
}

static void set_hour_forward(void *argument) {
    (void)argument;
    set_clocks(3601);
}

static const RLTimerClock clocks[] = {kRLTimerClockBoot, kRLTimerClockWall};

RL_TEST(a_sleeping_loop_hears_of_it, "S-TMR-59 S-TMR-60 S-TMR-62 S-TMR-64",
        "A loop that sleeps with or without descriptors fires a timer that became due by a set clock or a suspension") {
    listen_for_changes();
    int ends[2];
    make_pipe(ends);
    static Probe probe = {.action = action_stop}, port;
    for (int i = 0; i < 4; i++) {
        if (i == 2) add_port(&port, ends[0], kRLDefaultMode);
        add_by(clocks[i % 2], &probe, date_in(3600), kRLDefaultMode);
        Thread *thread = when_waiting(RLGetCurrent(), set_hour_forward, NULL);
        expect_run(kRLDefaultMode, 1e9, false, Stopped);
        thread_join(thread);
        ck_assert_int_eq(probe.calls, i + 1);
    }
}

static void run_nested(Probe *self) { expect_run(self->mode, 1e9, false, Stopped); }

RL_TEST(a_nested_run_hears_of_it, "S-TMR-62", "So does a loop that sleeps in another mode, in a run nested in a callback") {
    listen_for_changes();
    static Probe outer = {.mode = "inner", .action = run_nested}, probe = {.action = action_stop};
    add_by(kRLTimerClockWall, &probe, date_in(3600), "inner");
    add_timer(&outer, date_in(0), 0, kRLDefaultMode);
    Thread *thread = when_waiting(RLGetCurrent(), set_hour_forward, NULL);
    expect_run(kRLDefaultMode, 1e9, false, Finished);
    thread_join(thread);
    ck_assert_int_eq(probe.calls, 1);
}

static RLAbsoluteTime date;
static void check_date(Probe *self) {
    ck_assert(RLAbsoluteTimeGetCurrent() >= date);
    action_stop(self);
}

RL_TEST(never_early, "S-TMR-59", "Set back while the loop sleeps, and before anybody tells it, the clock keeps a timer from firing before its date") {
    static Probe probe = {.action = check_date};
    for (int i = 0; i < 20; i++) {
        date = date_in(0.01);
        add_by(kRLTimerClockWall, &probe, date, kRLDefaultMode);
        /* Nothing reports it. */
        __atomic_sub_fetch(&wall_shift, 30000000, __ATOMIC_SEQ_CST);
        expect_run(kRLDefaultMode, 1e9, false, Stopped);
    }
    ck_assert_int_eq(probe.calls, 20);
}

enum { many = 500 };
static Probe of_one_date[many];
static int next_one;
static void check_place(Probe *self) {
    check_date(self);
    ck_assert_ptr_eq(self, &of_one_date[next_one++]);
}

RL_TEST(timers_with_one_date_fire_in_order, "S-TMR-21 S-TMR-61", "Timers with one date by one clock fire in the order in which they were put in the mode") {
    for (int i = 0; i < 4; i++) {
        date = date_in(0.05);
        next_one = 0;
        /* The second time after a suspension, or a step of the clock, that nothing reports. */
        if (i == 2) __atomic_add_fetch(&boot_shift, 7777777, __ATOMIC_SEQ_CST);
        for (int k = 0; k < many; k++) {
            of_one_date[k].action = check_place;
            add_by(clocks[i % 2], &of_one_date[k], date, kRLDefaultMode);
        }
        while (next_one < many) expect_run(kRLDefaultMode, 1e9, false, Stopped);
    }
}

static RLMode loop_mode = "others";
static void run_others(LoopThread *self) {
    Probe *probe = self->data;
    probe->action = action_stop;
    add_by(kRLTimerClockWall, probe, date_in(3600), loop_mode);
    expect_run(loop_mode, 1e9, false, Stopped);
}

RL_TEST(all_loops_hear_of_it, "S-TMR-62 S-TMR-64", "One report reaches the loops of all threads") {
    listen_for_changes();
    static Probe probes[4];
    LoopThread loops[4];
    for (int i = 0; i < 4; i++) loop_thread_start(&loops[i], run_others, &probes[i]);
    for (int i = 0; i < 4; i++) wait_until_waiting(loops[i].loop);
    set_clocks(3601);
    for (int i = 0; i < 4; i++) thread_join(loops[i].thread);
    ck_assert_int_eq(count_of(&cancels), 1);
}

RL_TEST(others_do_not_hear_of_it, "S-TMR-10 S-TMR-58", "Timers by the monotonic clock keep their instants, and their loop sleeps on") {
    listen_for_changes();
    static Probe wall, plain;
    add_by(kRLTimerClockWall, &wall, FAR_FUTURE, "other");
    RLTimerRef timer = make_by(kRLTimerClockMonotonic, &plain, date_in(0.05));
    double begin = monotonic_now();
    set_clocks(40000);
    wait_until_count(&cancels, 1);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_double_ge(monotonic_now() - begin, 0.0499);
    RLRelease(timer);
    ck_assert_int_eq(wall.calls, 0);
}

RL_TEST(no_pass_without_a_timer_that_is_due, "S-TMR-62", "A change that makes no timer due ends no wait and makes no pass") {
    listen_for_changes();
    static Probe probe;
    add_by(kRLTimerClockWall, &probe, FAR_FUTURE, kRLDefaultMode);
    add_by(kRLTimerClockBoot, &probe, FAR_FUTURE, kRLDefaultMode);
    observe(RLGetCurrent(), kRLDefaultMode);
    Thread *thread = when_waiting(RLGetCurrent(), set_hour_forward, NULL);
    expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    thread_join(thread);
    wait_until_count(&cancels, 1);
    expect_trace("E BT BS BW AW X");
    ck_assert_int_eq(probe.calls, 0);
}

RL_TEST(a_timer_in_no_loop, "S-TMR-62", "A timer that was in no loop while the clock was set has its date by the new time when it comes into one") {
    static Probe forward, back;
    RLTimerRef first = make_by(kRLTimerClockWall, &forward, date_in(3600)), second = make_by(kRLTimerClockWall, &back, date_in(0));
    __atomic_add_fetch(&wall_shift, INT64_C(3601000000000), __ATOMIC_SEQ_CST);
    RLAddTimer(RLGetCurrent(), first, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(forward.calls, 1);
    __atomic_store_n(&wall_shift, INT64_C(-100000000000), __ATOMIC_SEQ_CST);
    RLAddTimer(RLGetCurrent(), second, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    ck_assert_int_eq(back.calls, 0);
    RLRelease(first), RLRelease(second);
}

RL_TEST(without_a_descriptor, "S-TMR-64 S-ARG-10", "Without a descriptor one line is logged, and the clocks are looked at each second until there is one") {
    listen_for_changes();
    log_capture();
    __atomic_store_n(&refuses_descriptors, true, __ATOMIC_SEQ_CST);
    static Probe probe = {.action = action_stop};
    add_by(kRLTimerClockWall, &probe, date_in(3600), kRLDefaultMode);
    wait_until_count(&naps, 1);
    ck_assert_int_eq(log_count(), 1);
    ck_assert_ptr_nonnull(strstr(log_text(), "no descriptor to hear of clocks that are set"));
    __atomic_add_fetch(&wall_shift, INT64_C(3601000000000), __ATOMIC_SEQ_CST);
    expect_run(kRLDefaultMode, 60, false, Stopped);
    ck_assert_int_eq(probe.calls, 1);
    __atomic_store_n(&refuses_descriptors, false, __ATOMIC_SEQ_CST);
    wait_until_count(&watches, 1);
    ck_assert_int_eq(log_count(), 1);
}

static pthread_t own_thread;
static int ended_threads;
static void end_thread(const char *line, void *info) {
    (void)line, (void)info;
    if (pthread_equal(pthread_self(), own_thread)) return;
    __atomic_add_fetch(&ended_threads, 1, __ATOMIC_SEQ_CST);
    pthread_exit(NULL);
}

RL_TEST(a_log_handler_ends_the_thread, "S-TMR-64 S-LOOP-19", "Where the log handler ends the thread that waits for changes, another one takes its place") {
    listen_for_changes();
    own_thread = pthread_self();
    RLSetLogHandler(end_thread, NULL);
    __atomic_store_n(&refuses_descriptors, true, __ATOMIC_SEQ_CST);
    static Probe probe = {.action = action_stop};
    add_by(kRLTimerClockWall, &probe, date_in(3600), kRLDefaultMode);
    wait_until_count(&ended_threads, 1);
    __atomic_store_n(&refuses_descriptors, false, __ATOMIC_SEQ_CST);
    wait_until_count(&watches, 1);
    Thread *thread = when_waiting(RLGetCurrent(), set_hour_forward, NULL);
    expect_run(kRLDefaultMode, 60, false, Stopped);
    thread_join(thread);
    ck_assert_int_eq(probe.calls, 1);
    ck_assert_int_eq(count_of(&ended_threads), 1);
}

RL_TEST(a_look_that_finds_no_change_is_short, "S-TMR-64 S-THR-9", "A look at the clocks that finds none of them set does not look at the timers") {
    enum { TIMERS = 1000, LOOKS = 20 };
    static Probe probes[TIMERS], last = {.action = action_stop};
    __atomic_store_n(&naps_are_short, true, __ATOMIC_SEQ_CST);
    __atomic_store_n(&refuses_descriptors, true, __ATOMIC_SEQ_CST);
    listen_for_changes();
    log_capture();
    for (int i = 0; i < TIMERS; i++) add_by(kRLTimerClockWall, &probes[i], FAR_FUTURE, kRLDefaultMode);
    add_by(kRLTimerClockWall, &last, date_in(3600), kRLDefaultMode);
    wait_until_count(&naps, __atomic_load_n(&naps, __ATOMIC_SEQ_CST) + 2);
    int before = count_of(&readings);
    wait_until_count(&naps, __atomic_load_n(&naps, __ATOMIC_SEQ_CST) + LOOKS);
    ck_assert_int_lt(count_of(&readings) - before, LOOKS * TIMERS / 2);
    /* But one that finds a change does. */
    __atomic_add_fetch(&wall_shift, INT64_C(3601000000000), __ATOMIC_SEQ_CST);
    expect_run(kRLDefaultMode, 60, false, Stopped);
    ck_assert_int_eq(last.calls, 1);
}

RL_TEST(without_a_thread, "S-TMR-64", "Without a thread one line is logged, a timer is not early, and the next one that is made tries again") {
    listen_for_changes();
    log_capture();
    static Probe probe = {.action = check_date}, second;
    hook_thread_starts(refuse_thread);
    date = date_in(0.01);
    add_by(kRLTimerClockWall, &probe, date, kRLDefaultMode);
    ck_assert_ptr_nonnull(strstr(log_text(), "no thread to hear of clocks that are set"));
    __atomic_sub_fetch(&wall_shift, 20000000, __ATOMIC_SEQ_CST);
    expect_run(kRLDefaultMode, 60, false, Stopped);
    ck_assert_int_eq(probe.calls, 1);
    add_by(kRLTimerClockBoot, &second, FAR_FUTURE, kRLDefaultMode);
    ck_assert_int_eq(log_count(), 1);
    ck_assert_int_eq(count_of(&watches), 0);
    hook_thread_starts(NULL);
    add_by(kRLTimerClockBoot, &second, FAR_FUTURE, kRLDefaultMode);
    wait_until_count(&watches, 1);
}

RL_TEST(a_descriptor_that_was_closed, "S-TMR-64 S-FD-18",
        "Where the program closed the library's descriptor and has another file there, that is left alone, and the next change but one is heard") {
    listen_for_changes();
    static Probe probe = {.action = action_stop};
    add_by(kRLTimerClockWall, &probe, date_in(3600), kRLDefaultMode);
    wait_until_count(&watches, 1);
    int number = count_of(&listener), ends[2];
    make_pipe(ends);
    ck_assert_int_eq(dup2(ends[0], number), number);
    write_byte(ends[1]);
    uint64_t count;
    eventfd_signal(reported);
    wait_until_count(&watches, 2);
    ck_assert_int_ne(count_of(&listener), number);
    /* The byte is there. */
    read_byte(number);
    /* The first report found another file there and was not taken. */
    ck_assert(read(reported, &count, sizeof count) == sizeof count || errno == EAGAIN);
    Thread *thread = when_waiting(RLGetCurrent(), set_hour_forward, NULL);
    expect_run(kRLDefaultMode, 60, false, Stopped);
    thread_join(thread);
    ck_assert_int_eq(probe.calls, 1);
    close(number);
}

static Probe child_probe = {.action = action_stop};
static void run_child_loop(void *argument) {
    (void)argument;
    /* It does not have the parent's. */
    ck_assert(!is_clock_watch(listener));
    watches = 0;
    listen_for_changes();
    Thread *thread = when_waiting(RLGetCurrent(), set_hour_forward, NULL);
    RLRunResult result = RLRunInMode(kRLDefaultMode, 60, false);
    thread_join(thread);
    /* The loop, which looks when it begins to wait, may be faster. */
    wait_until_count(&watches, 1);
    _exit(result == kRLRunStopped && child_probe.calls == 1 ? 0 : 1);
}

RL_TEST(the_child_of_fork_hears_of_it, "S-TMR-64 S-FORK-1", "The child has a thread and a descriptor of its own when its loop waits, and the parent keeps its own") {
    listen_for_changes();
    add_by(kRLTimerClockWall, &child_probe, date_in(3600), kRLDefaultMode);
    wait_until_count(&watches, 1);
    ck_assert_int_eq(run_child(run_child_loop, NULL).status, 0);
    Thread *thread = when_waiting(RLGetCurrent(), set_hour_forward, NULL);
    expect_run(kRLDefaultMode, 60, false, Stopped);
    thread_join(thread);
    ck_assert_int_eq(child_probe.calls, 1);
}

static void make_timer_in_child(void *argument) {
    (void)argument;
    log_capture();
    add_by(kRLTimerClockWall, &child_probe, date_in(0), kRLDefaultMode);
    RLRunResult result = RLRunInMode(kRLDefaultMode, 60, false);
    _exit(result == kRLRunStopped && log_count() == 0 ? 0 : 1);
}

RL_TEST(a_timer_made_in_the_child_logs_nothing, "S-TMR-64 S-FD-18 S-FORK-1",
        "The thread that the child lacks is no descriptor that was lost, also where a new timer makes it before a loop waits") {
    listen_for_changes();
    add_by(kRLTimerClockWall, &child_probe, date_in(3600), kRLDefaultMode);
    wait_until_count(&watches, 1);
    ck_assert_int_eq(run_child(make_timer_in_child, NULL).status, 0);
}

/* Timers of all kinds are moved, added, removed and fired in two loops while a third thread sets the clocks. */
enum { TIMERS = 40 };
static RLTimerRef shared[TIMERS];
static int fires, over;
static void count_fire(RLTimerRef timer, void *info) {
    (void)info;
    __atomic_add_fetch(&fires, 1, __ATOMIC_SEQ_CST);
    RLTimerSetNextFireDelay(timer, 0.0005);
}
static void shuffle(LoopThread *self) {
    unsigned seed = (unsigned)(uintptr_t)self->data;
    RLRunLoopRef loop = RLGetCurrent();
    keep_alive(loop, kRLDefaultMode);
    while (!count_of(&over)) {
        for (int i = 0; i < 20; i++) {
            RLTimerRef timer = shared[rand_r(&seed) % TIMERS];
            switch (rand_r(&seed) % 6) {
            case 0: RLRemoveTimer(loop, timer, kRLDefaultMode); break;
            case 1: RLRemoveTimer(loop, timer, "other"); break;
            case 2: RLTimerSetNextFireDate(timer, date_in(rand_r(&seed) % 1000 * 1e-5)); break;
            case 3: RLAddTimer(loop, timer, "other"); break;
            default: RLAddTimer(loop, timer, kRLDefaultMode);
            }
        }
        RLRunInMode(rand_r(&seed) % 2 ? kRLDefaultMode : "other", 0.0005, false);
    }
}

RL_TEST(clocks_are_set_all_the_time, "S-TMR-61 S-TMR-62 S-THR-1", "Timers that are added, removed, moved and fired in two loops survive any setting of the clocks") {
    listen_for_changes();
    for (int i = 0; i < TIMERS; i++) {
        shared[i] = RLTimerCreateWithClock((RLTimerClock)(i % 3), date_in(0.001), i % 2 ? 0.001 : 0, count_fire, NULL);
        RLTimerSetReusable(shared[i], true);
    }
    LoopThread loops[2];
    for (long i = 0; i < 2; i++) loop_thread_start(&loops[i], shuffle, (void *)(i + 1));
    for (int i = 0; i < 300; i++) {
        set_clocks(i % 3 == 0 ? 0.001 : i % 3 == 1 ? -0.002 : 0.0015);
        wait_until_count(&cancels, 1);
        __atomic_store_n(&cancels, 0, __ATOMIC_SEQ_CST);
    }
    wait_until_count(&fires, 100);
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 2; i++) thread_join(loops[i].thread);
    for (int i = 0; i < TIMERS; i++) RLRelease(shared[i]);
}
