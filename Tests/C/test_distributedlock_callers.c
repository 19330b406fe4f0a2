/* SPDX-License-Identifier: MIT */
/* Section 33 where several callers meet: threads, forks, mistakes of the program, and no room. */
#define _GNU_SOURCE
#include "support_distributedlock.h"
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static RLDistributedLockRef first, second;
static void make_two(void) {
    make_folder();
    first = new_lock();
    second = new_lock();
}
static void release_two(void) {
    RLRelease(first);
    RLRelease(second);
    remove_folder();
}

RL_TEST(an_unlock_without_room, "S-DLOCK-6", "Unlock needs no further descriptor: the file is removed where the process may open none") {
    make_two();
    ck_assert(RLDistributedLockTryLock(first));
    struct rlimit limit, none;
    getrlimit(RLIMIT_NOFILE, &limit);
    none = (struct rlimit){3, limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    const bool is_unlocked = RLDistributedLockUnlock(first);
    setrlimit(RLIMIT_NOFILE, &limit);
    ck_assert(is_unlocked);
    ck_assert_int_eq(count_files(), 0);
    release_two();
}

RL_TEST(the_same_number_again, "S-DLOCK-11", "A lock whose descriptor the program closed leaves the lock alone that another object took by the same number") {
    make_two();
    const DescriptorSet before = descriptors_now();
    ck_assert(RLDistributedLockTryLock(first));
    const DescriptorSet now = descriptors_now();
    int number = 0;
    while (now.open[number] == before.open[number]) number++;
    close(number);
    ck_assert(RLDistributedLockTryLock(second));
    ck_assert_int_ge(fcntl(number, F_GETFD), 0);
    expect_error(RLDistributedLockUnlock(first), ESTALE);
    ck_assert_int_eq(count_files(), 1);
    expect_error(RLDistributedLockTryLock(first), EWOULDBLOCK);
    ck_assert(RLDistributedLockUnlock(second));
    release_two();
}

/* ---- files of other users */

static RLDistributedLockRef later;
static bool is_later_held;

/* As the user that may write the folder, and read the lock's file. */
static void be_stranger(bool is_stranger) {
    if (getuid() == 0) ck_assert_int_eq(seteuid(is_stranger ? 65534 : 0), 0);
}
static void unlock_and_lock_again(void) {
    be_stranger(false);
    (void)RLDistributedLockUnlock(first);
    is_later_held = RLDistributedLockTryLock(later);
    be_stranger(true);
}
static void break_and_lock_again(void) {
    (void)RLDistributedLockBreakLock(second);
    unlock_and_lock_again();
}
static void break_as_stranger(void (*meanwhile)(void)) {
    make_two();
    later = new_lock();
    is_later_held = false;
    ck_assert(RLDistributedLockTryLock(first));
    ck_assert_int_eq(chmod(folder, 0777), 0);
    ck_assert_int_eq(chmod(path, 0444), 0);
    RLDistributedLockRef breaker = new_lock();
    before_unlink = meanwhile;
    be_stranger(true);
    ck_assert(RLDistributedLockBreakLock(breaker));
    be_stranger(false);
    ck_assert_msg(!is_later_held || RLDistributedLockUnlock(later), "a lock that was taken later was broken");
    RLDistributedLockUnlock(first);
    RLRelease(breaker);
    RLRelease(later);
    release_two();
}

RL_TEST(a_stranger_breaks, "S-DLOCK-8", "Who may only read the file of a lock breaks no lock that was taken after that one was unlocked") {
    break_as_stranger(unlock_and_lock_again);
}

RL_TEST(two_strangers_break, "S-DLOCK-8", "Two who may only read the file of a lock break no lock that was taken after one of them broke that one") {
    break_as_stranger(break_and_lock_again);
}

RL_TEST(a_note_that_does_not_fit, "S-DLOCK-3", "A note that is cut short by the limit of file sizes is no room, and no file is left") {
    make_two();
    struct rlimit limit, little;
    getrlimit(RLIMIT_FSIZE, &limit);
    little = (struct rlimit){50, limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &little);
    errno = 0;
    const bool is_locked = RLDistributedLockTryLock(first);
    const int error = errno;
    setrlimit(RLIMIT_FSIZE, &limit);
    ck_assert(!is_locked);
    ck_assert_int_eq(error, EFBIG);
    release_two();
}

static void be_killed(void) { raise(SIGKILL); }
static void lock_with_little_room(void *unused) {
    (void)unused;
    struct rlimit little;
    getrlimit(RLIMIT_FSIZE, &little);
    little.rlim_cur = 50;
    setrlimit(RLIMIT_FSIZE, &little);
    before_unlink = be_killed;
    (void)RLDistributedLockTryLock(first);
}

RL_TEST(a_part_of_a_note, "S-DLOCK-4", "A process that has room for a part of a note, and is killed then, leaves nothing that could not be locked") {
    make_two();
    run_child(lock_with_little_room, NULL);
    ck_assert(RLDistributedLockTryLock(second));
    release_two();
}

static bool refuse_as_leased(long number, const long argument[6], long *result) {
    /* The folder can be opened. */
    if (number != SYS_openat || (int)argument[0] == AT_FDCWD) return false;
    *result = -1;
    errno = EAGAIN;
    return true;
}

RL_TEST(a_leased_file, "S-DLOCK-15 S-DLOCK-8", "A file that another process has a lease of is locked by nobody, has no date that could be told, and is not broken") {
    make_two();
    ck_assert(RLDistributedLockTryLock(second));
    RLAbsoluteTime date = 1;
    hook_system_calls(refuse_as_leased);
    expect_error(RLDistributedLockTryLock(first), EWOULDBLOCK);
    expect_error(RLDistributedLockGetLockDate(first, &date), EBUSY);
    expect_error(RLDistributedLockBreakLock(first), EBUSY);
    hook_system_calls(NULL);
    ck_assert_double_eq(date, 1);
    /* What it could not see it does not break. */
    expect_error(RLDistributedLockBreakLock(first), EBUSY);
    hook_system_calls(refuse_as_leased);
    expect_error(RLDistributedLockTryLock(first), EWOULDBLOCK);
    hook_system_calls(NULL);
    expect_error(RLDistributedLockBreakLock(first), EBUSY);
    ck_assert(RLDistributedLockUnlock(second));
    ck_assert(RLDistributedLockTryLock(first));
    release_two();
}

static char elsewhere[160];
static bool lock_before_it_is_made(long number, const long argument[6], long *result) {
    if (number != SYS_openat || !(argument[2] & O_CREAT)) return false;
    ck_assert_int_eq(rename(elsewhere, path), 0);
    *result = -1;
    errno = EACCES;
    return true;
}

RL_TEST(a_file_that_another_user_makes, "S-DLOCK-3",
        "In a folder as /tmp the kernel may refuse to open a file that another user made at that moment, who has the lock then") {
    make_two();
    snprintf(elsewhere, sizeof elsewhere, "%s.elsewhere", path);
    ck_assert(RLDistributedLockTryLock(second));
    ck_assert_int_eq(rename(path, elsewhere), 0);
    hook_system_calls(lock_before_it_is_made);
    expect_error(RLDistributedLockTryLock(first), EWOULDBLOCK);
    hook_system_calls(NULL);
    ck_assert(RLDistributedLockUnlock(second));
    release_two();
}

/* Answers the attempt to open another user's file for writing, when that user has the lock. */
static bool lock_before_it_is_opened(long number, const long argument[6], long *result) {
    if (number != SYS_openat || (argument[2] & O_ACCMODE) != O_RDWR) return false;
    ck_assert_int_eq(rename(elsewhere, path), 0);
    hook_system_calls(NULL);
    *result = -1;
    errno = EACCES;
    return true;
}
static bool refuse_to_open(long number, const long argument[6], long *result) {
    if (number != SYS_openat || (argument[2] & O_ACCMODE) != O_RDWR) return false;
    *result = -1;
    errno = EACCES;
    return true;
}

RL_TEST(a_file_that_another_user_has_made, "S-DLOCK-3",
        "A file of another user who has not locked it yet is no reason to say that the lock cannot be taken, unless it stays that way") {
    make_two();
    snprintf(elsewhere, sizeof elsewhere, "%s.elsewhere", path);
    ck_assert(RLDistributedLockTryLock(second));
    ck_assert_int_eq(rename(path, elsewhere), 0);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    hook_system_calls(lock_before_it_is_opened);
    expect_error(RLDistributedLockTryLock(first), EWOULDBLOCK);
    ck_assert(RLDistributedLockUnlock(second));
    ck_assert_int_eq(count_files(), 0);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    hook_system_calls(refuse_to_open);
    expect_error(RLDistributedLockTryLock(first), EACCES);
    hook_system_calls(NULL);
    ck_assert_int_eq(unlink(path), 0);
    release_two();
}

static void break_in_child(void *unused) {
    (void)unused;
    ck_assert(RLDistributedLockBreakLock(second));
    ck_assert(RLDistributedLockBreakLock(first));
    expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK);
}

