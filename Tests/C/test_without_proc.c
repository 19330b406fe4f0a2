/* SPDX-License-Identifier: MIT */
/* Where /proc does not say what it usually says: after the main thread's end, behind chroot(2), and of threads that it does not have. */
#define _GNU_SOURCE
#include "support.h"
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char folder[64];
static void make_folder(void) {
    strcpy(folder, "/tmp/runloop-proc-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}
static void remove_folder(void) {
    for (int i = 0; i < 2; i++) unlinkat(AT_FDCWD, i ? "b" : "a", 0);
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}
static void append(const char *name) {
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "x", 1), 1);
    close(fd);
}

static uint32_t seen;
static void note(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)info;
    seen |= event->fflags;
}
/* By its path, or by a descriptor. */
static RLSourceRef watch(const char *path, int fd, uint32_t fflags) {
    RLKernelEvent event = {(uintptr_t)fd, kRLKernelFilterVnode, 0, fflags, 0, path};
    RLSourceRef source = RLKernelEventSourceCreate(&event, note, NULL);
    if (source) RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    return source;
}
static void expect_seen(uint32_t notes) {
    while (RLRunInMode(kRLDefaultMode, 0, true) == kRLRunHandledSource) continue;
    ck_assert_uint_eq(seen, notes);
    seen = 0;
}
/* "a" is watched by its name in the working directory. */
static void replace_a(void) {
    append("a");
    expect_seen(kRLNoteWrite);
    append("b");
    ck_assert_int_eq(rename("b", "a"), 0);
    expect_seen(kRLNoteReplace);
    append("a");
    expect_seen(kRLNoteWrite);
}

/* The one number from 64 up that names an eventfd is the library's. */
static int eventfd_number(void) {
    for (int number = 64; number < 128; number++) {
        char path[64], name[64] = "";
        snprintf(path, sizeof path, "/proc/thread-self/fd/%d", number);
        if (readlink(path, name, sizeof name - 1) > 0 && strstr(name, "eventfd")) return number;
    }
    return -1;
}

/* ---- after the end of the main thread */

static bool main_thread_is_gone(void) {
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return true;
    if (read(file, line, sizeof line - 1) < 0) line[0] = '\0';
    close(file);
    const char *state = strrchr(line, ')');
    return !state || state[2] == 'Z' || state[2] == 'X';
}
static void (*after_main)(void);
static void go_on(void *unused) {
    (void)unused;
    while (!main_thread_is_gone()) take_time(0.001);
    after_main();
    _Exit(42);
}
static void leave(void *unused) {
    thread_start(go_on, unused);
    pthread_exit(NULL);
}
static void expect_after_main(void (*function)(void)) {
    after_main = function;
    ChildResult result = run_child(leave, NULL);
    ck_assert_msg(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 42, "status %#x, and it said: %s", result.status, result.output);
}

static void watch_files(void) {
    ck_assert_int_eq(chdir(folder), 0);
    append("a");
    ck_assert_ptr_nonnull(watch("a", 0, kRLNoteWrite | kRLNoteReplace));
    replace_a();
    int fd = open("a", O_RDONLY | O_CLOEXEC);
    ck_assert_ptr_nonnull(watch(NULL, fd, kRLNoteAttrib));
    ck_assert_int_eq(fchmod(fd, 0640), 0);
    expect_seen(kRLNoteAttrib);
}
RL_MAIN_TEST(files_after_the_main_thread, "S-KEV-13 S-KEV-14 S-KEV-19 S-LOOP-13",
             "After the end of the main thread files are watched by name and by descriptor, and so is one that takes another's place") {
    make_folder();
    expect_after_main(watch_files);
    ck_assert_int_eq(chdir(folder), 0);
    remove_folder();
}

