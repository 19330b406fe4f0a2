/* SPDX-License-Identifier: MIT */
/* A thread's loop while the thread lives (section 1): identity, first state, descriptors. */
#include "support.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void store_current_loop(void *result) { *(RLRunLoopRef *)result = RLGetCurrent(); }

static void store_main_loop(void *result) { *(RLRunLoopRef *)result = RLGetMain(); }

RL_TEST(each_thread_has_one_loop, "S-LOOP-1 S-LOOP-2",
        "Every thread has its own loop, and gets the same pointer each time") {
    RLRunLoopRef mine = RLGetCurrent();
    RLRunLoopRef other = NULL;
    ck_assert_ptr_nonnull(mine);
    keep_alive(mine, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_ptr_eq(RLGetCurrent(), mine);
    /* The other loop is kept, so that its address cannot be the same by reuse. */
    thread_join(thread_start(store_current_loop, &other));
    ck_assert_ptr_nonnull(other);
    ck_assert_ptr_ne(other, mine);
    ck_assert_ptr_eq(RLGetCurrent(), mine);
}

static void use_current_loop_twice(void *result) {
    RLRunLoopRef first = RLGetCurrent();
    keep_alive(first, "a mode");
    expect_run("a mode", 0.001, false, TimedOut);
    *(bool *)result = first == RLGetCurrent();
}

RL_TEST(loop_is_not_owned_by_the_caller, "S-LOOP-2",
        "Getting a loop many times passes no reference, and the pointer stays the same") {
    bool same = false;
    RLIndex before = RLGetRetainCount(RLGetCurrent());
    for (int i = 0; i < 1000; i++) (void)RLGetCurrent();
    ck_assert_int_eq(RLGetRetainCount(RLGetCurrent()), before);
    thread_join(thread_start(use_current_loop_twice, &same));
    ck_assert(same);
}

static void store_loop_if_made(void *result) {
    RLRunLoopRef *loops = result;
    loops[0] = RLGetCurrentIfMade();
    loops[1] = RLGetCurrent();
    loops[2] = RLGetCurrentIfMade();
}

RL_MAIN_TEST(asking_makes_no_loop, "S-LOOP-21",
             "RLGetCurrentIfMade is NULL until the thread has a loop, which the main thread has when any thread has asked for it") {
    RLRunLoopRef loops[3], main;
    ck_assert_ptr_null(RLGetCurrentIfMade());
    thread_join(thread_start(store_loop_if_made, loops));
    ck_assert_ptr_null(loops[0]);
    ck_assert_ptr_nonnull(loops[1]);
    ck_assert_ptr_eq(loops[2], loops[1]);
    ck_assert_ptr_null(RLGetCurrentIfMade());
    thread_join(thread_start(store_main_loop, &main));
    ck_assert_ptr_eq(RLGetCurrentIfMade(), main);
    ck_assert_ptr_eq(RLGetCurrent(), main);
}

RL_MAIN_TEST(main_loop_from_a_thread_first, "S-LOOP-3 S-LOOP-4",
             "RLGetMain works on a thread before the main thread touched the library, and is the "
             "loop of the initial thread, not of the first caller") {
    RLRunLoopRef from_thread = NULL, of_thread = NULL;
    thread_join(thread_start(store_main_loop, &from_thread));
    thread_join(thread_start(store_current_loop, &of_thread));
    ck_assert_ptr_nonnull(from_thread);
    ck_assert_ptr_ne(of_thread, from_thread);
    ck_assert_ptr_eq(RLGetCurrent(), from_thread);
    ck_assert_ptr_eq(RLGetMain(), from_thread);
}

RL_MAIN_TEST(main_loop_is_the_initial_threads, "S-LOOP-4",
             "The main loop is the initial thread's although another thread got its loop first") {
    RLRunLoopRef of_thread = NULL;
    thread_join(thread_start(store_current_loop, &of_thread));
    ck_assert_ptr_eq(RLGetMain(), RLGetCurrent());
}

RL_TEST(main_loop_is_not_the_callers, "S-LOOP-3 S-LOOP-4",
        "On a secondary thread RLGetMain is not the thread's own loop, and stays the same") {
    RLRunLoopRef main_loop = RLGetMain();
    ck_assert_ptr_ne(main_loop, RLGetCurrent());
    ck_assert_ptr_eq(RLGetMain(), main_loop);
}

RL_TEST(new_loop_has_the_default_mode_alone, "S-LOOP-5",
        "A new loop has the default mode alone, which is common, and neither runs nor waits") {
    RLRunLoopRef loop = RLGetCurrent();
    RLIndex count = -1;
    char **modes = RLCopyAllModes(loop, &count);
    ck_assert_int_eq(count, 1);
    ck_assert_str_eq(modes[0], kRLDefaultMode);
    ck_assert_ptr_null(modes[1]);
    free(modes);
    ck_assert_ptr_null(RLCopyCurrentMode(loop));
    ck_assert(!RLIsWaiting(loop));
    Probe common = {.name = "c", .traced = true};
    add_source(&common, kRLCommonModes);
    expect_trace("+c:kCFRunLoopDefaultMode");
}

RL_TEST(new_loop_has_nothing_pending, "S-LOOP-5",
        "The first run of a new loop finds no stop and no wake-up pending") {
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    expect_trace("E BT BS BW AW X");
}

static void release_current_loop(void *unused) {
    (void)unused;
    RLRelease(RLGetCurrent());
}

RL_TEST(releasing_a_loop_too_often_traps, "S-LOOP-15",
        "Releasing a living thread's loop without a retain ends the process with a message") {
    ChildResult result = run_child(release_current_loop, NULL);
    ck_assert(!WIFEXITED(result.status) || WEXITSTATUS(result.status) != 0);
    ck_assert_str_ne(result.output, "");
}

static void retain_and_release_current_loop(void *unused) {
    (void)unused;
    for (int i = 0; i < 3; i++) RLRetain(RLGetCurrent());
    for (int i = 0; i < 3; i++) RLRelease(RLGetCurrent());
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    if (RLRunInMode(kRLDefaultMode, 0, false) != kRLRunTimedOut) _Exit(1);
}

RL_TEST(balanced_releases_do_not_trap, "S-LOOP-15",
        "Releasing a loop as often as it was retained is no error") {
    ChildResult result = run_child(retain_and_release_current_loop, NULL);
    ck_assert(WIFEXITED(result.status));
    ck_assert_int_eq(WEXITSTATUS(result.status), 0);
}

/* Descriptors */

static void use_everything(void *unused) {
    (void)unused;
    RLRunLoopRef loop = RLGetCurrent();
    Probe timer = {0}, port = {0};
    int fd = make_eventfd();
    for (int i = 0; i < 3; i++) {
        static const char *const modes[] = {"one", "two", "three"};
        keep_alive(loop, modes[i]);
        add_timer(&timer, date_in(0), 0.001, modes[i]);
        RLAddSource(loop, probe_port(&port, fd), modes[i]);
        expect_run(modes[i], 0.005, false, TimedOut);
        eventfd_signal(fd);
        expect_run(modes[i], 100, true, HandledSource);
        RLRelease(port.source);
    }
    /* The loop watches the descriptor until its thread ends; it is closed by the test alone. */
    RLSourceInvalidate(port.source);
    close(fd);
}

RL_TEST(ended_threads_leave_no_descriptor, "S-LOOP-16",
        "Threads that used their loops leave no descriptor open when they end") {
    int before = count_descriptors();
    for (int i = 0; i < 20; i++) thread_join(thread_start(use_everything, NULL));
    ck_assert_int_eq(count_descriptors(), before);
}

static int most_descriptors;

static void count_them(Probe *self) {
    (void)self;
    int now = count_descriptors();
    if (now > most_descriptors) most_descriptors = now;
}

RL_TEST(timers_need_no_descriptors, "S-LOOP-17",
        "A loop with 5000 timers in a mode has as many descriptors as with one") {
    enum { timers = 5000 };
    RLRunLoopRef loop = RLGetCurrent();
    static Probe probes[timers];
    Probe observer = {.action = count_them}, port = {0};
    add_observer(&observer, kRLAllActivities, kRLDefaultMode);
    add_port(&port, make_eventfd(), kRLDefaultMode);
    for (int i = 0; i < timers; i++) {
        add_timer(&probes[i], date_in(1000 + i), i % 2, kRLDefaultMode);
        if (i == 0) {
            expect_run(kRLDefaultMode, 0.01, false, TimedOut);
            ck_assert_int_gt(observer.calls, 0);
        }
    }
    int with_one = most_descriptors;
    most_descriptors = 0;
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    ck_assert_int_eq(most_descriptors, with_one);
    ck_assert(RLContainsTimer(loop, probes[timers - 1].timer, kRLDefaultMode));
}

static DescriptorSet before_use;

static void check_new_descriptors(Probe *self) {
    DescriptorSet now = descriptors_now();
    for (int fd = 0; fd < (int)(sizeof now.open / sizeof now.open[0]); fd++) {
        if (!now.open[fd] || before_use.open[fd]) continue;
        self->value++;
        int flags = fcntl(fd, F_GETFD);
        ck_assert_msg(flags & FD_CLOEXEC, "descriptor %d is not close-on-exec", fd);
    }
}

RL_TEST(descriptors_are_close_on_exec, "S-LOOP-18",
        "Every descriptor the library opens for a loop with ports, timers and modes is "
        "close-on-exec") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = check_new_descriptors}, timer = {0};
    Probe port = {.action = action_stop}, other = {.action = action_stop};
    int fds[2] = {make_eventfd(), make_eventfd()};
    before_use = descriptors_now();
    add_observer(&observer, kRLAllActivities, kRLDefaultMode);
    RLAddObserver(loop, observer.observer, "other");
    add_timer(&timer, date_in(0), 0.005, kRLDefaultMode);
    add_port(&port, fds[0], kRLDefaultMode);
    add_port(&other, fds[1], "other");
    eventfd_signal(fds[0]);
    eventfd_signal(fds[1]);
    expect_run(kRLDefaultMode, 1000, false, Stopped);
    expect_run("other", 1000, false, Stopped);
    ck_assert_int_eq(port.calls, 1);
    ck_assert_int_eq(other.calls, 1);
    /* A loop that watches ports without a descriptor of its own would make this test empty. */
    ck_assert_int_gt(observer.value, 0);
}