RL_TEST(a_child_breaks_what_was_seen, "S-DLOCK-8 S-DLOCK-10", "The child of fork breaks no lock that was taken after its object looked, nor by its object a lock of the parent's") {
    make_two();
    ck_assert(RLDistributedLockTryLock(first));
    expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK);
    ck_assert(RLDistributedLockUnlock(first));
    ck_assert(RLDistributedLockTryLock(first));
    ChildResult result = run_child(break_in_child, NULL);
    ck_assert_str_eq(result.output, "");
    ck_assert(WIFEXITED(result.status));
    ck_assert_int_eq(WEXITSTATUS(result.status), 0);
    ck_assert(RLDistributedLockUnlock(first));
    release_two();
}

RL_TEST(the_limit_of_file_sizes_ends_no_process, "S-DLOCK-3",
        "Where files may not grow at all the lock is refused by an error and not by a signal, on either kind of file system") {
    make_two();
    struct rlimit limit, none;
    sigset_t pending;
    getrlimit(RLIMIT_FSIZE, &limit);
    none = (struct rlimit){0, limit.rlim_max};
    for (int i = 0; i < 2; i++) {
        is_shared = i == 1;
        /* The macros of the tests write to a file. */
        setrlimit(RLIMIT_FSIZE, &none);
        const bool is_locked = RLDistributedLockTryLock(first);
        const int error = errno;
        setrlimit(RLIMIT_FSIZE, &limit);
        ck_assert(!is_locked);
        ck_assert_int_eq(error, EFBIG);
        ck_assert_int_eq(count_files(), 0);
        sigpending(&pending);
        ck_assert(!sigismember(&pending, SIGXFSZ));
    }
    is_shared = false;
    ck_assert(RLDistributedLockTryLock(second));
    release_two();
}