static int count_fd, performs;
static RLPort get_port(void *info) {
    (void)info;
    return (RLPort)count_fd;
}
static void perform(void *info) {
    (void)info;
    performs++;
}
static void count_an_eventfd(void) {
    RLSourceContext1 context = {.version = 1, .getPort = get_port, .perform = perform};
    count_fd = eventfd(3, EFD_CLOEXEC | EFD_NONBLOCK);
    RLAddSource(RLGetCurrent(), RLSourceCreate(0, (RLSourceContext *)&context), kRLDefaultMode);
    for (int i = 0; i < 5; i++) RLRunInMode(kRLDefaultMode, 0, true);
    ck_assert_int_eq(performs, 1);
}
RL_MAIN_TEST(counts_after_the_main_thread, "S-SRC-46 S-LOOP-13", "After the end of the main thread an eventfd of a version 1 source is read before it performs") {
    expect_after_main(count_an_eventfd);
}

static void ignore(RLFileDescriptorRef descriptor, RLOptionFlags types, void *info) { (void)descriptor, (void)types, (void)info; }

/* A thread with a loop that has slept in the kernel's set. */
static Gate has_set, may_end;
static void use_a_set(void *unused) {
    (void)unused;
    int ends[2];
    make_pipe(ends);
    RLFileDescriptorRef descriptor = RLFileDescriptorCreate(ends[0], true, ignore, NULL);
    RLFileDescriptorEnableCallBacks(descriptor, kRLFileDescriptorReadCallBack);
    RLAddSource(RLGetCurrent(), RLFileDescriptorCreateRunLoopSource(descriptor, 0), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.001, false, TimedOut);
    gate_open(&has_set);
    gate_wait(&may_end);
}
static int start_a_set(Thread **thread) {
    *thread = thread_start(use_a_set, NULL);
    gate_wait(&has_set);
    int number = eventfd_number();
    ck_assert_int_ge(number, 64);
    return number;
}
static void end_the_set(Thread *thread) {
    gate_open(&may_end);
    thread_join(thread);
}
static void take_the_number(void) {
    Thread *thread;
    int number = start_a_set(&thread), other = open("/dev/null", O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(dup2(other, number), number);
    end_the_set(thread);
    ck_assert_int_ge(fcntl(number, F_GETFD), 0);
}
RL_MAIN_TEST(numbers_after_the_main_thread, "S-FD-18 S-LOOP-13", "After the end of the main thread a file of the program's that has the number of the library's eventfd stays open") {
    expect_after_main(take_the_number);
}

static int frames;
static void slow(const RLSlowCallout *callout, void *info) {
    (void)info;
    __atomic_store_n(&frames, (int)callout->frameCount, __ATOMIC_SEQ_CST);
    gate_open(&may_end);
}
static void wait_for_the_report(void *unused) {
    (void)unused;
    gate_wait(&may_end);
}
static void tell_slowness(void) {
    RLSetSlowCalloutHandler(RLGetCurrent(), 0.001, slow, NULL, NULL);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, wait_for_the_report, NULL, NULL);
    RLRunInMode(kRLDefaultMode, 0, true);
    /* Where it is blocked, and a caller at least. */
    ck_assert_int_gt(count_of(&frames), 1);
}
RL_MAIN_TEST(backtraces_after_the_main_thread, "S-SLOW-8 S-LOOP-13", "After the end of the main thread the backtrace of a blocked callback has its callers") {
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(WITH_THREAD_SANITIZER)
    if (access("/proc/self/syscall", R_OK) == 0) expect_after_main(tell_slowness);
#endif
}

/* ---- without /proc */

/* Goes where there is none. The program's exit status says whether it may. */
static bool is_refused(ChildResult result) { return WIFEXITED(result.status) && WEXITSTATUS(result.status) == 77; }
static void leave_proc(void) {
    ck_assert_int_eq(chdir(folder), 0);
    if (chroot(folder) == 0) return;
    if (syscall(SYS_unshare, CLONE_NEWUSER) != 0 || chroot(folder) != 0) _exit(77);
}
static void expect_without_proc(void (*function)(void *), void *argument) {
    make_folder();
    ChildResult result = run_child(function, argument);
    ck_assert_msg(result.status == 0 || is_refused(result), "status %#x, and it said: %s", result.status, result.output);
    ck_assert_int_eq(chdir(folder), 0);
    remove_folder();
}

