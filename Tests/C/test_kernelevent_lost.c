/* SPDX-License-Identifier: MIT */
/*
 * Kernel event sources whose number the program closed by mistake and gave to a file of its own of the same kind (S-FD-18): a
 * timerfd, a pidfd or an inotify instance, which a look at the kind does not tell from the library's.
 */
#define _GNU_SOURCE
#include "support.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the library opened since a look at the descriptors, by the name that /proc has for it. */
static int opened_since(const DescriptorSet *before, const char *kind, int numbers[8]) {
    DescriptorSet now = descriptors_now();
    int count = 0;
    for (int fd = 0; fd < 1024 && count < 8; fd++) {
        char path[64], target[64];
        if (!now.open[fd] || before->open[fd]) continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = 0;
        if (strstr(target, kind)) numbers[count++] = fd;
    }
    return count;
}

static char folder[] = "/tmp/rl-lost.XXXXXX", watched[64], other[64], lock_file[64];
static pid_t living, ended;
static int reports;
static void count_report(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    reports++;
}

/* A source, what it was made of, and the program's file under its numbers. */
typedef struct Lost {
    const char *kind;
    RLKernelEvent event;
    int (*make)(void);
    RLSourceRef source;
    int mine;
    int numbers[8], count;
} Lost;

/* It has expired once. */
static int make_timer(void) {
    int made = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct itimerspec at_once = {.it_value = {0, 1}};
    ck_assert_int_eq(timerfd_settime(made, 0, &at_once, NULL), 0);
    return made;
}
static int make_idle_timer(void) { return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK); }
/* Of a child that has ended. */
static int make_process(void) { return (int)syscall(SYS_pidfd_open, ended, 0); }
/* With one event. */
static int make_inotify(void) {
    int made = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    ck_assert_int_ge(inotify_add_watch(made, other, IN_ATTRIB), 0);
    ck_assert_int_eq(chmod(other, 0640), 0);
    return made;
}

static Lost timer = {"[timerfd]", {.filter = kRLKernelFilterTimer, .ident = 1, .data = 10000000}, make_timer, NULL, -1, {0}, 0};
static Lost process = {"[pidfd]", {.filter = kRLKernelFilterProcess, .fflags = kRLNoteExit | kRLNoteReap}, make_process, NULL, -1, {0}, 0};
static Lost file = {"inotify", {.filter = kRLKernelFilterVnode, .fflags = kRLNoteAttrib, .path = watched}, make_inotify, NULL, -1, {0}, 0};