/* ---- a fork while another thread breaks */

static Gate breaks, has_forked;
static bool stops_at_break;
static bool stop_at_pread(long number, const long argument[6], long *result) {
    (void)argument, (void)result;
    if (number == SYS_pread64 && __atomic_exchange_n(&stops_at_break, false, __ATOMIC_SEQ_CST)) {
        gate_open(&breaks);
        gate_wait(&has_forked);
    }
    return false;
}
static void break_first(void *unused) {
    (void)unused;
    ck_assert(RLDistributedLockBreakLock(first));
}

RL_TEST(a_fork_while_another_thread_breaks, "S-DLOCK-10 S-DLOCK-8", "A child that is forked while a lock is broken keeps nobody from locking") {
    make_two();
    /* A file of an ended holder stays where it is when it is broken. */
    Holder holder = holder_start();
    holder_kill(&holder);
    breaks = has_forked = (Gate)GATE_INITIALIZER;
    stops_at_break = true;
    hook_system_calls(stop_at_pread);
    Thread *breaker = thread_start(break_first, NULL);
    gate_wait(&breaks);
    int ends[2];
    make_pipe(ends);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        char end;
        _exit(read(ends[0], &end, 1) == 0 ? 0 : 1);
    }
    close(ends[0]);
    gate_open(&has_forked);
    thread_join(breaker);
    hook_system_calls(NULL);
    const bool is_locked = RLDistributedLockTryLock(second);
    close(ends[1]);
    waitpid(child, NULL, 0);
    ck_assert(is_locked);
    ck_assert(RLDistributedLockUnlock(second));
    release_two();
}

