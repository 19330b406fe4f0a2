/* SPDX-License-Identifier: MIT */
/* Numbers of the library's that the program has closed: who gets them next, and what those notice of it who lost nothing. */
#define _GNU_SOURCE
#include "support_descriptor.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const RLOptionFlags read_type = kRLFileDescriptorReadCallBack;
static int idle_ends[2];

/* A thread whose loop has a set ends at once; that again and again. */
static void *run_once(void *unused) {
    Descriptor idle = {.name = "idle"};
    descriptor_make(&idle, idle_ends[0], false);
    RLFileDescriptorEnableCallBacks(idle.file, read_type);
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(idle.file, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    RLRunInMode(kRLDefaultMode, 0, false);
    RLFileDescriptorInvalidate(idle.file);
    RLRelease(idle.file);
    return unused;
}
static int loops_made;
static void make_loops(void *count) {
    for (int i = 0; i < *(int *)count; i++) {
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, run_once, NULL), 0);
        pthread_join(thread, NULL);
        __atomic_add_fetch(&loops_made, 1, __ATOMIC_SEQ_CST);
    }
}

static int calls;
static void count_call(void *unused) {
    (void)unused;
    __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
}
static void count_and_stop(void *loop) {
    count_call(NULL);
    RLStop(loop);
}
static void sleep_until_stopped(LoopThread *self) {
    add_descriptor(self->data, idle_ends[0], read_type);
    expect_run(kRLDefaultMode, 1e6, false, Stopped);
}
static void stop(LoopThread *thread, Descriptor *descriptor) {
    RLPerformFunction(thread->loop, kRLDefaultMode, count_and_stop, thread->loop, NULL);
    RLWakeUp(thread->loop);
    thread_join(thread->thread);
    RLFileDescriptorInvalidate(descriptor->file);
    RLRelease(descriptor->file);
}

RL_TEST(the_end_of_a_set_is_no_loss, "S-FD-18", "Loops that begin and end on several threads, in a program that closes nothing of the library's, count as no loss: nothing is logged") {
    int each = 2000;
    make_pipe(idle_ends);
    log_capture();
    Thread *threads[2];
    for (int i = 0; i < 2; i++) threads[i] = thread_start(make_loops, &each);
    for (int i = 0; i < 2; i++) thread_join(threads[i]);
    ck_assert_int_eq(log_count(), 0);
}

static bool quits;
static void pass_until_told(LoopThread *self) {
    add_descriptor(self->data, idle_ends[0], read_type);
    while (!__atomic_load_n(&quits, __ATOMIC_SEQ_CST)) expect_run(kRLDefaultMode, 0, false, TimedOut);
}

RL_TEST(loops_awake_keep_their_sets, "S-FD-18", "Where a file of the program's has the wake-up descriptor's number, loops that are awake go on with their sets, which lack it for a moment") {
    make_pipe(idle_ends);
    for (int i = 0; i < 4; i++) {
        Descriptor descriptors[2] = {{.name = "a"}, {.name = "b"}};
        LoopThread sleeper, awake;
        int fds[8];
        /* A set without the new wake-up descriptor stays open when its loop ends (S-FD-18). */
        const int before = library_descriptors("anon_inode:[eventpoll]", fds);
        quits = false;
        calls = 0;
        loop_thread_start(&sleeper, sleep_until_stopped, &descriptors[0]);
        wait_until_waiting(sleeper.loop);
        loop_thread_start(&awake, pass_until_told, &descriptors[1]);
        while (library_descriptors("anon_inode:[eventpoll]", fds) < before + 2) sched_yield();
        ck_assert_int_eq(library_descriptors("anon_inode:[eventfd]", fds), 1);
        const int number = fds[0];
        ck_assert_int_eq(dup3(idle_ends[0], number, O_CLOEXEC), number);
        RLPerformFunction(sleeper.loop, kRLDefaultMode, count_call, NULL, NULL);
        RLWakeUp(sleeper.loop);
        wait_until_count(&calls, 1);
        /* It has looked at its set since. */
        RLPerformFunction(awake.loop, kRLDefaultMode, count_call, NULL, NULL);
        wait_until_count(&calls, 2);
        ck_assert_int_eq(library_descriptors("anon_inode:[eventpoll]", fds), before + 2);
        __atomic_store_n(&quits, true, __ATOMIC_SEQ_CST);
        stop(&sleeper, &descriptors[0]);
        thread_join(awake.thread);
        RLFileDescriptorInvalidate(descriptors[1].file);
        RLRelease(descriptors[1].file);
        close(number);
    }
}