static void make_files(void) {
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(watched, sizeof watched, "%s/watched", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    snprintf(lock_file, sizeof lock_file, "%s/lock", folder);
    close(open(watched, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    close(open(other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}
static void remove_files(void) {
    unlink(watched), unlink(other), unlink(lock_file);
    rmdir(folder);
}
static void make_children(void) {
    living = fork();
    if (living == 0) {
        pause();
        _exit(0);
    }
    ended = fork();
    if (ended == 0) _exit(7);
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)ended, &info, WEXITED | WNOWAIT), 0);
    process.event.ident = (uintptr_t)living;
}
static void end_children(void) {
    kill(living, SIGKILL);
    ck_assert_int_eq(waitpid(living, NULL, 0), living);
}

/* Makes the source, and gives its numbers to the program's file. */
static void lose(Lost *lost) {
    DescriptorSet before = descriptors_now();
    lost->source = RLKernelEventSourceCreate(&lost->event, count_report, NULL);
    ck_assert_ptr_nonnull(lost->source);
    RLAddSource(RLGetCurrent(), lost->source, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, false);
    lost->count = opened_since(&before, lost->kind, lost->numbers);
    ck_assert_int_ge(lost->count, 1);
    lost->mine = lost->make();
    for (int i = 0; i < lost->count; i++) ck_assert_int_eq(dup3(lost->mine, lost->numbers[i], O_CLOEXEC), lost->numbers[i]);
    reports = 0;
}
/* Whether the program's file is still open under a number: /proc says the same of both. */
static bool is_mine(const Lost *lost, int number) {
    char path[64], one[512] = "", two[512] = "";
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/proc/self/fdinfo/%d", i ? number : lost->mine);
        FILE *info = fopen(path, "re");
        if (!info) return false;
        char *into = i ? two : one;
        into[fread(into, 1, sizeof one - 1, info)] = 0;
        fclose(info);
    }
    return strcmp(one, two) == 0;
}
static void expect_files_open(Lost *lost) {
    for (int i = 0; i < lost->count; i++) {
        ck_assert(is_mine(lost, lost->numbers[i]));
        close(lost->numbers[i]);
    }
}
static void expect_ended(void) {
    int status = 0;
    ck_assert_int_eq(waitpid(ended, &status, WNOHANG), ended);
    ck_assert_int_eq(WEXITSTATUS(status), 7);
}
static void wait_until_ready(int descriptor) {
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    ck_assert_int_eq(poll(&entry, 1, -1), 1);
}

RL_TEST(a_file_of_the_same_kind_is_not_closed, "S-FD-18", "A source that is invalidated does not close the program's file that has its number, also one of the same kind") {
    Lost *all[] = {&timer, &process, &file};
    make_files();
    make_children();
    for (int i = 0; i < 3; i++) {
        lose(all[i]);
        RLSourceInvalidate(all[i]->source);
        RLRelease(all[i]->source);
        expect_files_open(all[i]);
        close(all[i]->mine);
    }
    expect_ended();
    end_children();
    remove_files();
}

/* The modes of a loop that had no set of the source see the program's file under its number. */
static void run_in_other_mode(Lost *lost) {
    wait_until_ready(lost->mine);
    RLAddSource(RLGetCurrent(), lost->source, "other");
    for (int turn = 0; turn < 3; turn++) RLRunInMode("other", 0, false);
    ck_assert_int_eq(reports, 0);
    ck_assert(!RLSourceIsValid(lost->source));
    RLRelease(lost->source);
    expect_files_open(lost);
}

RL_TEST(a_timer_of_the_program_is_not_read, "S-FD-18 S-KEV-10", "A timer of 10000 seconds does not report, nor read, the program's timer that has taken its number") {
    uint64_t count = 0;
    log_capture();
    lose(&timer);
    run_in_other_mode(&timer);
    ck_assert_int_eq(log_count(), 1);
    ck_assert_int_eq((int)read(timer.mine, &count, sizeof count), (int)sizeof count);
    ck_assert_uint_eq(count, 1);
}

static void end_own_thread(const char *line, void *info) {
    (void)line, (void)info;
    pthread_exit(NULL);
}
static void *lose_timer(void *unused) {
    lose(&timer);
    RLSetLogHandler(end_own_thread, NULL);
    RLAddSource(RLGetCurrent(), timer.source, "other");
    for (;;) RLRunInMode("other", 60, false);
    return unused;
}

RL_TEST(a_log_handler_ends_the_thread, "S-FD-18 S-LOOP-19", "A source whose descriptor was lost is invalid also where the log handler, which is told of it, ends the thread") {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, lose_timer, NULL), 0);
    pthread_join(thread, NULL);
    ck_assert(!RLSourceIsValid(timer.source));
    RLRelease(timer.source);
    expect_files_open(&timer);
}

RL_TEST(a_child_of_the_program_is_not_reaped, "S-FD-18 S-KEV-10",
        "A source of a living process does not report the end of another child, whose pidfd has taken its number, and does not take its status") {
    make_children();
    log_capture();
    lose(&process);
    run_in_other_mode(&process);
    ck_assert_int_eq(log_count(), 1);
    expect_ended();
    end_children();
}

RL_TEST(events_of_the_program_are_not_read, "S-FD-18 S-KEV-11", "A source of a file does not read the program's events, where an instance of the program's has taken both numbers of its own") {
    char events[512];
    make_files();
    log_capture();
    lose(&file);
    ck_assert_int_eq(chmod(watched, 0640), 0);
    /* Where a source of a file is made the library looks at its instance. */
    ck_assert_ptr_null(RLKernelEventSourceCreate(&file.event, count_report, NULL));
    run_in_other_mode(&file);
    ck_assert_int_eq(log_count(), 1);
    ck_assert_int_eq((int)read(file.mine, events, sizeof events), (int)sizeof(struct inotify_event));
    remove_files();
}

