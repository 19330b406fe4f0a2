/* SPDX-License-Identifier: MIT */
/* Section 33: distributed locks, without their sources. */
#define _GNU_SOURCE
#include "support_distributedlock.h"
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static RLDistributedLockRef first, second, third;

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

RL_TEST(a_path_is_taken_at_creation, "S-DLOCK-1", "A relative path begins at the folder of the creation, and what cannot be a file is refused") {
    static const char *const wrong[] = {"", "/", "a/", "a/.", "..", "/tmp/.."};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) expect_error(RLDistributedLockCreate(wrong[i]), EINVAL);
    expect_error(RLDistributedLockCreate(NULL), EINVAL);
    make_folder();
    int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(chdir(folder), 0);
    first = RLDistributedLockCreate("lock");
    ck_assert_int_eq(count_files(), 0);
    ck_assert_int_eq(fchdir(before), 0);
    close(before);
    second = new_lock();
    ck_assert(RLDistributedLockTryLock(first));
    expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK);
    ck_assert(RLGetTypeIDOf(first) == RLDistributedLockGetTypeID());
    char *description = RLCopyDescription(first);
    ck_assert_ptr_nonnull(strstr(description, path));
    ck_assert_ptr_nonnull(strstr(description, "held = "));
    free(description);
    release_two();
}

static void unlock_first(void *unused) {
    (void)unused;
    ck_assert(RLDistributedLockUnlock(first));
}

RL_TEST(one_object_holds_the_lock, "S-DLOCK-2 S-DLOCK-6", "Two objects exclude each other, an object excludes itself, and any thread unlocks") {
    make_two();
    ck_assert(RLDistributedLockTryLock(first));
    expect_error(RLDistributedLockTryLock(first), EWOULDBLOCK);
    expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK);
    expect_error(RLDistributedLockUnlock(second), EPERM);
    ck_assert_int_eq(count_files(), 1);
    thread_join(thread_start(unlock_first, NULL));
    ck_assert_int_eq(count_files(), 0);
    expect_error(RLDistributedLockUnlock(first), EPERM);
    ck_assert(RLDistributedLockTryLock(second));
    RLRelease(second);
    second = new_lock();
    ck_assert_msg(RLDistributedLockTryLock(first), "the last release unlocks");
    release_two();
}

static long refused_call;
static int refusal;
static bool refuse(long number, const long argument[6], long *result) {
    if (number != refused_call || (number == SYS_openat && !(argument[2] & O_CREAT))) return false;
    *result = -1;
    errno = refusal;
    return true;
}
static void expect_refusal(long number, int error) {
    refused_call = number;
    refusal = error;
    hook_system_calls(refuse);
    expect_error(RLDistributedLockTryLock(first), error);
    hook_system_calls(NULL);
    ck_assert_int_eq(count_files(), 0);
    expect_error(RLDistributedLockUnlock(first), EPERM);
    ck_assert(RLDistributedLockTryLock(first));
    ck_assert(RLDistributedLockUnlock(first));
}

RL_TEST(what_cannot_be_locked_is_told, "S-DLOCK-3", "The error of the file system comes back, and no file and no descriptor are left") {
    make_two();
    const int descriptors = count_descriptors();
    for (int rule = 0; rule < 2; rule++) {
        is_shared = rule == 1;
        expect_refusal(SYS_openat, EROFS);
        expect_refusal(SYS_openat, EACCES);
        expect_refusal(SYS_openat, ENOSPC);
        expect_refusal(SYS_pwrite64, ENOSPC);
        expect_refusal(SYS_pwrite64, EDQUOT);
    }
    is_shared = false;
    struct rlimit limit, none;
    getrlimit(RLIMIT_NOFILE, &limit);
    none = (struct rlimit){3, limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    expect_error(RLDistributedLockTryLock(first), EMFILE);
    setrlimit(RLIMIT_NOFILE, &limit);
    ck_assert_int_eq(count_descriptors(), descriptors);
    expect_error(RLDistributedLockTryLock(NULL), EINVAL);
    expect_error(RLDistributedLockUnlock(NULL), EINVAL);
    expect_error(RLDistributedLockBreakLock(NULL), EINVAL);
    expect_error(RLDistributedLockGetLockDate(NULL, NULL), EINVAL);
    release_two();
    first = new_lock();
    expect_error(RLDistributedLockTryLock(first), ENOENT);
    expect_error(RLDistributedLockBreakLock(first), ENOENT);
    RLRelease(first);
}

RL_TEST(the_end_of_a_process_frees_its_lock, "S-DLOCK-4", "A killed process leaves a file, which is no lock, and the next one takes it") {
    make_two();
    for (int i = 0; i < 3; i++) {
        Holder holder = holder_start();
        expect_error(RLDistributedLockTryLock(first), EWOULDBLOCK);
        holder_kill(&holder);
        ck_assert_int_eq(count_files(), 1);
        expect_error(RLDistributedLockGetLockDate(second, NULL), ENOENT);
        ck_assert_msg(RLDistributedLockBreakLock(second), "there is nothing to break");
        ck_assert(RLDistributedLockTryLock(first));
        expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK);
        ck_assert(RLDistributedLockUnlock(first));
    }
    release_two();
}

