/* SPDX-License-Identifier: MIT */
/* Section 33: the source that tells that a distributed lock is free. */
#define _GNU_SOURCE
#include "support_distributedlock.h"
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* No room for watches, or not for those of files. */
static bool has_no_watches, has_no_file_watches;
/* The file is removed just before it is watched. */
static bool vanishes;
int inotify_add_watch(int fd, const char *name, uint32_t mask) {
    const bool is_file = strcmp(name + strlen(name) - strlen("/lock"), "/lock") == 0;
    if (has_no_watches || (has_no_file_watches && is_file)) {
        errno = ENOSPC;
        return -1;
    }
    if (vanishes && is_file) {
        vanishes = false;
        unlink(path);
    }
    return (int)syscall(SYS_inotify_add_watch, fd, name, mask);
}

/* Called once, when a look is about to start the timer of the next one, which is to come more than a second later. */
static void (*before_pause)(void);
int timerfd_settime(int fd, int flags, const struct itimerspec *new_value, struct itimerspec *old_value) {
    void (*call)(void) = new_value->it_value.tv_sec > 0 ? before_pause : NULL;
    if (call != NULL) {
        before_pause = NULL;
        call();
    }
    return (int)syscall(SYS_timerfd_settime, fd, flags, new_value, old_value);
}

/* So many times a lock is still there when the kernel is asked. */
static int looks_too_early;
int fcntl(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    struct flock *range = va_arg(list, struct flock *);
    va_end(list);
    if (command != F_OFD_GETLK || looks_too_early == 0) return (int)syscall(SYS_fcntl, fd, command, range);
    looks_too_early--;
    return 0; /* what was asked about */
}

static RLDistributedLockRef lock;
static RLSourceRef source;
static int reports;
static bool takes;

static void note(RLSourceRef reporting, const RLKernelEvent *event, void *info) {
    (void)info;
    ck_assert_ptr_eq(reporting, source);
    ck_assert_int_eq(event->filter, kRLKernelFilterDistributedLock);
    ck_assert_uint_eq(event->ident, (uintptr_t)lock);
    ck_assert_uint_eq(event->fflags, 0);
    ck_assert_int_eq(event->data, 0);
    ck_assert_str_eq(event->path, path);
    reports++;
    if (!takes || RLDistributedLockTryLock(lock)) RLStop(RLGetCurrent());
}

static RLSourceRef make_source(RLDistributedLockRef of, uint32_t flags, uint32_t fflags, int64_t data) {
    RLKernelEvent event = {(uintptr_t)of, kRLKernelFilterDistributedLock, flags, fflags, data, NULL};
    return RLKernelEventSourceCreate(&event, note, NULL);
}
/* With one look in a hundred seconds where the kernel tells nothing. */
static void add(int64_t data) {
    make_folder();
    lock = new_lock();
    source = make_source(lock, 0, 0, data);
    ck_assert_ptr_nonnull(source);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
}
static void end(void) {
    RLSourceInvalidate(source);
    RLRelease(source);
    RLRelease(lock);
    remove_folder();
}
static void expect_report(void) {
    reports = 0;
    expect_run(kRLDefaultMode, 1000, false, Stopped);
    ck_assert_int_ge(reports, 1);
}
static void expect_none(void) {
    reports = 0;
    RLRunInMode(kRLDefaultMode, 0.03, false);
    ck_assert_int_eq(reports, 0);
}
static void run_until_taken(void) {
    takes = true;
    expect_report();
    takes = false;
}

RL_TEST(a_free_lock_is_reported_at_once, "S-DLOCK-12", "The first look finds a free lock, of which there is no file, and the report takes nothing") {
    add(100000);
    expect_report();
    ck_assert_int_eq(count_files(), 0);
    expect_none();
    ck_assert(RLDistributedLockTryLock(lock));
    ck_assert(RLDistributedLockUnlock(lock));
    end();
}