/* The library shares its memory with the child of a clone(2) there, which the thread sanitizer takes for a fork. */
static void expect_watches_without_proc(void (*function)(void *)) {
#if defined(WITH_THREAD_SANITIZER)
    (void)function;
#else
    expect_without_proc(function, NULL);
#endif
}

static void watch_names(void *unused) {
    (void)unused;
    leave_proc();
    append("a");
    RLSourceRef source = watch("a", 0, kRLNoteWrite | kRLNoteReplace | kRLNoteDelete);
    ck_assert_msg(source != NULL, "errno %d", errno);
    replace_a();
    ck_assert_int_eq(unlink("a"), 0);
    expect_seen(kRLNoteDelete);
    append("a");
    expect_seen(kRLNoteReplace);
    RLSourceInvalidate(source);
    ck_assert_ptr_null(watch("/none", 0, kRLNoteWrite));
    ck_assert_int_eq(errno, ENOENT);
    /* By descriptor a folder, and nothing else. */
    int fd = open("a", O_RDONLY | O_CLOEXEC);
    ck_assert_ptr_null(watch(NULL, fd, kRLNoteWrite));
    ck_assert_int_eq(errno, EOPNOTSUPP);
    fd = open("/", O_RDONLY | O_CLOEXEC);
    ck_assert_ptr_nonnull(watch(NULL, fd, kRLNoteWrite));
    append("b");
    expect_seen(kRLNoteWrite);
}
RL_TEST(names_without_proc, "S-KEV-13 S-KEV-14 S-KEV-19", "Without /proc names and folders are watched, a file by descriptor is refused, and what takes a file's place is watched") {
    expect_watches_without_proc(watch_names);
}

static void replace_after_chroot(void *unused) {
    (void)unused;
    char path[80];
    snprintf(path, sizeof path, "%s/a", folder);
    append(path);
    ck_assert_ptr_nonnull(watch(path, 0, kRLNoteWrite | kRLNoteReplace));
    leave_proc();
    replace_a();
}
RL_TEST(a_file_is_replaced_after_chroot, "S-KEV-14 S-KEV-19", "A file that takes another's place after the program has left /proc and the path behind is watched") {
    expect_watches_without_proc(replace_after_chroot);
}

static void end_a_set(void *is_taken) {
    Thread *thread;
    ck_assert_int_eq(chdir(folder), 0);
    int number = start_a_set(&thread), other = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (chroot(folder) != 0) _exit(77);
    if (is_taken) ck_assert_int_eq(dup2(other, number), number);
    end_the_set(thread);
    ck_assert_int_eq(fcntl(number, F_GETFD) >= 0, is_taken != NULL);
}
RL_TEST(the_eventfd_is_closed_without_proc, "S-FD-18", "Without /proc the library's eventfd is closed with its last set") { expect_without_proc(end_a_set, NULL); }
RL_TEST(a_taken_number_stays_open_without_proc, "S-FD-18", "Without /proc a file of the program's that has the number of the library's eventfd stays open") {
    expect_without_proc(end_a_set, folder);
}

/* ---- of threads that it does not have */

static bool hide_threads(long number, const long argument[6], long *result) {
    if (number != SYS_openat || !strstr((const char *)argument[1], "/task/")) return false;
    errno = ENOENT;
    *result = -1;
    return true;
}
static void expect_ended(RLRunLoopRef loop, bool ended) {
    char *text = RLCopyDescription(loop);
    ck_assert_msg(!strstr(text, "(ended)") == !ended, "%s", text);
    free(text);
}
static void stay(LoopThread *self) {
    (void)self;
    gate_wait(&may_end);
}
RL_TEST(a_living_thread_has_not_ended, "S-SEE-5", "A thread of which /proc says nothing is described without its name, and has ended only once it has") {
    LoopThread other;
    loop_thread_start(&other, stay, NULL);
    hook_system_calls(hide_threads);
    expect_ended(RLGetCurrent(), false);
    expect_ended(other.loop, false);
    RLRetain(other.loop);
    gate_open(&may_end);
    thread_join(other.thread);
    expect_ended(other.loop, true);
    hook_system_calls(NULL);
    RLRelease(other.loop);
}