RL_TEST(a_shared_lock_outlives_its_process, "S-DLOCK-5 S-DLOCK-8",
        "On a file system of several hosts the lock of a killed process is held until it is broken") {
    make_two();
    is_shared = true;
    Holder holder = holder_start();
    expect_error(RLDistributedLockTryLock(first), EWOULDBLOCK);
    holder_kill(&holder);
    expect_error(RLDistributedLockTryLock(first), EWOULDBLOCK);
    is_shared = false;
    expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK); /* a process of the file server */
    ck_assert(RLDistributedLockBreakLock(second));
    is_shared = true;
    ck_assert(RLDistributedLockTryLock(first));
    ck_assert(RLDistributedLockBreakLock(second));
    expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK); /* what was seen was over, this one is new */
    ck_assert(RLDistributedLockBreakLock(second));
    ck_assert(RLDistributedLockTryLock(second));
    ck_assert(RLDistributedLockBreakLock(third = new_lock())); /* it never looked */
    RLRelease(third);
    ck_assert_int_eq(count_files(), 0);
    expect_error(RLDistributedLockTryLock(first), EWOULDBLOCK); /* it does not know yet that it lost the lock */
    expect_error(RLDistributedLockUnlock(first), ESTALE);
    ck_assert(RLDistributedLockTryLock(first));
    expect_error(RLDistributedLockUnlock(second), ESTALE);
    ck_assert(RLDistributedLockUnlock(first));
    ck_assert(RLDistributedLockGetLockDate(second, NULL) == false);
    ck_assert(RLDistributedLockTryLock(first));
    ck_assert(RLDistributedLockBreakLock(second)); /* it saw none */
    ck_assert(RLDistributedLockUnlock(first));
    ck_assert(RLDistributedLockTryLock(first));
    expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK);
    ck_assert(RLDistributedLockBreakLock(second));
    ck_assert(RLDistributedLockTryLock(second));
    expect_error(RLDistributedLockUnlock(first), ESTALE);
    expect_error(RLDistributedLockUnlock(first), EPERM);
    ck_assert(RLDistributedLockUnlock(second));
    holder = holder_start();
    holder_unlock(&holder);
    release_two();
}

RL_TEST(a_shared_lock_is_a_link, "S-DLOCK-5", "A link whose answer was lost counts, and where there are no links the file is made exclusively") {
    make_two();
    is_shared = true;
    static const int errors[] = {-EIO, -EEXIST, EPERM, EOPNOTSUPP};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        link_error = errors[i];
        ck_assert(RLDistributedLockTryLock(first));
        ck_assert_int_eq(count_files(), 1);
        expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK);
        ck_assert(RLDistributedLockUnlock(first));
    }
    link_error = EIO;
    expect_error(RLDistributedLockTryLock(first), EIO);
    link_error = 0;
    release_two();
}