/* ---- a look at a lock that is just taken */

static Gate writes, may_write;
static bool stops_at_note;
static bool stop_at_note(long number, const long argument[6], long *result) {
    (void)argument, (void)result;
    if (number == SYS_pwrite64 && __atomic_exchange_n(&stops_at_note, false, __ATOMIC_SEQ_CST)) {
        gate_open(&writes);
        gate_wait(&may_write);
    }
    return false;
}
static void lock_first(void *unused) {
    (void)unused;
    ck_assert(RLDistributedLockTryLock(first));
}

RL_TEST(a_holder_that_is_seen_early, "S-DLOCK-8", "A holder that was seen before it had written its note is not said to be over while it goes on") {
    for (int leaves = 0; leaves < 2; leaves++) {
        make_two();
        if (leaves) {
            Holder holder = holder_start();
            holder_kill(&holder);
        }
        writes = may_write = (Gate)GATE_INITIALIZER;
        stops_at_note = true;
        hook_system_calls(stop_at_note);
        Thread *locker = thread_start(lock_first, NULL);
        gate_wait(&writes);
        expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK);
        gate_open(&may_write);
        thread_join(locker);
        hook_system_calls(NULL);
        expect_error(RLDistributedLockBreakLock(second), EBUSY);
        ck_assert(RLDistributedLockUnlock(first));
        ck_assert_msg(RLDistributedLockBreakLock(second), "it is over");
        release_two();
    }
}

/* ---- a break of a lock that is just taken */

static Gate has_read, may_ask;
static bool stops_at_right, unlocks, has_no_memory;
static _Thread_local bool breaks_here;
/* fcntl(2): the thread that breaks has read the file, and asks for the right to remove it. With that right it sees twice that the lock is
 * held, before and after it has read the file again; then, if `unlocks`, the holder unlocks. */
int fcntl(int file, int command, ...) {
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    if (command == F_OFD_SETLK && breaks_here && __atomic_exchange_n(&stops_at_right, false, __ATOMIC_SEQ_CST)) {
        gate_open(&has_read);
        gate_wait(&may_ask);
    }
    if (command == F_OFD_SETLK && has_no_memory) {
        errno = ENOLCK;
        return -1;
    }
    const int result = (int)syscall(SYS_fcntl, file, command, argument);
    static _Thread_local int looks;
    if (command == F_OFD_GETLK && breaks_here && unlocks && ++looks == 2) {
        breaks_here = false;
        ck_assert(RLDistributedLockUnlock(first));
    }
    return result;
}
static int break_error;
static void break_second(void *unused) {
    (void)unused;
    breaks_here = true;
    errno = 0;
    break_error = RLDistributedLockBreakLock(second) ? 0 : errno;
}