static void ignore_report(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event;
    if (info) ++*(int *)info;
}
static RLSourceRef make_source(RLKernelEvent event, int *reports) {
    RLKernelEventContext context = {.info = reports};
    RLSourceRef source = RLKernelEventSourceCreate(&event, ignore_report, &context);
    ck_assert_ptr_nonnull(source);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    return source;
}
static void end_source(RLSourceRef source) {
    RLSourceInvalidate(source);
    RLRelease(source);
}

RL_TEST(a_lost_number_is_given_out_again, "S-FD-18", "A number of the instance of the sources of files that was closed is used again once its owner has another") {
    make_pipe(idle_ends);
    for (int which = 0; which < 2; which++) {
        const RLKernelEvent event = {.ident = (uintptr_t)idle_ends[0], .filter = kRLKernelFilterVnode, .fflags = kRLNoteAttrib};
        int fds[8], timers = 0;
        RLSourceRef first = make_source(event, NULL);
        ck_assert_int_eq(library_descriptors("anon_inode:inotify", fds), 2);
        const int lost = fds[which];
        close(lost);
        RLSourceRef second = make_source(event, NULL);
        end_source(first);
        end_source(second);
        RLSourceRef sources[8];
        for (int i = 0; i < 8; i++) sources[i] = make_source((RLKernelEvent){.ident = (uintptr_t)i, .filter = kRLKernelFilterTimer, .data = 1000000000000}, NULL);
        for (int count = library_descriptors("anon_inode:[timerfd]", fds), i = 0; i < count; i++) timers += fds[i] == lost;
        timers += fcntl(lost, F_GETFD) != -1;
        for (int i = 0; i < 8; i++) end_source(sources[i]);
        ck_assert_int_ge(timers, 1);
    }
}

RL_TEST(sources_beside_a_lost_set, "S-FD-18 S-KEV-10 S-KEV-16",
        "Sources of timers and files go on where the set by which the library recognises their descriptors was closed and others are made and ended") {
    int each = 1000, ticks = 0, fds[8], is_told = 0;
    char path[] = "/tmp/rl-numbers.XXXXXX";
    const int watched = mkstemp(path);
    make_pipe(idle_ends);
    RLSourceRef timer = make_source((RLKernelEvent){.ident = 1, .filter = kRLKernelFilterTimer, .data = 1}, &ticks);
    /* The other one is the mode's. */
    ck_assert_int_eq(library_descriptors("anon_inode:[eventpoll]", fds), 2);
    close(fds[0]);
    RLSourceRef file = make_source((RLKernelEvent){.ident = (uintptr_t)watched, .filter = kRLKernelFilterVnode, .fflags = kRLNoteAttrib}, &is_told);
    loops_made = 0;
    Thread *thread = thread_start(make_loops, &each);
    while (count_of(&loops_made) < each) {
        RLRunInMode(kRLDefaultMode, 0.001, false);
        fchmod(watched, count_of(&loops_made) % 2 ? 0600 : 0640);
    }
    thread_join(thread);
    const int before = ticks;
    is_told = 0;
    fchmod(watched, 0400);
    while (ticks < before + 3 || is_told == 0) ck_assert_int_eq(RLRunInMode(kRLDefaultMode, 60, true), kRLRunHandledSource);
    ck_assert(RLSourceIsValid(timer) && RLSourceIsValid(file));
    end_source(timer);
    end_source(file);
    unlink(path);
    ck_assert_int_eq(library_descriptors("anon_inode:[timerfd]", fds) + library_descriptors("anon_inode:inotify", fds), 0);
}

/* Each call comes, and the loop sleeps again. */
static void expect_wake_ups(LoopThread *sleeper) {
    for (int i = 0; i < 3; i++) {
        RLPerformFunction(sleeper->loop, kRLDefaultMode, count_call, NULL, NULL);
        RLWakeUp(sleeper->loop);
        wait_until_count(&calls, i + 1);
        wait_until_waiting(sleeper->loop);
    }
}

RL_TEST(no_high_number_is_left, "S-FD-18 S-WAKE-1", "A wake-up descriptor that was closed gets a number below 64 where all others are taken") {
    static Descriptor descriptor = {.name = "d"};
    LoopThread sleeper;
    struct rlimit limit;
    int fds[8];
    make_pipe(idle_ends);
    loop_thread_start(&sleeper, sleep_until_stopped, &descriptor);
    wait_until_waiting(sleeper.loop);
    ck_assert_int_eq(library_descriptors("anon_inode:[eventpoll]", fds), 1);
    const int set = fds[0];
    ck_assert_int_eq(library_descriptors("anon_inode:[eventfd]", fds), 1);
    const int wake = fds[0];
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)(set > wake ? set : wake) + 1;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (fcntl(idle_ends[0], F_DUPFD_CLOEXEC, 64) >= 0) continue;
    close(wake);
    expect_wake_ups(&sleeper);
    stop(&sleeper, &descriptor);
}