RL_TEST(an_unlock_is_reported, "S-DLOCK-12", "A loop that waits is told when another process unlocks") {
    add(100000);
    expect_report();
    Holder holder = holder_start();
    expect_none();
    write_byte(holder.commands);
    run_until_taken();
    waitpid(holder.process, NULL, 0);
    ck_assert(RLDistributedLockUnlock(lock));
    expect_report();
    end();
}

static void kill_holder(void *holder) { holder_kill(holder); }

RL_TEST(the_end_of_a_process_is_reported, "S-DLOCK-4 S-DLOCK-12",
        "A loop that waits is told when the holder is killed, though the kernel tells of that before it frees the lock") {
    add(100000);
    expect_report();
    for (int i = 0; i < 20; i++) {
        Holder holder = holder_start();
        expect_none();
        Thread *killer = when_waiting(RLGetCurrent(), kill_holder, &holder);
        run_until_taken();
        thread_join(killer);
        ck_assert(RLDistributedLockUnlock(lock));
    }
    end();
}

RL_TEST(a_late_end_is_reported, "S-DLOCK-4 S-DLOCK-12", "A loop that waits is told of the end of the holder however much later the kernel frees the lock") {
    add(1);
    expect_report();
    Holder holder = holder_start();
    expect_none();
    looks_too_early = 6;
    holder_kill(&holder);
    run_until_taken();
    ck_assert_int_eq(looks_too_early, 0);
    ck_assert(RLDistributedLockUnlock(lock));
    end();
}

static void break_lock(void *unused) {
    (void)unused;
    RLDistributedLockRef breaker = new_lock();
    ck_assert(RLDistributedLockGetLockDate(breaker, NULL));
    ck_assert(RLDistributedLockBreakLock(breaker));
    RLRelease(breaker);
}
static void remove_file(void *unused) {
    (void)unused;
    ck_assert_int_eq(unlink(path), 0);
}

RL_TEST(a_break_is_reported, "S-DLOCK-8 S-DLOCK-12", "A loop that waits is told when the lock is broken, and when its file is removed") {
    add(100000);
    for (int i = 0; i < 2; i++) {
        Holder holder = holder_start();
        expect_none();
        Thread *breaker = when_waiting(RLGetCurrent(), i == 0 ? break_lock : remove_file, NULL);
        run_until_taken();
        thread_join(breaker);
        holder_kill(&holder);
        ck_assert(RLDistributedLockUnlock(lock));
    }
    end();
}

static void overflow(void) {
    char name[160];
    /* More than max_queued_events. */
    for (int i = 0; i < 40000; i++) {
        snprintf(name, sizeof name, "%s/other%d", folder, i % 2);
        close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        unlink(name);
    }
}

RL_TEST(what_nobody_saw_is_reported, "S-DLOCK-12", "A lock that was taken and unlocked before the loop looked is reported, also if the kernel forgot the events") {
    add(100000);
    expect_report();
    RLDistributedLockRef other = new_lock();
    for (int i = 0; i < 2; i++) {
        if (i == 1) overflow();
        ck_assert(RLDistributedLockTryLock(other));
        expect_error(RLDistributedLockTryLock(lock), EWOULDBLOCK);
        ck_assert(RLDistributedLockUnlock(other));
        expect_report();
    }
    RLRelease(other);
    end();
}

RL_TEST(it_retains_its_lock, "S-DLOCK-14", "The source keeps the lock's object, is told what it was made for, and takes no nonsense") {
    add(100000);
    RLRelease(lock); /* the source has it */
    RLKernelEvent event;
    ck_assert(RLKernelEventSourceGetEvent(source, &event));
    ck_assert_int_eq(event.data, 100000);
    ck_assert_uint_eq(event.fflags, 0);
    expect_report();
    RLRetain(lock);
    expect_error(make_source(NULL, 0, 0, 0), EINVAL);
    expect_error(make_source(lock, 0, 0, -1), EINVAL);
    expect_error(make_source(lock, 0, kRLNoteDelete, 0), EINVAL);
    ck_assert_int_eq(RLGetRetainCount(lock), 2);
    RLSourceRef disabled = make_source(lock, kRLKernelEventDisable, 0, 0);
    RLRelease(disabled);
    ck_assert_int_eq(RLGetRetainCount(lock), 2);
    end();
}