RL_TEST(a_lock_that_is_gone_is_not_removed, "S-DLOCK-6 S-DLOCK-8", "Unlock notices that the file was broken, removed or replaced") {
    for (int rule = 0; rule < 2; rule++) {
        make_two();
        is_shared = rule == 1;
        ck_assert(RLDistributedLockTryLock(first));
        ck_assert_int_eq(unlink(path), 0);
        expect_error(RLDistributedLockUnlock(first), ESTALE);
        expect_error(RLDistributedLockUnlock(first), EPERM);
        ck_assert(RLDistributedLockTryLock(first));
        ck_assert(RLDistributedLockBreakLock(second));
        ck_assert(RLDistributedLockTryLock(second));
        expect_error(RLDistributedLockUnlock(first), ESTALE);
        expect_error(RLDistributedLockTryLock(first), EWOULDBLOCK);
        ck_assert(RLDistributedLockUnlock(second));
        ck_assert(RLDistributedLockTryLock(first));
        ck_assert_msg(RLDistributedLockBreakLock(first), "the holder's own");
        ck_assert(RLDistributedLockTryLock(second));
        ck_assert(RLDistributedLockUnlock(second));
        release_two();
        is_shared = false;
    }
    make_two();
    ck_assert(RLDistributedLockTryLock(first));
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0);
    expect_error(RLDistributedLockUnlock(first), ESTALE);
    RLRelease(first);
    RLRelease(second);
}

RL_TEST(the_date_is_that_of_the_lock, "S-DLOCK-7", "The lock's date is there while it is held, for each object, and tells one lock from the next") {
    RLAbsoluteTime date = 1, again = 1;
    for (int rule = 0; rule < 2; rule++) {
        make_two();
        is_shared = rule == 1;
        expect_error(RLDistributedLockGetLockDate(first, &date), ENOENT);
        /* A file system's clock may be a tick behind. */
        const RLAbsoluteTime before = date_in(-0.1);
        ck_assert(RLDistributedLockTryLock(first));
        ck_assert(RLDistributedLockGetLockDate(first, &date));
        ck_assert(RLDistributedLockGetLockDate(second, &again));
        ck_assert_double_eq(date, again);
        ck_assert_double_ge(date, before);
        ck_assert_double_le(date, date_in(0));
        ck_assert(RLDistributedLockGetLockDate(second, NULL));
        /* Somebody else's clock, or a touch. */
        struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
        ck_assert_int_eq(utimensat(AT_FDCWD, path, old, 0), 0);
        ck_assert(RLDistributedLockGetLockDate(second, &date));
        ck_assert_double_eq(date, 1000000000 - kRLAbsoluteTimeIntervalSince1970);
        ck_assert_msg(RLDistributedLockUnlock(first), "a date is nobody's lock");
        release_two();
    }
}

static void break_and_lock_meanwhile(void) {
    /* Who removes the file has the right to it alone: nobody else breaks, and nobody locks. */
    expect_error(RLDistributedLockBreakLock(second), EBUSY);
    expect_error(RLDistributedLockTryLock(third), EWOULDBLOCK);
}

RL_TEST(a_breaker_breaks_what_it_saw, "S-DLOCK-8", "Two that saw an old lock do not break the new one of the first of them, also if both are about to remove the file") {
    make_two();
    third = new_lock();
    Holder holder = holder_start();
    expect_error(RLDistributedLockTryLock(first), EWOULDBLOCK);
    ck_assert(RLDistributedLockGetLockDate(second, NULL));
    before_unlink = break_and_lock_meanwhile;
    ck_assert(RLDistributedLockBreakLock(first));
    ck_assert_ptr_null(before_unlink);
    ck_assert(RLDistributedLockTryLock(first));
    ck_assert_msg(RLDistributedLockBreakLock(second), "what it saw is over");
    expect_error(RLDistributedLockTryLock(third), EWOULDBLOCK);
    before_unlink = break_and_lock_meanwhile;
    expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK);
    ck_assert(RLDistributedLockUnlock(first));
    ck_assert_ptr_null(before_unlink);
    holder_kill(&holder);
    RLRelease(third);
    release_two();
}