RL_TEST(a_lost_set_where_no_high_number_is_left, "S-FD-18 S-WAKE-1", "A wake-up reaches a loop whose set was closed also where the limit of descriptors leaves no number from 64 up") {
    static Descriptor descriptor = {.name = "d"};
    LoopThread sleeper;
    struct rlimit limit;
    make_pipe(idle_ends);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 48;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    const DescriptorSet before = descriptors_now();
    loop_thread_start(&sleeper, sleep_until_stopped, &descriptor);
    wait_until_waiting(sleeper.loop);
    char path[64], target[64];
    for (int fd = 0; fd < 48; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = 0;
        if (!before.open[fd] && strcmp(target, "anon_inode:[eventpoll]") == 0) close(fd);
    }
    expect_wake_ups(&sleeper);
    stop(&sleeper, &descriptor);
}

RL_TEST(two_numbers_lost_before_a_fork, "S-FD-18 S-KEV-11", "In the child of fork the number of a set that was closed goes to no other set, also where two were closed: sources whose numbers are open report") {
    int ticks = 0, fds[8];
    RLForeignRunRef run = RLForeignRunCreate("m");
    RLSourceRef timer = make_source((RLKernelEvent){.ident = 1, .filter = kRLKernelFilterTimer, .data = 1}, &ticks);
    ck_assert_int_eq(RLRunInMode(kRLDefaultMode, 60, true), kRLRunHandledSource);
    const int count = library_descriptors("anon_inode:[eventpoll]", fds);
    ck_assert_int_ge(count, 3);
    for (int first = 0; first < count; first++) {
        for (int second = first + 1; second < count; second++) {
            int status;
            pid_t child = fork();
            if (child == 0) {
                close(fds[first]);
                close(fds[second]);
                pid_t inner = fork();
                if (inner == 0) {
                    ticks = 0;
                    while (RLSourceIsValid(timer) && ticks < 3) RLRunInMode(kRLDefaultMode, 60, true);
                    _exit(!RLSourceIsValid(timer));
                }
                waitpid(inner, &status, 0);
                _exit(status != 0);
            }
            ck_assert_int_eq(waitpid(child, &status, 0), child);
            ck_assert_msg(status == 0, "%d and %d of %d", first, second, count);
        }
    }
    end_source(timer);
    RLForeignRunInvalidate(run);
    RLRelease(run);
}

/* Locks and unlocks, each of which opens a folder for a moment. */
static int failures;
static char lock_path[64];
static void lock_until_told(void *unused) {
    (void)unused;
    RLDistributedLockRef lock = RLDistributedLockCreate(lock_path);
    while (!__atomic_load_n(&quits, __ATOMIC_SEQ_CST)) {
        if (!RLDistributedLockTryLock(lock) || !RLDistributedLockUnlock(lock)) __atomic_add_fetch(&failures, 1, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    }
    RLRelease(lock);
}

RL_TEST(a_folder_opened_for_a_moment, "S-FD-18 S-DLOCK-3", "The end of a source of a file whose descriptor was closed does not close another folder that another thread's call has open") {
    char folder[] = "/tmp/rl-moment.XXXXXX", place[] = "/tmp/rl-lock.XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_ptr_nonnull(mkdtemp(place));
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(lock_path, sizeof lock_path, "%s/lock", place);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    make_pipe(idle_ends);
    while (dup(idle_ends[0]) < 63) continue;
    for (int i = 0; i < 20; i++) {
        const DescriptorSet before = descriptors_now();
        RLSourceRef source = make_source((RLKernelEvent){.path = path, .filter = kRLKernelFilterVnode, .fflags = kRLNoteWrite}, NULL);
        const DescriptorSet after = descriptors_now();
        for (int fd = 64; fd < 1024; fd++) {
            if (before.open[fd] || !after.open[fd] || !(fcntl(fd, F_GETFL) & O_PATH)) continue;
            close(fd);
            break;
        }
        quits = false;
        calls = 0;
        Thread *thread = thread_start(lock_until_told, NULL);
        wait_until_count(&calls, 20);
        end_source(source);
        const int so_far = count_of(&calls);
        wait_until_count(&calls, so_far + 20);
        __atomic_store_n(&quits, true, __ATOMIC_SEQ_CST);
        thread_join(thread);
    }
    ck_assert_int_eq(failures, 0);
    unlink(path);
    unlink(lock_path);
    rmdir(folder);
    rmdir(place);
}