RL_TEST(a_holder_that_writes_during_the_break, "S-DLOCK-8", "A holder that writes its note while another object breaks the lock is not said to be over while it goes on") {
    for (int i = 0; i < 4; i++) {
        const bool looks = i & 1;
        unlocks = i & 2;
        make_two();
        writes = may_write = has_read = may_ask = (Gate)GATE_INITIALIZER;
        stops_at_note = stops_at_right = true;
        hook_system_calls(stop_at_note);
        Thread *locker = thread_start(lock_first, NULL);
        gate_wait(&writes);
        if (looks) expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK);
        Thread *breaker = thread_start(break_second, NULL);
        gate_wait(&has_read);
        gate_open(&may_write);
        thread_join(locker);
        gate_open(&may_ask);
        thread_join(breaker);
        hook_system_calls(NULL);
        if (break_error == 0) {
            expect_error(RLDistributedLockUnlock(first), unlocks ? EPERM : ESTALE);
        } else {
            ck_assert_int_eq(break_error, EBUSY);
            if (!unlocks) ck_assert(RLDistributedLockUnlock(first));
        }
        /* The holder did not find the right to remove the file. */
        release_two();
    }
}

RL_TEST(no_memory_for_a_lock, "S-DLOCK-3 S-DLOCK-9", "Where the kernel has no memory for a lock what is left of the attempt is no held lock") {
    make_two();
    has_no_memory = true;
    expect_error(RLDistributedLockTryLock(first), ENOLCK);
    has_no_memory = false;
    expect_error(RLDistributedLockGetLockDate(second, NULL), ENOENT);
    ck_assert(RLDistributedLockTryLock(second));
    ck_assert(RLDistributedLockUnlock(second));
    release_two();
}

/* ---- a look that a fork interrupts */

static Gate looks_again, is_forked;
static bool stops_second_look;
static bool stop_second_look(long number, const long argument[6], long *result) {
    (void)argument, (void)result;
    if (number == SYS_pread64 && __atomic_exchange_n(&stops_second_look, false, __ATOMIC_SEQ_CST)) {
        gate_open(&looks_again);
        gate_wait(&is_forked);
    }
    return false;
}
static void look_again(void *unused) {
    (void)unused;
    (void)RLDistributedLockTryLock(second);
}

RL_TEST(a_fork_while_another_thread_looks, "S-DLOCK-10 S-DLOCK-8", "What an object saw, the child has seen too, when another thread is looking again at the fork") {
    make_two();
    ck_assert(RLDistributedLockTryLock(first));
    expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK);
    looks_again = is_forked = (Gate)GATE_INITIALIZER;
    stops_second_look = true;
    hook_system_calls(stop_second_look);
    Thread *looker = thread_start(look_again, NULL);
    gate_wait(&looks_again);
    const pid_t child = fork();
    if (child == 0) _exit(RLDistributedLockBreakLock(second) ? 0 : 1);
    int status;
    waitpid(child, &status, 0);
    gate_open(&is_forked);
    thread_join(looker);
    hook_system_calls(NULL);
    ck_assert_int_eq(status, 0);
    expect_error(RLDistributedLockUnlock(first), ESTALE);
    release_two();
}

/* ---- the source */

static RLDistributedLockRef watched;
static RLSourceRef source;
static int reports;
static void note(RLSourceRef reporting, const RLKernelEvent *event, void *info) {
    (void)reporting, (void)event, (void)info;
    reports++;
    RLStop(RLGetCurrent());
}
static void watch(int64_t pause) {
    RLKernelEvent event = {(uintptr_t)watched, kRLKernelFilterDistributedLock, 0, 0, pause, NULL};
    source = RLKernelEventSourceCreate(&event, note, NULL);
    ck_assert_ptr_nonnull(source);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
}

static int refused_openings;
static bool refuse_files(long number, const long argument[6], long *result) {
    /* The folder can be opened, the file cannot. */
    if (number != SYS_openat || (int)argument[0] == AT_FDCWD) return false;
    __atomic_add_fetch(&refused_openings, 1, __ATOMIC_SEQ_CST);
    *result = -1;
    errno = EMFILE;
    return true;
}