RL_TEST(a_timer_of_the_program_is_not_set, "S-FD-18 S-DLOCK-12", "The source of a lock does not set the program's timer that has taken the number of its own") {
    make_files();
    RLDistributedLockRef lock = RLDistributedLockCreate(lock_file);
    ck_assert(RLDistributedLockTryLock(lock));
    static Lost looks = {"[timerfd]", {.filter = kRLKernelFilterDistributedLock}, make_idle_timer, NULL, -1, {0}, 0};
    looks.event.ident = (uintptr_t)lock;
    lose(&looks);
    ck_assert(RLDistributedLockUnlock(lock));
    for (int turn = 0; turn < 3; turn++) RLRunInMode(kRLDefaultMode, 0, false);
    struct itimerspec left;
    ck_assert_int_eq(timerfd_gettime(looks.mine, &left), 0);
    ck_assert_int_eq(left.it_value.tv_sec + left.it_value.tv_nsec, 0);
    struct pollfd entry = {.fd = looks.mine, .events = POLLIN};
    ck_assert_int_eq(poll(&entry, 1, 0), 0);
    RLSourceInvalidate(looks.source);
    RLRelease(looks.source);
    RLRelease(lock);
    expect_files_open(&looks);
    remove_files();
}

static void expect_files_of_the_parent(void *unused) {
    (void)unused;
    Lost *all[] = {&timer, &process, &file};
    for (int i = 0; i < 3; i++) {
        RLRunInMode(kRLDefaultMode, 0, false);
        if (RLSourceIsValid(all[i]->source)) _exit(10 + i);
        for (int k = 0; k < all[i]->count; k++)
            if (!is_mine(all[i], all[i]->numbers[k])) _exit(20 + i);
    }
}

RL_TEST(a_fork_leaves_the_files_of_the_program, "S-FD-18 S-KEV-11", "In the child of fork the program's files that have taken the numbers of sources are neither closed nor replaced, and the sources are invalid") {
    Lost *all[] = {&timer, &process, &file};
    make_files();
    make_children();
    for (int i = 0; i < 3; i++) lose(all[i]);
    ChildResult result = run_child(expect_files_of_the_parent, NULL);
    ck_assert_msg(result.status == 0, "status %#x, wrote: %s", result.status, result.output);
    for (int i = 0; i < 3; i++) {
        RLSourceInvalidate(all[i]->source);
        RLRelease(all[i]->source);
        expect_files_open(all[i]);
    }
    end_children();
    remove_files();
}

static void expect_reports(void) {
    reports = 0;
    while (reports < 2) RLRunInMode(kRLDefaultMode, 10, true);
}
static void run_in_child(void *source) {
    expect_reports();
    RLSourceInvalidate(source);
    RLRelease(source);
}