static void put_bytes(const char *bytes, size_t size) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, bytes, size), (ssize_t)size);
    close(file);
}
static void put_text(const char *text) { put_bytes(text, strlen(text)); }
static void expect_no_lock_file(int error) {
    for (int rule = 0; rule < 2; rule++) {
        is_shared = rule == 1;
        expect_error(RLDistributedLockTryLock(first), error);
        expect_error(RLDistributedLockGetLockDate(first, NULL), error);
        expect_error(RLDistributedLockBreakLock(first), error);
        ck_assert_int_eq(count_files(), 1);
    }
    is_shared = false;
}

RL_TEST(what_is_no_lock_file_is_left_alone, "S-DLOCK-9", "Folders, links, FIFOs and files with other contents are neither locked nor removed") {
    make_two();
    ck_assert_int_eq(mkdir(path, 0700), 0);
    expect_no_lock_file(EEXIST);
    rmdir(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    expect_no_lock_file(EEXIST);
    unlink(path);
    ck_assert_int_eq(symlink("/tmp/nowhere", path), 0);
    expect_no_lock_file(ELOOP);
    unlink(path);
    put_text("years of work");
    expect_no_lock_file(EEXIST);
    struct stat status;
    stat(path, &status);
    ck_assert_int_eq(status.st_size, 13);
    put_text("");
    ck_assert(RLDistributedLockTryLock(first));
    ck_assert(RLDistributedLockUnlock(first));
    release_two();
}

static void expect_left_alone(const char *bytes, size_t size) {
    put_bytes(bytes, size);
    expect_no_lock_file(EEXIST);
    struct stat status;
    stat(path, &status);
    ck_assert_int_eq(status.st_size, (off_t)size);
    unlink(path);
}

RL_TEST(what_begins_like_a_lock_file_is_left_alone, "S-DLOCK-9", "Data that begin with zeroes, or as lock files do, are neither locked nor removed") {
    make_two();
    static const char film[200] = "\0\0\0\030ftypisom", zeroes[97], words[] = "RLDistributedLock is a type of which so much can be said that it does not "
        "fit into ninety-six bytes, however few words are made.";
    expect_left_alone(film, sizeof film);
    expect_left_alone(film, 20);
    expect_left_alone(zeroes, sizeof zeroes);
    expect_left_alone(words, sizeof words - 1);
    expect_left_alone(words, 96);
    /* Of a note's length, with a number that does not end in it, and with none in its place. */
    char note[96] = "RLDistributedLock shared ";
    memset(note + 25, '1', sizeof note - 25);
    expect_left_alone(note, sizeof note);
    note[95] = '\n';
    expect_left_alone(note, sizeof note);
    /* Of its length, with a number where that of a note is. */
    static const char *const texts[] = {"RLDistributedLock is not 0123456789abcdef process 1", "RLDistributedLock later: 0123456789abcdef process 1",
                                        "RLDistributedLock local  0x23456789abcdef process 1", "RLDistributedLock local  0123456789abcdefs process"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        memset(note, ' ', sizeof note - 1);
        memcpy(note, texts[i], strlen(texts[i]));
        expect_left_alone(note, sizeof note);
    }
    put_bytes(zeroes, 96);
    ck_assert_msg(RLDistributedLockTryLock(first), "what a power failure left of a note");
    ck_assert(RLDistributedLockUnlock(first));
    release_two();
}

RL_TEST(a_socket_is_no_lock_file, "S-DLOCK-9", "A socket with the name is reported as being there, like a folder") {
    make_two();
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ck_assert_int_lt(snprintf(address.sun_path, sizeof address.sun_path, "%s", path), (int)sizeof address.sun_path);
    int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(file, (struct sockaddr *)&address, sizeof address), 0);
    expect_no_lock_file(EEXIST);
    close(file);
    unlink(path);
    release_two();
}

static void use_in_child(void *unused) {
    (void)unused;
    expect_error(RLDistributedLockUnlock(first), EPERM);
    expect_error(RLDistributedLockTryLock(first), EWOULDBLOCK);
    expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK);
    RLRelease(first);
}