RL_TEST(a_shortage_of_descriptors_ends, "S-DLOCK-12 S-DLOCK-13", "A lock that cannot be looked at for want of a descriptor is looked at again, until there is one") {
    make_folder();
    watched = new_lock();
    hook_system_calls(refuse_files);
    watch(1);
    while (__atomic_load_n(&refused_openings, __ATOMIC_SEQ_CST) < 2) RLRunInMode(kRLDefaultMode, 0.01, false);
    RLRunInMode(kRLDefaultMode, 0.03, false);
    ck_assert_int_eq(reports, 0);
    hook_system_calls(NULL);
    expect_run(kRLDefaultMode, 1000, false, Stopped);
    RLSourceInvalidate(source);
    RLRelease(source);
    RLRelease(watched);
    remove_folder();
}

static Gate looks, goes_on;
static bool stops_at_look;
static int other_names;
static bool stop_at_look(long number, const long argument[6], long *result) {
    (void)result;
    if (number == SYS_openat && (int)argument[0] == AT_FDCWD && __atomic_exchange_n(&stops_at_look, false, __ATOMIC_SEQ_CST)) {
        gate_open(&looks);
        gate_wait(&goes_on);
        if (strcmp((const char *)argument[1], folder) != 0) __atomic_add_fetch(&other_names, 1, __ATOMIC_SEQ_CST);
    }
    return false;
}
static void look_at_it(LoopThread *self) {
    (void)self;
    watch(1);
    __atomic_store_n(&stops_at_look, true, __ATOMIC_SEQ_CST);
    RLRunInMode(kRLDefaultMode, 1, false);
}
static void invalidate_source(void *done) {
    RLSourceInvalidate(source);
    __atomic_store_n((int *)done, 1, __ATOMIC_SEQ_CST);
}

RL_TEST(an_end_during_a_look, "S-DLOCK-14 S-THR-1", "A source that another thread invalidates while it looks keeps its lock until it has looked") {
    make_folder();
    watched = new_lock();
    looks = goes_on = (Gate)GATE_INITIALIZER;
    hook_system_calls(stop_at_look);
    LoopThread other;
    loop_thread_start(&other, look_at_it, NULL);
    gate_wait(&looks);
    static int is_done;
    RLRelease(watched);
    Thread *thread = thread_start(invalidate_source, &is_done);
    /* It may wait for the look, or be done. */
    for (int i = 0; i < 50 && !count_of(&is_done); i++) take_time(0.001);
    gate_open(&goes_on);
    thread_join(thread);
    thread_join(other.thread);
    hook_system_calls(NULL);
    ck_assert_int_eq(other_names, 0);
    RLRelease(source);
    remove_folder();
}

static int reads_that_fail;
static bool fail_reads(long number, const long argument[6], long *result) {
    (void)argument;
    if (number != SYS_pread64 || reads_that_fail == 0) return false;
    reads_that_fail--;
    errno = EIO;
    *result = -1;
    return true;
}

RL_TEST(a_read_that_fails_says_nothing, "S-DLOCK-6 S-DLOCK-3 S-DLOCK-8", "Where the file system does not give the lock's file, Unlock, TryLock and BreakLock fail with its error, and whoever holds the lock still does") {
    make_two();
    hook_system_calls(fail_reads);
    for (int rule = 0; rule < 2; rule++) {
        is_shared = rule == 1;
        ck_assert(RLDistributedLockTryLock(first));
        reads_that_fail = 1;
        expect_error(RLDistributedLockTryLock(second), EIO);
        reads_that_fail = 1;
        expect_error(RLDistributedLockBreakLock(second), EIO);
        expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK);
        if (is_shared) {
            reads_that_fail = 1;
            expect_error(RLDistributedLockUnlock(first), EIO);
        }
        ck_assert_int_eq(reads_that_fail, 0);
        ck_assert(RLDistributedLockUnlock(first));
        ck_assert(RLDistributedLockTryLock(second));
        ck_assert(RLDistributedLockUnlock(second));
    }
    hook_system_calls(NULL);
    release_two();
}