RL_TEST(the_set_that_tells_them_apart_is_lost, "S-FD-18", "A source goes on where the program has closed the set by which the library recognises its descriptors, or a set of the program's has its number, which stays as it is; so do sources made later, also in the child of fork") {
    RLKernelEvent event = {.filter = kRLKernelFilterTimer, .ident = 1, .data = 1, .fflags = kRLNoteMicroseconds};
    for (int is_replaced = 0; is_replaced < 2; is_replaced++) {
        RLSourceRef alive = keep_alive(RLGetCurrent(), kRLDefaultMode), sources[2];
        int numbers[8], mine = epoll_create1(EPOLL_CLOEXEC);
        RLRunInMode(kRLDefaultMode, 0, false);
        DescriptorSet before = descriptors_now();
        sources[0] = RLKernelEventSourceCreate(&event, count_report, NULL);
        ck_assert_int_eq(opened_since(&before, "[eventpoll]", numbers), 1);
        RLAddSource(RLGetCurrent(), sources[0], kRLDefaultMode);
        if (is_replaced) ck_assert_int_eq(dup3(mine, numbers[0], O_CLOEXEC), numbers[0]);
        else close(numbers[0]);
        expect_reports();
        sources[1] = RLKernelEventSourceCreate(&event, count_report, NULL);
        RLAddSource(RLGetCurrent(), sources[1], kRLDefaultMode);
        RLSourceInvalidate(sources[0]);
        RLRelease(sources[0]);
        expect_reports();
        ChildResult result = run_child(run_in_child, sources[1]);
        ck_assert_msg(result.status == 0, "status %#x, wrote: %s", result.status, result.output);
        RLSourceInvalidate(sources[1]);
        RLRelease(sources[1]);
        if (is_replaced) {
            /* It has no members. */
            char path[64], text[512] = "";
            snprintf(path, sizeof path, "/proc/self/fdinfo/%d", numbers[0]);
            FILE *info = fopen(path, "re");
            ck_assert_ptr_nonnull(info);
            text[fread(text, 1, sizeof text - 1, info)] = 0;
            fclose(info);
            ck_assert_ptr_null(strstr(text, "tfd:"));
            close(numbers[0]);
        }
        close(mine);
        RLSourceInvalidate(alive);
    }
}

RL_TEST(another_set_is_made, "S-FD-18", "Sources go on, those made later too, where the program has closed the set by which the library recognises its descriptors, and a mode's set is made") {
    RLKernelEvent event = {.filter = kRLKernelFilterTimer, .ident = 1, .data = 1, .fflags = kRLNoteMicroseconds};
    RLSourceRef sources[2];
    int numbers[8];
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, false);
    DescriptorSet before = descriptors_now();
    sources[0] = RLKernelEventSourceCreate(&event, count_report, NULL);
    ck_assert_int_eq(opened_since(&before, "[eventpoll]", numbers), 1);
    const int number = numbers[0];
    RLAddSource(RLGetCurrent(), sources[0], kRLDefaultMode);
    expect_reports();
    close(number);
    int ends[2];
    make_pipe(ends);
    before = descriptors_now();
    RLSourceRef port = probe_port(&(Probe){.name = "port"}, ends[0]);
    RLAddSource(RLGetCurrent(), port, "another");
    RLRunInMode("another", 0, false);
    ck_assert_int_eq(opened_since(&before, "[eventpoll]", numbers), 1);
    ck_assert_int_ne(numbers[0], number);
    expect_reports();
    ck_assert(RLSourceIsValid(sources[0]));
    sources[1] = RLKernelEventSourceCreate(&event, count_report, NULL);
    RLAddSource(RLGetCurrent(), sources[1], kRLDefaultMode);
    RLSourceInvalidate(sources[0]);
    RLRelease(sources[0]);
    expect_reports();
    RLSourceInvalidate(sources[1]);
    RLRelease(sources[1]);
    /* The mode still has its set. */
    ck_assert_int_ne(fcntl(numbers[0], F_GETFD), -1);
    RLSourceInvalidate(port);
    RLRelease(port);
}

RL_TEST(closed_with_the_set, "S-FD-18 S-KEV-4", "The sources of a timer and a process whose descriptors are closed, as closefrom(3) closes them, are invalid when the loop makes its set anew; one that is made then goes on") {
    Lost *all[] = {&timer, &process};
    make_children();
    log_capture();
    for (int i = 0; i < 2; i++) {
        all[i]->source = RLKernelEventSourceCreate(&all[i]->event, count_report, NULL);
        RLAddSource(RLGetCurrent(), all[i]->source, kRLDefaultMode);
    }
    RLRunInMode(kRLDefaultMode, 0, false);
    /* All numbers of the library's are from 64 up. */
    ck_assert_int_eq(close_range(64, ~0u, 0), 0);
    for (int turn = 0; turn < 3; turn++) RLRunInMode(kRLDefaultMode, 0, false);
    for (int i = 0; i < 2; i++) {
        ck_assert(!RLSourceIsValid(all[i]->source));
        RLRelease(all[i]->source);
    }
    ck_assert_int_ge(log_count(), 1);
    /* One that is made now goes on, though the loop has the number of the set by which the library recognised its descriptors. */
    RLKernelEvent event = {.filter = kRLKernelFilterTimer, .ident = 2, .data = 1, .fflags = kRLNoteMicroseconds};
    RLSourceRef source = RLKernelEventSourceCreate(&event, count_report, NULL);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    for (int i = 0; i < 3; i++) expect_reports();
    RLSourceInvalidate(source);
    RLRelease(source);
    expect_ended();
    end_children();
}