RL_TEST(a_one_shot_reports_once, "S-DLOCK-12 S-KEV-8", "A one-shot source is invalid after its report, and its lock free of it") {
    make_folder();
    lock = new_lock();
    source = make_source(lock, kRLKernelEventOneShot, 0, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    expect_report();
    ck_assert(!RLSourceIsValid(source));
    ck_assert_int_eq(RLGetRetainCount(lock), 1);
    end();
}

RL_TEST(shared_locks_are_looked_at, "S-DLOCK-13", "Where files are shared the source looks in its interval, and reports at each look that finds the lock free") {
    is_shared = true;
    add(1);
    expect_report();
    expect_report();
    Holder holder = holder_start();
    while (reports > 0) { /* one look may have been before the lock */
        reports = 0;
        RLRunInMode(kRLDefaultMode, 0.01, false);
    }
    expect_none();
    write_byte(holder.commands);
    run_until_taken();
    waitpid(holder.process, NULL, 0);
    ck_assert(RLDistributedLockUnlock(lock));
    end();
}

RL_TEST(without_watches_it_looks, "S-DLOCK-13", "Where the kernel has no room for a watch the source looks in its interval") {
    has_no_watches = true;
    add(1);
    has_no_watches = false;
    log_capture();
    Holder holder = holder_start();
    Thread *killer = when_waiting(RLGetCurrent(), kill_holder, &holder);
    run_until_taken();
    thread_join(killer);
    ck_assert_str_eq(log_text(), "");
    ck_assert(RLDistributedLockUnlock(lock));
    end();
}

RL_TEST(a_file_that_vanishes_needs_no_room, "S-DLOCK-12", "A source whose lock is unlocked while the source is made is told of later unlocks by the kernel") {
    make_folder();
    lock = new_lock();
    RLDistributedLockRef other = new_lock();
    ck_assert(RLDistributedLockTryLock(other));
    vanishes = true;
    source = make_source(lock, 0, 0, 100000);
    ck_assert(!vanishes);
    ck_assert_ptr_nonnull(source);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    expect_report();
    expect_error(RLDistributedLockUnlock(other), ESTALE);
    ck_assert(RLDistributedLockTryLock(other));
    expect_none();
    ck_assert(RLDistributedLockUnlock(other));
    expect_report();
    RLRelease(other);
    end();
}

static RLDistributedLockRef held;
/* The kernel's events are read whenever a source of a file is made. */
static void unlock_before_pause(void) {
    ck_assert(RLDistributedLockUnlock(held));
    const int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    RLKernelEvent event = {(uintptr_t)root, kRLKernelFilterVnode, 0, kRLNoteWrite, 0, NULL};
    RLSourceRef reader = RLKernelEventSourceCreate(&event, note, NULL);
    ck_assert_ptr_nonnull(reader);
    RLSourceInvalidate(reader);
    RLRelease(reader);
    close(root);
}

RL_TEST(an_unlock_during_a_look_is_reported, "S-DLOCK-12", "An unlock that the library learns of while a look sets the time of the next one causes a look at once, and not at that time only") {
    add(100000);
    expect_report();
    held = new_lock();
    has_no_file_watches = true;
    ck_assert(RLDistributedLockTryLock(held));
    before_pause = unlock_before_pause;
    run_until_taken();
    ck_assert_ptr_null(before_pause);
    has_no_file_watches = false;
    ck_assert(RLDistributedLockUnlock(lock));
    RLRelease(held);
    end();
}

static void expect_reports_of_new_folder(void) {
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    Holder holder = holder_start();
    expect_error(RLDistributedLockTryLock(lock), EWOULDBLOCK);
    write_byte(holder.commands);
    run_until_taken();
    waitpid(holder.process, NULL, 0);
    ck_assert(RLDistributedLockUnlock(lock));
    end();
}

RL_TEST(another_folder, "S-DLOCK-13", "A loop that waits is told of a lock whose folder was renamed and made anew") {
    char other[80];
    add(1);
    expect_report();
    snprintf(other, sizeof other, "%s-before", folder);
    ck_assert_int_eq(rename(folder, other), 0);
    ck_assert_int_eq(rmdir(other), 0);
    expect_reports_of_new_folder();
}

RL_TEST(a_removed_folder, "S-DLOCK-13", "A loop that waits is told of a lock whose folder was removed and made anew, which the kernel does not report") {
    add(1);
    expect_report();
    ck_assert_int_eq(rmdir(folder), 0);
    expect_reports_of_new_folder();
}

static int stranger_stops[2], stranger_goes_on[2];
static void stop_stranger(void) {
    write_byte(stranger_stops[1]);
    read_byte(stranger_goes_on[0]);
}

RL_TEST(a_stranger_may_not_break, "S-DLOCK-12", "While another user, who in the end may not remove it, has the right to remove a file that is no lock any more there is no report") {
    add(1);
    expect_report();
    Holder holder = holder_start();
    holder_kill(&holder);
    make_pipe(stranger_stops);
    make_pipe(stranger_goes_on);
    ck_assert_int_eq(chmod(folder, 01777), 0);
    ck_assert_int_eq(chmod(path, 0444), 0);
    const pid_t stranger = fork();
    if (stranger == 0) {
        if (getuid() == 0 && seteuid(65534) != 0) _exit(1);
        before_unlink = stop_stranger;
        (void)RLDistributedLockBreakLock(lock);
        _exit(0);
    }
    read_byte(stranger_stops[0]);
    takes = true;
    expect_none();
    write_byte(stranger_goes_on[1]);
    run_until_taken();
    waitpid(stranger, NULL, 0);
    ck_assert(RLDistributedLockUnlock(lock));
    end();
}

static void wait_in_child(void *unused) {
    (void)unused;
    /* The parent unlocks when the child's output ends, and not before: another thread does here. */
    reports = 0;
    run_until_taken();
    if (reports == 0 || !RLDistributedLockUnlock(lock)) _exit(1);
}

RL_TEST(a_child_is_told_too, "S-DLOCK-14", "The source of a child of fork reports by itself, and leaves that of the parent alone") {
    add(100000);
    expect_report();
    ChildResult result = run_child(wait_in_child, NULL);
    ck_assert_str_eq(result.output, "");
    ck_assert(WIFEXITED(result.status));
    ck_assert_int_eq(WEXITSTATUS(result.status), 0);
    expect_report();
    Holder holder = holder_start();
    expect_none();
    write_byte(holder.commands);
    run_until_taken();
    waitpid(holder.process, NULL, 0);
    ck_assert(RLDistributedLockUnlock(lock));
    end();
}

static void look_in_child(void *unused) {
    (void)unused;
    log_capture();
    for (int i = 0; i < 3; i++) expect_report();
    /* With room again. */
    has_no_watches = has_no_file_watches = false;
    RLSourceInvalidate(source);
    RLRelease(source);
    source = make_source(lock, 0, 0, 100000);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    expect_report();
    Holder holder = holder_start();
    expect_none();
    write_byte(holder.commands);
    run_until_taken();
    waitpid(holder.process, NULL, 0);
    ck_assert_str_eq(log_text(), "");
    _exit(RLDistributedLockUnlock(lock) ? 0 : 1);
}

RL_TEST(without_watches_the_child_looks, "S-DLOCK-14 S-DLOCK-13 S-KEV-11",
        "Where the kernel has no room for a watch in the child of fork the source looks in its interval there, and one that is made later is told") {
    for (int file_only = 0; file_only < 2; file_only++) {
        add(1);
        /* With a lock file that is not locked. */
        if (file_only) close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        expect_report();
        has_no_watches = !file_only;
        has_no_file_watches = file_only;
        ChildResult result = run_child(look_in_child, NULL);
        has_no_watches = has_no_file_watches = false;
        ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
        ck_assert(RLSourceIsValid(source));
        unlink(path);
        expect_report();
        end();
    }
}