RL_TEST(a_child_holds_nothing, "S-DLOCK-10", "A child of fork holds no lock of its parent and takes none away") {
    for (int rule = 0; rule < 2; rule++) {
        make_two();
        is_shared = rule == 1;
        ck_assert(RLDistributedLockTryLock(first));
        ChildResult result = run_child(use_in_child, NULL);
        ck_assert_str_eq(result.output, "");
        ck_assert(WIFEXITED(result.status));
        ck_assert_int_eq(WEXITSTATUS(result.status), 0);
        expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK);
        ck_assert(RLDistributedLockUnlock(first));
        is_shared = false;
        release_two();
    }
}

RL_TEST(a_child_outlives_the_lock, "S-DLOCK-10", "The end of a process frees its lock while its children live, forked and executed ones") {
    make_two();
    int answers[2], commands[2];
    make_pipe(answers);
    make_pipe(commands);
    pid_t process = fork();
    if (process == 0) {
        if (!RLDistributedLockTryLock(first)) _exit(1);
        pid_t child = fork();
        if (child == 0) {
            char command;
            close(commands[1]);
            if (fork() == 0) {
                dup2(commands[0], 0);
                execlp("cat", "cat", (char *)NULL);
            }
            write_byte(answers[1]);
            _exit(read(commands[0], &command, 1) == 0 ? 0 : 1);
        }
        pause();
    }
    close(commands[0]);
    read_byte(answers[0]);
    expect_error(RLDistributedLockTryLock(first), EWOULDBLOCK);
    kill(process, SIGKILL);
    ck_assert_int_eq(waitpid(process, NULL, 0), process);
    ck_assert(RLDistributedLockTryLock(first));
    close(commands[1]);
    close(answers[0]);
    close(answers[1]);
    release_two();
}

RL_TEST(a_closed_descriptor_frees_the_lock, "S-DLOCK-11", "A lock whose descriptor the program closed is free, and what has its number is not closed") {
    make_two();
    const DescriptorSet before = descriptors_now();
    ck_assert(RLDistributedLockTryLock(first));
    const DescriptorSet now = descriptors_now();
    int number = 0;
    while (now.open[number] == before.open[number]) number++;
    ck_assert_int_eq(dup2(0, number), number);
    ck_assert(RLDistributedLockTryLock(second));
    expect_error(RLDistributedLockUnlock(first), ESTALE);
    ck_assert_int_ge(fcntl(number, F_GETFD), 0);
    close(number);
    expect_error(RLDistributedLockTryLock(first), EWOULDBLOCK);
    release_two();
}

/* ---- killed at any call */

static int calls_left;
static void count_call(void) {
    if (calls_left-- == 0) raise(SIGKILL);
}
static bool count_calls(long number, const long argument[6], long *result) {
    (void)number, (void)argument, (void)result;
    count_call();
    return false;
}
static void lock_and_unlock(void *unused) {
    (void)unused;
    hook_system_calls(count_calls);
    before_unlink = count_call;
    if (!RLDistributedLockTryLock(first)) _exit(1);
    before_unlink = count_call;
    if (!RLDistributedLockUnlock(first)) _exit(2);
}

RL_TEST(killed_at_each_call, "S-DLOCK-4 S-DLOCK-5", "A process that is killed before any of its calls leaves the lock free, or, where files are shared, one that can be broken") {
    make_two();
    for (int rule = 0; rule < 2; rule++) {
        is_shared = rule == 1;
        bool was_killed = true;
        for (int calls = 0; was_killed; calls++) {
            ck_assert_int_lt(calls, 60);
            calls_left = calls;
            ChildResult result = run_child(lock_and_unlock, NULL);
            was_killed = WIFSIGNALED(result.status);
            if (!was_killed) ck_assert_int_eq(WEXITSTATUS(result.status), 0);
            bool is_free = RLDistributedLockTryLock(first);
            ck_assert(is_free || is_shared);
            if (!is_free) {
                ck_assert(RLDistributedLockBreakLock(first));
                ck_assert(RLDistributedLockTryLock(first));
            }
            expect_error(RLDistributedLockTryLock(second), EWOULDBLOCK);
            ck_assert(RLDistributedLockUnlock(first));
        }
    }
    is_shared = false;
    char command[128];
    snprintf(command, sizeof command, "rm -f %s/.rl-*", folder);
    ck_assert_int_eq(system(command), 0);
    release_two();
}