static void expect_report(void) {
    reports = 0;
    while (reports < 1) RLRunInMode(kRLDefaultMode, 10, true);
}
/* The only one that was opened since. */
static int opened_one(const DescriptorSet *before, const char *kind) {
    int numbers[8];
    ck_assert_int_ge(opened_since(before, kind, numbers), 1);
    return numbers[0];
}
static RLSourceRef make_repeating(uintptr_t ident) {
    RLKernelEvent event = {.filter = kRLKernelFilterTimer, .ident = ident, .data = 1000, .fflags = kRLNoteMicroseconds};
    return RLKernelEventSourceCreate(&event, count_report, NULL);
}

RL_TEST(the_next_source_has_another_number, "S-FD-18", "The end of a source whose timer was closed does not end the timer of the source that was made next") {
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, false);
    DescriptorSet before = descriptors_now();
    RLSourceRef first = make_repeating(1);
    close(opened_one(&before, "[timerfd]"));
    RLSourceRef second = make_repeating(2);
    RLAddSource(RLGetCurrent(), second, kRLDefaultMode);
    RLSourceInvalidate(first);
    RLRelease(first);
    for (int i = 0; i < 3; i++) expect_reports();
    RLSourceInvalidate(second);
    RLRelease(second);
}

RL_TEST(a_timer_beside_a_lost_instance, "S-FD-18 S-KEV-11", "Sources of files report where one of their instance's numbers was closed, and so does the timer that is made next") {
    char path[64];
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, false);
    snprintf(path, sizeof path, "/tmp/rl-beside.XXXXXX");
    int file = mkstemp(path);
    for (int which = 0; which < 2; which++) {
        DescriptorSet before = descriptors_now();
        int numbers[8];
        RLKernelEvent event = {.path = path, .filter = kRLKernelFilterVnode, .fflags = kRLNoteWrite};
        RLSourceRef source = RLKernelEventSourceCreate(&event, count_report, NULL);
        ck_assert_ptr_nonnull(source);
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        ck_assert_int_eq(opened_since(&before, "inotify", numbers), 2);
        close(numbers[which]);
        RLSourceRef timer_source = make_repeating(3);
        ck_assert_int_eq(write(file, "x", 1), 1);
        expect_report();
        RLSourceInvalidate(source);
        RLRelease(source);
        RLAddSource(RLGetCurrent(), timer_source, kRLDefaultMode);
        for (int i = 0; i < 3; i++) expect_reports();
        RLSourceInvalidate(timer_source);
        RLRelease(timer_source);
    }
    close(file);
    unlink(path);
}

RL_TEST(a_folder_whose_number_was_closed, "S-FD-18 S-KEV-11", "Where the number by which a source of a file knows its folder was closed, sources of other files there can be made") {
    char place[] = "/tmp/rl-folder.XXXXXX", paths[2][64];
    RLSourceRef sources[2];
    int files[2], numbers[8];
    ck_assert_ptr_nonnull(mkdtemp(place));
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%d", place, i);
        files[i] = open(paths[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    }
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, false);
    DescriptorSet before = descriptors_now();
    for (int i = 0; i < 2; i++) {
        RLKernelEvent event = {.path = paths[i], .filter = kRLKernelFilterVnode, .fflags = kRLNoteWrite};
        sources[i] = RLKernelEventSourceCreate(&event, count_report, NULL);
        ck_assert_ptr_nonnull(sources[i]);
        RLAddSource(RLGetCurrent(), sources[i], kRLDefaultMode);
        ck_assert_int_eq(write(files[i], "x", 1), 1);
        expect_report();
        if (i == 0) {
            ck_assert_int_eq(opened_since(&before, place, numbers), 1);
            close(numbers[0]);
        }
    }
    for (int i = 0; i < 2; i++) {
        RLSourceInvalidate(sources[i]);
        RLRelease(sources[i]);
        close(files[i]);
        unlink(paths[i]);
    }
    rmdir(place);
}

RL_TEST(another_folders_number, "S-FD-18 S-KEV-16", "The end of a source of a file whose folder's number was closed leaves the folder of the next source alone") {
    char places[2][32], paths[2][64];
    RLSourceRef sources[2];
    int numbers[8];
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, false);
    for (int i = 0; i < 2; i++) {
        snprintf(places[i], sizeof places[i], "/tmp/rl-folders.XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(places[i]));
        snprintf(paths[i], sizeof paths[i], "%s/file", places[i]);
        close(open(paths[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        DescriptorSet before = descriptors_now();
        RLKernelEvent event = {.path = paths[i], .filter = kRLKernelFilterVnode, .fflags = kRLNoteReplace | kRLNoteWrite};
        sources[i] = RLKernelEventSourceCreate(&event, count_report, NULL);
        ck_assert_ptr_nonnull(sources[i]);
        RLAddSource(RLGetCurrent(), sources[i], kRLDefaultMode);
        ck_assert_int_eq(opened_since(&before, places[i], numbers), 1);
        if (i == 0) close(numbers[0]);
    }
    RLSourceInvalidate(sources[0]);
    RLRelease(sources[0]);
    ck_assert_int_ge(fcntl(numbers[0], F_GETFD), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(other, sizeof other, "%s/new", places[1]);
        close(open(other, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        ck_assert_int_eq(rename(other, paths[1]), 0);
        expect_report();
    }
    RLSourceInvalidate(sources[1]);
    RLRelease(sources[1]);
    for (int i = 0; i < 2; i++) {
        unlink(paths[i]);
        rmdir(places[i]);
    }
}

RL_TEST(an_instance_of_the_programs_beside_the_second_number, "S-FD-18 S-KEV-11",
        "Sources of files report where an instance of the program's has the first number of their own, and the set that would show it, or the wake-up descriptor, was lost before") {
    make_files();
    for (int which = 0; which < 2; which++) {
        DescriptorSet before = descriptors_now();
        int numbers[8];
        file.source = RLKernelEventSourceCreate(&file.event, count_report, NULL);
        ck_assert_ptr_nonnull(file.source);
        ck_assert_int_eq(opened_since(&before, "[eventpoll]", numbers), 1);
        if (which == 0) close(numbers[0]);
        RLAddSource(RLGetCurrent(), file.source, kRLDefaultMode);
        RLRunInMode(kRLDefaultMode, 0, false);
        if (which == 1) {
            DescriptorSet nothing = {0};
            const int count = opened_since(&nothing, "[eventfd]", numbers);
            ck_assert_int_ge(count, 1);
            close(numbers[count - 1]);
            RLWakeUp(RLGetCurrent());
            RLRunInMode(kRLDefaultMode, 0, false);
        }
        ck_assert_int_eq(opened_since(&before, "inotify", numbers), 2);
        int mine = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        ck_assert_int_ge(inotify_add_watch(mine, other, IN_ATTRIB), 0);
        ck_assert_int_eq(dup3(mine, numbers[0], O_CLOEXEC), numbers[0]);
        reports = 0;
        ck_assert_int_eq(chmod(watched, which ? 0640 : 0600), 0);
        expect_report();
        ck_assert_int_ge(fcntl(numbers[0], F_GETFD), 0);
        close(numbers[0]);
        close(mine);
        RLSourceInvalidate(file.source);
        RLRelease(file.source);
    }
    remove_files();
}
