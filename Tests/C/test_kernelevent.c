/* SPDX-License-Identifier: MIT */
/*
 * Kernel events: signals, processes, timers, the program's own. Files: test_kernelevent_file.c. The
 * probes are static, because what is left in a loop outlives the case that put it there.
 */
#define _GNU_SOURCE
#include "support.h"
#include "system_calls.h"

#include <errno.h>
#include <stdarg.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A source that records its name, and remembers the last report. */
typedef struct Report {
    const char *name;
    int calls, retains, releases;
    RLKernelEvent last;
    long total; /* the sum of data */
    RLSourceRef source;
    void (*action)(struct Report *self);
} Report;

static void note(RLSourceRef source, const RLKernelEvent *event, void *info) {
    Report *report = info;
    ck_assert_ptr_eq(source, report->source);
    report->last = *event;
    report->total += event->data;
    if (report->name) trace("%s", report->name);
    __atomic_add_fetch(&report->calls, 1, __ATOMIC_SEQ_CST);
    if (report->action) report->action(report);
}
static const void *count_retain(const void *info) {
    ((Report *)info)->retains++;
    return info;
}
static void count_release(const void *info) { ((Report *)info)->releases++; }

static RLSourceRef make(Report *report, RLKernelFilter filter, uintptr_t ident, uint32_t flags,
                        uint32_t fflags, int64_t data) {
    RLKernelEvent event = {ident, filter, flags, fflags, data, NULL};
    RLKernelEventContext context = {
        .info = report, .retain = count_retain, .release = count_release};
    return report->source = RLKernelEventSourceCreate(&event, note, &context);
}
/* Made and added; the loop has the only reference. */
static RLSourceRef add(Report *report, RLKernelFilter filter, uintptr_t ident, uint32_t flags,
                       uint32_t fflags, int64_t data) {
    RLSourceRef source = make(report, filter, ident, flags, fflags, data);
    ck_assert_msg(source != NULL, "errno %d", errno);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    return source;
}
#define expect_refused(error, ...)             \
    do {                                       \
        Report report = {NULL};                \
        errno = 0;                             \
        ck_assert_ptr_null(make(&report, __VA_ARGS__)); \
        ck_assert_int_eq(errno, error);        \
        ck_assert_int_eq(report.retains, 0);   \
    } while (0)

static Report first = {.name = "a"}, second = {.name = "b"};

/* Signals */

RL_TEST(a_signal_is_reported, "S-KEV-1 S-KEV-2 S-RUN-12",
        "A signal ends the wait and is reported as a handled source, with how often it came") {
    observe(RLGetCurrent(), kRLDefaultMode);
    add(&first, kRLKernelFilterSignal, SIGUSR1, 0, 0, 0);
    for (int i = 0; i < 3; i++) raise(SIGUSR1);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("E BT BS BW AW a X");
    ck_assert_int_eq(first.last.filter, kRLKernelFilterSignal);
    ck_assert_uint_eq(first.last.ident, SIGUSR1);
    ck_assert_int_eq(first.total, 3);
}

static void send_when_waiting(void *unused) {
    (void)unused;
    kill(getpid(), SIGUSR2);
}

RL_TEST(a_signal_wakes_a_sleeping_loop, "S-KEV-2",
        "A signal that any thread of the process gets wakes the loop that waits for it") {
    add(&first, kRLKernelFilterSignal, SIGUSR2, 0, 0, 0);
    for (int i = 0; i < 20; i++) {
        Thread *other = when_waiting(RLGetCurrent(), send_when_waiting, NULL);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        thread_join(other);
    }
    ck_assert_int_eq(first.total, 20);
}

static void listen_elsewhere(LoopThread *self) {
    (void)self;
    add(&second, kRLKernelFilterSignal, SIGUSR1, kRLKernelEventOneShot, 0, 0);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
}

RL_TEST(all_sources_of_a_signal_hear_it, "S-KEV-2",
        "Two sources of one signal, in two threads' loops, both report it") {
    LoopThread thread;
    loop_thread_start(&thread, listen_elsewhere, NULL);
    wait_until_waiting(thread.loop);
    add(&first, kRLKernelFilterSignal, SIGUSR1, 0, 0, 0);
    kill(getpid(), SIGUSR1);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    thread_join(thread.thread);
    ck_assert_int_eq(first.total, 1);
    ck_assert_int_eq(second.total, 1);
}

static volatile sig_atomic_t handled;
static void old_handler(int number) { handled += number == SIGHUP; }
static bool handler_is(int number, void (*handler)(int)) {
    struct sigaction now;
    sigaction(number, NULL, &now);
    return !(now.sa_flags & SA_SIGINFO) && now.sa_handler == handler;
}

RL_TEST(the_programs_handler_is_kept, "S-KEV-3",
        "A handler of the program's is called as well, and is back when the last source is "
        "invalid") {
    signal(SIGHUP, old_handler);
    Report third = {NULL};
    RLSourceRef one = make(&first, kRLKernelFilterSignal, SIGHUP, 0, 0, 0);
    RLSourceRef two = make(&third, kRLKernelFilterSignal, SIGHUP, 0, 0, 0);
    raise(SIGHUP);
    ck_assert_int_eq(handled, 1);
    RLSourceInvalidate(one);
    ck_assert(!handler_is(SIGHUP, old_handler));
    RLRelease(two);
    ck_assert(handler_is(SIGHUP, old_handler));
    raise(SIGHUP);
    ck_assert_int_eq(handled, 2);
    RLRelease(one);
    ck_assert_int_eq(first.releases, 1);
    ck_assert_int_eq(third.releases, 1);
}

RL_TEST(a_handler_installed_later_stays, "S-KEV-3",
        "A handler that the program installs over the library's is not taken away at the end") {
    RLSourceRef source = make(&first, kRLKernelFilterSignal, SIGHUP, 0, 0, 0);
    signal(SIGHUP, old_handler);
    RLRelease(source);
    ck_assert(handler_is(SIGHUP, old_handler));
}

static struct sigaction below[12];
/* Not to be kept in a register while a signal is raised. */
static volatile sig_atomic_t chained;
static void call_below(int place, int number, siginfo_t *info, void *context) {
    chained++;
    const struct sigaction *action = &below[place];
    if (action->sa_flags & SA_SIGINFO)
        action->sa_sigaction(number, info, context);
    else if (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN)
        action->sa_handler(number);
}
#define CHAINING(place)                                                        \
    static void chain_##place(int number, siginfo_t *info, void *context) {    \
        call_below(place, number, info, context);                              \
    }
CHAINING(0) CHAINING(1) CHAINING(2) CHAINING(3) CHAINING(4) CHAINING(5)
CHAINING(6) CHAINING(7) CHAINING(8) CHAINING(9)
static void (*const chain[])(int, siginfo_t *, void *) = {
    chain_0, chain_1, chain_2, chain_3, chain_4, chain_5, chain_6, chain_7, chain_8, chain_9};

static void cover(int place) {
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    action.sa_sigaction = chain[place];
    sigaction(SIGHUP, &action, &below[place]);
}

RL_TEST(handlers_that_call_the_librarys, "S-KEV-3 S-KEV-9",
        "A handler that calls the one it found, which was the library's, is called once for each "
        "signal however often sources come and go, and so is the source; a limit is an error") {
    int made = 0;
    for (int i = 0; i < 10; i++) {
        Report report = {NULL};
        RLSourceRef source = make(&report, kRLKernelFilterSignal, SIGHUP, 0, 0, 0);
        if (!source) {
            ck_assert_int_eq(errno, EBUSY);
            break;
        }
        made++;
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        for (int covered = 0; covered < 2; covered++) {
            chained = 0;
            raise(SIGHUP);
            ck_assert_int_eq(chained, i + covered);
            RLRunInMode(kRLDefaultMode, 0, true);
            ck_assert_int_eq(report.total, covered + 1);
            if (!covered) cover(i);
        }
        RLSourceInvalidate(source);
        RLRelease(source);
    }
    ck_assert_int_ge(made, 4);
    ck_assert_int_lt(made, 10);
    /* With the program's handlers gone all is as at first. */
    for (int i = made - 1; i >= 0; i--) sigaction(SIGHUP, &below[i], NULL);
    for (int i = 0; i < 3; i++) {
        Report report = {NULL};
        RLSourceRef source = make(&report, kRLKernelFilterSignal, SIGHUP, 0, 0, 0);
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        raise(SIGHUP);
        RLRunInMode(kRLDefaultMode, 0, true);
        ck_assert_int_eq(report.total, 1);
        RLRelease(source);
        RLSourceInvalidate(source);
    }
    struct sigaction now;
    sigaction(SIGHUP, NULL, &now);
    ck_assert(!(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL);
}

RL_TEST(a_handler_that_calls_nobody_is_no_layer, "S-KEV-3 S-KEV-9",
        "A handler that the program installs over and over, without calling what it finds, never "
        "makes a source fail") {
    for (int i = 0; i < 50; i++) {
        Report report = {NULL};
        RLSourceRef source = make(&report, kRLKernelFilterSignal, SIGHUP, 0, 0, 0);
        ck_assert_ptr_nonnull(source);
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        raise(SIGHUP);
        RLRunInMode(kRLDefaultMode, 0, true);
        ck_assert_int_eq(report.total, 1);
        signal(SIGHUP, old_handler);
        RLSourceInvalidate(source);
        RLRelease(source);
    }
}

RL_TEST(what_comes_before_the_loop_runs_is_kept, "S-KEV-1 S-SRC-27",
        "A signal between the creation of the source and the run of its mode is reported then") {
    RLSourceRef source = make(&first, kRLKernelFilterSignal, SIGUSR1, 0, 0, 0);
    raise(SIGUSR1);
    RLAddSource(RLGetCurrent(), source, "mine");
    keep_alive(RLGetCurrent(), "other");
    expect_run("other", 0, true, TimedOut);
    expect_run("mine", 0, true, HandledSource);
    expect_trace("a");
    RLRelease(source);
}

RL_TEST(impossible_signals_are_refused, "S-KEV-9",
        "Numbers that are no signal, cannot be caught, or tell of faults are refused with EINVAL") {
    const int numbers[] = {0, 65, 1000, SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        expect_refused(EINVAL, kRLKernelFilterSignal, (uintptr_t)numbers[i], 0, 0, 0);
    expect_refused(EINVAL, kRLKernelFilterSignal, (uintptr_t)-1, 0, 0, 0);
    expect_refused(EINVAL, kRLKernelFilterSignal, SIGUSR1, 0, 1, 0);
    expect_refused(EINVAL, (RLKernelFilter)-1, 0, 0, 0, 0);
    ck_assert_ptr_null(RLKernelEventSourceCreate(NULL, note, NULL));
}

/* The signals of one thread are counted without a loss while others make and end sources. */

static bool storm_over;
static void storm(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&storm_over, __ATOMIC_SEQ_CST)) {
        pthread_kill(pthread_self(), SIGUSR1);
        sched_yield();
    }
}

RL_TEST(sources_come_and_go_under_signals, "S-KEV-3",
        "Sources of a signal can be made and ended while the signal keeps coming") {
    RLSourceRef keeper = make(&first, kRLKernelFilterSignal, SIGUSR1, kRLKernelEventDisable, 0, 0);
    Thread *other = thread_start(storm, NULL);
    for (int i = 0; i < 2000; i++) {
        Report report = {NULL};
        RLSourceRef source = make(&report, kRLKernelFilterSignal, SIGUSR1, 0, 0, 0);
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        RLRunInMode(kRLDefaultMode, 0, true);
        if (i % 2) RLSourceInvalidate(source);
        else RLRemoveSource(RLGetCurrent(), source, kRLDefaultMode);
        RLRelease(source);
        ck_assert_int_eq(report.releases, 1);
    }
    __atomic_store_n(&storm_over, true, __ATOMIC_SEQ_CST);
    thread_join(other);
    RLRelease(keeper);
}

/* Processes */

static pid_t start_child(int status, int wait_for) {
    pid_t child = fork();
    if (child == 0) {
        char byte;
        if (wait_for >= 0 && read(wait_for, &byte, 1) < 0) status = 99;
        if (status < 0) raise(-status);
        _exit(status);
    }
    ck_assert_int_gt(child, 0);
    return child;
}

RL_TEST(the_end_of_a_child_is_reported, "S-KEV-4",
        "The end of a child is reported once, with its status; the program still waits for it") {
    int ends[2];
    make_pipe(ends);
    pid_t child = start_child(7, ends[0]);
    add(&first, kRLKernelFilterProcess, (uintptr_t)child, 0, kRLNoteExit, 0);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("a");
    ck_assert(first.last.flags & kRLKernelEventEOF);
    ck_assert_uint_eq(first.last.fflags, (uint32_t)(kRLNoteExit | kRLNoteExitStatus));
    ck_assert_int_eq(WEXITSTATUS((int)first.last.data), 7);
    int status;
    ck_assert_int_eq(waitpid(child, &status, WNOHANG), child);
    ck_assert_int_eq(status, (int)first.last.data);
    ck_assert_int_eq(first.releases, 1);
}

RL_TEST(a_killed_child_is_reported_to_all, "S-KEV-4",
        "Two sources of one process both report it, also one that ended before; the status has "
        "the signal") {
    pid_t child = start_child(-SIGKILL, -1);
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    add(&first, kRLKernelFilterProcess, (uintptr_t)child, 0, kRLNoteExit, 0);
    add(&second, kRLKernelFilterProcess, (uintptr_t)child, 0, kRLNoteExit, 0);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(first.calls + second.calls, 2);
    ck_assert_int_eq(WTERMSIG((int)first.last.data), SIGKILL);
    ck_assert_int_eq(WTERMSIG((int)second.last.data), SIGKILL);
    waitpid(child, NULL, 0);
}

RL_TEST(a_traced_child_ends_without_spinning, "S-KEV-4",
        "The end of a child that a debugger holds is reported, with its status, when the debugger has waited for it; the loop sleeps meanwhile") {
    if (is_left_out_by_emulator("qemu does not let one process trace another")) return;
    int ends[2], begins[2], lets_go[2];
    make_pipe(ends), make_pipe(begins), make_pipe(lets_go);
    pid_t child = start_child(7, ends[0]), tracer = fork();
    if (tracer == 0) {
        close(begins[0]);
        if (ptrace(PTRACE_SEIZE, child, NULL, NULL) != 0) _exit(1);
        write_byte(begins[1]);
        read_byte(lets_go[0]);
        _exit(waitpid(child, NULL, __WALL) == child ? 0 : 2);
    }
    close(begins[1]);
    char byte;
    if (read(begins[0], &byte, 1) != 1) {
        /* Where a process may only trace its own children. */
        write_byte(ends[1]);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
        return;
    }
    static Probe passes;
    add(&first, kRLKernelFilterProcess, (uintptr_t)child, 0, kRLNoteExit, 0);
    add_observer(&passes, kRLBeforeWaiting, kRLDefaultMode);
    write_byte(ends[1]);
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT | WNOHANG), 0);
    expect_run(kRLDefaultMode, 1, true, TimedOut);
    ck_assert_int_lt(passes.calls, 30);
    write_byte(lets_go[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(first.calls, 1);
    ck_assert_uint_eq(first.last.fflags, (uint32_t)(kRLNoteExit | kRLNoteExitStatus));
    ck_assert_int_eq(WEXITSTATUS((int)first.last.data), 7);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(waitpid(tracer, &status, 0), tracer);
    ck_assert_int_eq(status, 0);
}

RL_TEST(the_library_reaps_on_demand, "S-KEV-4",
        "With kRLNoteReap no zombie is left") {
    pid_t child = start_child(3, -1);
    add(&first, kRLKernelFilterProcess, (uintptr_t)child, 0, kRLNoteExit | kRLNoteReap, 0);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(WEXITSTATUS((int)first.last.data), 3);
    ck_assert_int_eq(waitpid(child, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
    expect_refused(ESRCH, kRLKernelFilterProcess, (uintptr_t)child, 0, kRLNoteExit, 0);
}

/* The kernel looks for the status first and for the process after it: another thread may have reaped that in between, at any try. */
static int tries, try_that_misses, tells;
int ioctl(int fd, unsigned long request, ...) {
    va_list rest;
    va_start(rest, request);
    struct { uint64_t mask, group; uint32_t ids[11]; int32_t status; } *info = va_arg(rest, void *);
    va_end(rest);
    if (request != _IOWR(0xff, 11, *info) || try_that_misses == 0) return (int)syscall(SYS_ioctl, fd, request, info);
    tries++;
    if (tries == try_that_misses || !tells) {
        errno = ESRCH;
        return -1;
    }
    info->mask = tries < try_that_misses ? 0 : 8;
    info->status = 3 << 8;
    return 0;
}

RL_TEST(a_status_that_comes_while_it_is_asked_for, "S-KEV-4",
        "A status is asked for once more where the kernel found neither it nor the process, at whatever try, and no more than once") {
    for (int i = 0; i < 4; i++) {
        pid_t child = start_child(3, -1);
        memset(&first, 0, sizeof first);
        add(&first, kRLKernelFilterProcess, (uintptr_t)child, 0, kRLNoteExit, 0);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
        tells = i < 3;
        tries = 0;
        try_that_misses = (int[]){1, 2, 7, 4}[i];
        expect_run(kRLDefaultMode, 60, false, Finished);
        ck_assert_int_eq(tries, tells ? try_that_misses + 1 : 2);
        ck_assert_uint_eq(first.last.fflags, kRLNoteExit | (tells ? kRLNoteExitStatus : 0));
        if (tells) ck_assert_int_eq(WEXITSTATUS((int)first.last.data), 3);
        try_that_misses = 0;
    }
}

RL_TEST(a_source_that_reaps_takes_the_status_from_nobody, "S-KEV-4",
        "Of two sources of a child, made in either order, one or both of which reap it, each reports its status, where the kernel tells it") {
    struct utsname system;
    int major = 0, minor = 0;
    uname(&system);
    if (sscanf(system.release, "%d.%d", &major, &minor) != 2 || major * 100 + minor < 615) return;
    /* An emulator may know less than the kernel. */
    struct { uint64_t mask, group; uint32_t ids[11]; int32_t status; } told = {.mask = 8};
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    bool is_told = ioctl(self, _IOWR(0xff, 11, told), &told) == 0;
    close(self);
    if (!is_told) return;
    for (int i = 0; i < 3; i++) {
        pid_t child = start_child(3, -1);
        uint32_t reaps[] = {i == 0 ? 0 : (uint32_t)kRLNoteReap, i == 1 ? 0 : (uint32_t)kRLNoteReap};
        memset(&first, 0, sizeof first);
        memset(&second, 0, sizeof second);
        add(&first, kRLKernelFilterProcess, (uintptr_t)child, 0, kRLNoteExit | reaps[0], 0);
        add(&second, kRLKernelFilterProcess, (uintptr_t)child, 0, kRLNoteExit | reaps[1], 0);
        expect_run(kRLDefaultMode, 60, false, Finished);
        ck_assert_int_eq(first.calls + second.calls, 2);
        ck_assert(first.last.fflags & second.last.fflags & kRLNoteExitStatus);
        ck_assert_int_eq(WEXITSTATUS((int)first.last.data), 3);
        ck_assert_int_eq(WEXITSTATUS((int)second.last.data), 3);
        ck_assert_int_eq(waitpid(child, NULL, WNOHANG), -1);
    }
}

RL_TEST(the_end_of_a_strange_process_has_no_status, "S-KEV-4",
        "The end of a process that is not the program's child is reported without a status") {
    int ends[2], ids[2];
    make_pipe(ends);
    make_pipe(ids);
    pid_t child = fork();
    if (child == 0) {
        pid_t grandchild = start_child(5, ends[0]);
        if (write(ids[1], &grandchild, sizeof grandchild) < 0) _exit(1);
        waitpid(grandchild, NULL, 0);
        _exit(0);
    }
    pid_t grandchild;
    ck_assert_int_eq(read(ids[0], &grandchild, sizeof grandchild), sizeof grandchild);
    add(&first, kRLKernelFilterProcess, (uintptr_t)grandchild, 0, kRLNoteExit, 0);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_uint_eq(first.last.fflags, (uint32_t)kRLNoteExit);
    waitpid(child, NULL, 0);
}

static void thread_is_no_process(LoopThread *self) {
    (void)self;
    expect_refused(ESRCH, kRLKernelFilterProcess, (uintptr_t)syscall(SYS_gettid), 0, kRLNoteExit, 0);
}

RL_TEST(the_end_is_reported_whatever_was_asked_for, "S-KEV-4 S-KEV-9",
        "Without kRLNoteExit too, and with bits of flags that have no meaning, which kqueue ignores as well") {
    for (int i = 0; i < 2; i++) {
        pid_t child = start_child(3, -1);
        add(&first, kRLKernelFilterProcess, (uintptr_t)child, i ? 0 : 0x100, i ? (uint32_t)kRLNoteReap : 0, 0);
        expect_run(kRLDefaultMode, 60, false, Finished);
        ck_assert_uint_eq(first.last.fflags, (uint32_t)(kRLNoteExit | kRLNoteExitStatus));
        ck_assert_int_eq(WEXITSTATUS((int)first.last.data), 3);
        ck_assert_int_eq(waitpid(child, NULL, WNOHANG), i ? -1 : child);
    }
}

RL_TEST(impossible_processes_are_refused, "S-KEV-9",
        "No process, and happenings that Linux does not tell of, are refused") {
    expect_refused(EINVAL, kRLKernelFilterProcess, 0, 0, kRLNoteExit, 0);
    expect_refused(EINVAL, kRLKernelFilterProcess, (uintptr_t)-1, 0, kRLNoteExit, 0);
    expect_refused(EINVAL, kRLKernelFilterProcess, (uintptr_t)getpid(), 0, 0x40000000, 0);
    LoopThread thread;
    loop_thread_start(&thread, thread_is_no_process, NULL);
    thread_join(thread.thread);
}

/* Timers */

RL_TEST(a_timer_repeats, "S-KEV-5",
        "A timer reports again and again, never early, and what was missed is counted") {
    double start = monotonic_now();
    add(&first, kRLKernelFilterTimer, 1, 0, 0, 20);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_double_ge(monotonic_now() - start, 0.0199);
    take_time(0.07);
    while (first.total < 6) expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_double_ge(monotonic_now() - start, 0.02 * (double)first.total - 1e-4);
    ck_assert_int_lt(first.calls, first.total);
}

RL_TEST(a_timer_in_every_unit, "S-KEV-5",
        "The unit is milliseconds, or seconds, micro- or nanoseconds on demand; clocks are as "
        "asked for") {
    const struct {
        uint32_t fflags;
        int64_t data;
    } kinds[] = {{0, 20}, {kRLNoteMicroseconds, 20000}, {kRLNoteNanoseconds, 20000000},
                 {kRLNoteBoot, 20}, {kRLNoteBoot | kRLNoteMicroseconds, 20000},
                 {kRLNoteClockSet, 20}};
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        double start = monotonic_now();
        add(&first, kRLKernelFilterTimer, i, kRLKernelEventOneShot, kinds[i].fflags, kinds[i].data);
        expect_run(kRLDefaultMode, 60, false, Finished);
        ck_assert_double_ge(monotonic_now() - start, 0.0199);
        ck_assert_int_eq(first.last.data, 1);
        ck_assert_uint_eq(first.last.ident, i);
    }
    /* A second would take one: only that it does not come at once is seen. */
    add(&first, kRLKernelFilterTimer, 9, kRLKernelEventOneShot, kRLNoteSeconds, 3600);
    expect_run(kRLDefaultMode, 0.03, true, TimedOut);
}

static int64_t wall_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

RL_TEST(a_timer_at_a_date, "S-KEV-5",
        "A date of the wall clock is reported once, when it has come; a past one at once") {
    int64_t date = wall_now() + 30000000;
    add(&first, kRLKernelFilterTimer, 1, 0, kRLNoteAbsolute | kRLNoteNanoseconds, date);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_ge(wall_now(), date);
    add(&first, kRLKernelFilterTimer, 1, 0, kRLNoteAbsolute | kRLNoteSeconds, 1000);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(first.calls, 2);
    add(&first, kRLKernelFilterTimer, 1, 0, kRLNoteAbsolute | kRLNoteSeconds, INT64_MAX);
    expect_run(kRLDefaultMode, 0.03, false, TimedOut);
}

/* A clock that is set: the kernel says so by the error of the next read. */
static int reads_to_cancel, canceled;
static bool cancel_reads(long number, const long argument[6], long *result) {
    if (number != SYS_read) return false;
    *result = system_call(number, argument);
    if (reads_to_cancel > 0 && argument[2] == 8 && *result == 8) {
        reads_to_cancel--;
        canceled++;
        errno = ECANCELED;
        *result = -1;
    }
    return true;
}

RL_TEST(a_clock_that_is_set_is_reported, "S-KEV-6",
        "That the wall clock was set is reported, and the timer goes on by the new time") {
    add(&first, kRLKernelFilterTimer, 1, 0, kRLNoteClockSet, 200);
    reads_to_cancel = 1;
    hook_system_calls(cancel_reads);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(canceled, 1);
    ck_assert_uint_eq(first.last.fflags, kRLNoteClockSet);
    ck_assert_int_eq(first.last.data, 0);
    double start = monotonic_now();
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_double_ge(monotonic_now() - start, 0.1);
    ck_assert_uint_eq(first.last.fflags, 0);
    ck_assert_int_ge(first.last.data, 1);
}

/* The clock is set while a timer is being made: an hour forward, before the first of the kernel's calls, or in the midst of it. */
static bool is_before_the_setting, is_set_within;
int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (is_before_the_setting && clock == CLOCK_REALTIME) time->tv_sec -= 3600;
    return result;
}
static struct itimerspec last_setting;
int timerfd_settime(int descriptor, int flags, const struct itimerspec *new, struct itimerspec *old) {
    last_setting = *new;
    int result = (int)syscall(SYS_timerfd_settime, descriptor, flags, new, old);
    is_before_the_setting = false;
    if (!is_set_within || !(flags & TFD_TIMER_CANCEL_ON_SET)) return result;
    is_set_within = false;
    errno = ECANCELED;
    return -1;
}

RL_TEST(a_clock_that_is_set_in_between, "S-KEV-5 S-KEV-6",
        "A timer is not early for a clock that is set forward while it is made, which does not make the making fail either") {
    is_before_the_setting = true;
    double start = monotonic_now();
    add(&first, kRLKernelFilterTimer, 1, kRLKernelEventOneShot, kRLNoteClockSet, 50);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(is_before_the_setting, false);
    ck_assert_int_eq(first.last.data, 1);
    ck_assert_double_ge(monotonic_now() - start, 0.0499);
    is_set_within = true;
    add(&second, kRLKernelFilterTimer, 1, kRLKernelEventOneShot, kRLNoteAbsolute | kRLNoteClockSet, 1000);
    ck_assert_int_eq(is_set_within, false);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(second.last.data, 1);
}

RL_TEST(only_the_setting_of_the_clock, "S-KEV-6",
        "With no time a ClockSet timer keeps its mode alive and reports nothing by itself") {
    add(&first, kRLKernelFilterTimer, 1, 0, kRLNoteClockSet, 0);
    expect_run(kRLDefaultMode, 0.03, true, TimedOut);
    expect_trace("");
}

RL_TEST(impossible_timers_are_refused, "S-KEV-9",
        "Times that are none, two units, unknown bits and the boot clock with a date are refused") {
    expect_refused(EINVAL, kRLKernelFilterTimer, 0, 0, 0, 0);
    expect_refused(EINVAL, kRLKernelFilterTimer, 0, 0, 0, -1);
    expect_refused(EINVAL, kRLKernelFilterTimer, 0, 0, kRLNoteSeconds | kRLNoteMicroseconds, 1);
    expect_refused(EINVAL, kRLKernelFilterTimer, 0, 0, kRLNoteBoot | kRLNoteAbsolute, 1);
    expect_refused(EINVAL, kRLKernelFilterTimer, 0, 0, 0x800, 1);
    expect_refused(EINVAL, kRLKernelFilterTimer, 0, 0, kRLNoteAbsolute, -1);
}

/* User */

RL_TEST(a_trigger_is_reported, "S-KEV-7",
        "A trigger hands its bits and data to one report, which clears them") {
    RLSourceRef source = add(&first, kRLKernelFilterUser, 42, 0, 0, 0);
    RLKernelEventSourceTrigger(source, kRLNoteCopy | 0xf0, 0);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    RLKernelEventSourceTrigger(source, kRLNoteOr | 0x0f, 0);
    RLKernelEventSourceTrigger(source, kRLNoteAnd | 0x3c, 0);
    RLKernelEventSourceTrigger(source, kRLNoteTrigger, 1);
    RLKernelEventSourceTrigger(source, kRLNoteTrigger, 2);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_uint_eq(first.last.fflags, 0x3c);
    ck_assert_int_eq(first.last.data, 2);
    ck_assert_uint_eq(first.last.ident, 42);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    RLKernelEventSourceTrigger(source, kRLNoteTrigger | kRLNoteOr | 1, 0);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_uint_eq(first.last.fflags, 1);
    expect_trace("a a");
}

static void raise_usr1(void *unused) {
    (void)unused;
    kill(getpid(), SIGUSR1);
}
static void trigger_it(void *source) { RLKernelEventSourceTrigger(source, kRLNoteTrigger, 7); }
static RLSourceRef to_trigger;
static void trigger_handler(int number) {
    (void)number;
    RLKernelEventSourceTrigger(to_trigger, kRLNoteTrigger, 8);
}

RL_TEST(a_trigger_wakes_a_sleeping_loop, "S-KEV-7",
        "A trigger from another thread, or from a signal handler, wakes the loop") {
    to_trigger = add(&first, kRLKernelFilterUser, 0, 0, 0, 0);
    Thread *other = when_waiting(RLGetCurrent(), trigger_it, to_trigger);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    thread_join(other);
    ck_assert_int_eq(first.last.data, 7);
    signal(SIGUSR1, trigger_handler);
    other = when_waiting(RLGetCurrent(), raise_usr1, NULL);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    thread_join(other);
    ck_assert_int_eq(first.last.data, 8);
}

/* Flags */

static void trigger_again(Report *self) {
    if (self->calls == 1) {
        ck_assert(RLSourceIsValid(self->source));
        RLKernelEventSourceTrigger(self->source, kRLNoteTrigger, 0);
        expect_run(kRLDefaultMode, 0, true, TimedOut);
    }
}

RL_TEST(a_one_shot_reports_once, "S-KEV-8",
        "A one-shot source is valid in its report, does not report again in it, and is invalid "
        "after it") {
    first.action = trigger_again;
    RLSourceRef source = add(&first, kRLKernelFilterUser, 0, kRLKernelEventOneShot, 0, 0);
    RLRetain(source);
    RLKernelEventSourceTrigger(source, kRLNoteTrigger, 0);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(first.calls, 1);
    ck_assert(!RLSourceIsValid(source));
    RLKernelEventSourceTrigger(source, kRLNoteTrigger, 0);
    RLRelease(source);
    ck_assert_int_eq(first.releases, 1);
}

RL_TEST(a_disabled_source_keeps_what_happens, "S-KEV-8",
        "What happens to a disabled source is reported when it is enabled again, of every kind") {
    Report user = {.name = "u"}, sig = {.name = "s"}, timer = {.name = "t"};
    RLSourceRef sources[] = {add(&user, kRLKernelFilterUser, 0, kRLKernelEventDisable, 0, 0),
                             add(&sig, kRLKernelFilterSignal, SIGUSR1, kRLKernelEventDisable, 0, 0),
                             add(&timer, kRLKernelFilterTimer, 0,
                                 kRLKernelEventDisable | kRLKernelEventOneShot, 0, 1)};
    RLKernelEventSourceTrigger(sources[0], kRLNoteTrigger, 0);
    raise(SIGUSR1);
    raise(SIGUSR1);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    for (int i = 0; i < 3; i++) {
        RLKernelEvent event;
        ck_assert(RLKernelEventSourceGetEvent(sources[i], &event));
        ck_assert(event.flags & kRLKernelEventDisable);
        RLKernelEventSourceSetEnabled(sources[i], true);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
    }
    expect_trace("u s t");
    ck_assert_int_eq(sig.total, 2);
    RLKernelEventSourceSetEnabled(sources[0], false);
    RLKernelEventSourceTrigger(sources[0], kRLNoteTrigger, 0);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    RLSourceInvalidate(sources[0]);
    RLSourceInvalidate(sources[1]);
}

RL_TEST(what_is_kept_is_no_report, "S-KEV-8 S-KEV-1",
        "What happened to a source that was disabled before its report does not count as handled: a run that returns after a source goes on") {
    observe(RLGetCurrent(), kRLDefaultMode);
    RLSourceRef user = add(&first, kRLKernelFilterUser, 0, 0, 0, 0);
    RLKernelEventSourceTrigger(user, kRLNoteTrigger, 0);
    RLKernelEventSourceSetEnabled(user, false);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    RLKernelEventSourceSetEnabled(user, true);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    RLSourceInvalidate(user);
    RLSourceRef signals = add(&second, kRLKernelFilterSignal, SIGUSR1, 0, 0, 0);
    raise(SIGUSR1);
    RLKernelEventSourceSetEnabled(signals, false);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    RLKernelEventSourceSetEnabled(signals, true);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    RLSourceInvalidate(signals);
    ck_assert_int_eq(trace_count("a"), 1);
    ck_assert_int_eq(trace_count("b"), 1);
}

RL_TEST(dispatch_disables, "S-KEV-8",
        "With kRLKernelEventDispatch a report disables the source until it is enabled again") {
    RLSourceRef source = add(&first, kRLKernelFilterTimer, 0, kRLKernelEventDispatch, 0, 5);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0.03, true, TimedOut);
    RLKernelEventSourceSetEnabled(source, true);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(first.calls, 2);
    ck_assert_int_ge(first.last.data, 2);
}

/* Life */

RL_TEST(a_source_gives_everything_back, "S-KEV-10",
        "Invalidation and the last release close the descriptors; the context is released once") {
    RLGetCurrent();
    int before = count_descriptors();
    const struct {
        RLKernelFilter filter;
        uintptr_t ident;
        uint32_t fflags;
        int64_t data;
    } kinds[] = {{kRLKernelFilterTimer, 0, 0, 1000000}, {kRLKernelFilterProcess, 1, kRLNoteExit, 0},
                 {kRLKernelFilterVnode, 0, kRLNoteWrite, 0}, {kRLKernelFilterUser, 0, 0, 0}};
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int invalidated = 0; invalidated < 2; invalidated++) {
            Report report = {NULL};
            RLSourceRef source = make(&report, kinds[i].filter, kinds[i].ident, 0, kinds[i].fflags,
                                      kinds[i].data);
            ck_assert_msg(source != NULL, "%u: errno %d", i, errno);
            RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
            if (invalidated) RLSourceInvalidate(source);
            else RLRemoveSource(RLGetCurrent(), source, kRLDefaultMode);
            ck_assert_int_eq(report.releases, 0);
            RLRelease(source);
            ck_assert_int_eq(report.retains, 1);
            ck_assert_int_eq(report.releases, 1);
        }
    /* The mode has made its own set by now. */
    ck_assert_int_le(count_descriptors(), before + 2);
}

RL_TEST(no_descriptors_no_source, "S-KEV-9 S-ARG-10",
        "Whatever number of descriptors is missing, create returns NULL with EMFILE and leaves "
        "none open") {
    RLKernelEvent events[] = {{0, kRLKernelFilterTimer, 0, 0, 1000000, NULL},
                              {1, kRLKernelFilterProcess, 0, kRLNoteExit, 0, NULL},
                              {0, kRLKernelFilterVnode, 0, kRLNoteWrite, 0, NULL},
                              {0, kRLKernelFilterVnode, 0, kRLNoteWrite, 0, "/proc/self/status"}};
    struct rlimit old, limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    limit = (struct rlimit){48, old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int i = 0; i < 4; i++) {
        int fillers[64], filled = 0, fd, failures = 0;
        while ((fd = dup(0)) >= 0) fillers[filled++] = fd;
        RLSourceRef source = NULL;
        while ((source = RLKernelEventSourceCreate(&events[i], note, NULL)) == NULL) {
            ck_assert_int_eq(errno, EMFILE);
            int again[8], had = 0;
            while ((fd = dup(0)) >= 0) again[had++] = fd;
            ck_assert_int_eq(had, failures);
            while (had > 0) close(again[--had]);
            ck_assert_int_lt(failures, 4);
            close(fillers[--filled]);
            failures++;
        }
        ck_assert_int_ge(failures, 1);
        RLRelease(source);
        while (filled > 0) close(fillers[--filled]);
    }
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void in_child(void *unused) {
    (void)unused;
    ck_assert_int_eq(first.calls, 0);
    raise(SIGUSR1);
    while (first.calls == 0 || second.calls == 0) RLRunInMode(kRLDefaultMode, 60, true);
    ck_assert_int_eq(first.total, 1);
    ck_assert_int_eq(second.total, 1);
}

RL_TEST(a_child_has_kernel_objects_of_its_own, "S-KEV-11 S-FORK-1",
        "In the child of fork timers and signals go on, and nothing the child takes is missed by "
        "the parent") {
    add(&first, kRLKernelFilterSignal, SIGUSR1, 0, 0, 0);
    add(&second, kRLKernelFilterTimer, 0, kRLKernelEventOneShot, 0, 50);
    ChildResult result = run_child(in_child, NULL);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(first.calls, 0);
    ck_assert_int_eq(second.total, 1);
}

/* As a filter of system calls refuses it. */
static bool is_asking_refused;
int timerfd_gettime(int fd, struct itimerspec *setting) {
    if (!is_asking_refused) return (int)syscall(SYS_timerfd_gettime, fd, setting);
    errno = EPERM;
    return -1;
}
static void in_child_an_hour_before(void *unused) {
    (void)unused;
    RLRunInMode(kRLDefaultMode, 0.05, false);
    ck_assert_int_eq(first.calls + second.calls, 0);
}

RL_TEST(a_timer_that_cannot_be_asked_goes_on_in_the_child, "S-KEV-11", "Where timerfd_gettime is refused, timers go on in the child of fork with the time that they have left") {
    add(&first, kRLKernelFilterTimer, 1, kRLKernelEventOneShot, kRLNoteSeconds, 3600);
    add(&second, kRLKernelFilterTimer, 2, 0, kRLNoteSeconds, 3600);
    is_asking_refused = true;
    ChildResult result = run_child(in_child_an_hour_before, NULL);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
}

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
static void fork_into_another_time(void *unused) {
    static const char offset[] = "monotonic 10000 0\n";
    (void)unused;
    if (syscall(SYS_unshare, CLONE_NEWTIME) != 0 && syscall(SYS_unshare, CLONE_NEWUSER | CLONE_NEWTIME) != 0) return;
    int offsets = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    if (write(offsets, offset, sizeof offset - 1) != sizeof offset - 1) return;
    close(offsets);
    ChildResult result = run_child(in_child_an_hour_before, NULL);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
}

RL_TEST(a_timer_keeps_its_rest_by_another_clock, "S-KEV-11", "In a child of fork whose clock shows another time, as in another time namespace, timers go on with the time that they have left") {
    add(&first, kRLKernelFilterTimer, 1, kRLKernelEventOneShot, kRLNoteSeconds, 3600);
    add(&second, kRLKernelFilterTimer, 2, 0, kRLNoteSeconds, 3600);
    ChildResult result = run_child(fork_into_another_time, NULL);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
}

static double dated(void) { return (double)last_setting.it_value.tv_sec + (double)last_setting.it_value.tv_nsec / 1e9; }
static void at_the_parents_date(void *date) {
    ck_assert_double_ge(dated(), *(double *)date);
    ck_assert_double_lt(dated(), *(double *)date + 0.25);
    ck_assert_int_eq(last_setting.it_interval.tv_sec, 1000);
}

RL_TEST(a_clockset_timer_goes_on_in_the_child, "S-KEV-5 S-KEV-6 S-KEV-11",
        "In the child of fork a timer of the wall clock reports when the parent's does, and not after its whole time from the fork") {
    add(&first, kRLKernelFilterTimer, 1, 0, kRLNoteClockSet | kRLNoteSeconds, 1000);
    double date = dated();
    take_time(0.3);
    ChildResult result = run_child(at_the_parents_date, &date);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
}

RL_TEST(arguments, "S-KEV-12 S-ARG-1",
        "Other sources and NULL are no kernel event sources; a source tells what it was made for") {
    RLSourceRef plain = keep_alive(RLGetCurrent(), "other");
    RLKernelEvent event = {1, kRLKernelFilterUser, 2, 3, 4, NULL};
    ck_assert(!RLKernelEventSourceGetEvent(plain, &event));
    ck_assert(!RLKernelEventSourceGetEvent(NULL, &event));
    ck_assert_uint_eq(event.ident, 1);
    RLKernelEventSourceSetEnabled(plain, false);
    RLKernelEventSourceSetEnabled(NULL, false);
    RLKernelEventSourceTrigger(plain, kRLNoteTrigger, 0);
    RLKernelEventSourceTrigger(NULL, kRLNoteTrigger, 0);
    RLSourceRef source =
        add(&first, kRLKernelFilterTimer, 5, kRLKernelEventOneShot, kRLNoteSeconds, 3600);
    ck_assert(RLKernelEventSourceGetEvent(source, NULL));
    ck_assert(RLKernelEventSourceGetEvent(source, &event));
    ck_assert_int_eq(event.filter, kRLKernelFilterTimer);
    ck_assert_uint_eq(event.ident, 5);
    ck_assert_uint_eq(event.flags, kRLKernelEventOneShot);
    ck_assert_uint_eq(event.fflags, kRLNoteSeconds);
    ck_assert_int_eq(event.data, 3600);
    ck_assert_uint_eq(RLGetTypeIDOf(source), RLSourceGetTypeID());
    char *text = RLCopyDescription(source);
    ck_assert_ptr_nonnull(strstr(text, "filter"));
    free(text);
}

/* Two loops have one source. The first that has read its timer stays away when it gives a lock back that the other waits for, until
 * that one has come back to its wait. */
static struct {
    int reads, waits, is_given, is_back;
    bool is_over;
    LoopThread loops[2];
    Report report;
} pair;
static __thread enum { NEITHER, ONE_OF_TWO, READER } part;

static bool stay_away(long number, const long argument[6], long *result) {
    if (part == NEITHER || __atomic_load_n(&pair.is_over, __ATOMIC_SEQ_CST)) return false;
    if (part == ONE_OF_TWO && number == SYS_read && __atomic_fetch_add(&pair.reads, 1, __ATOMIC_SEQ_CST) == 0) {
        *result = system_call(number, argument);
        part = READER;
        /* The other loop comes, and the next date. */
        wait_until_count(&pair.waits, 1);
        take_time(0.001);
        return true;
    }
    bool is_wake = number == SYS_futex && (argument[1] & FUTEX_CMD_MASK) == FUTEX_WAKE;
    if (part == ONE_OF_TWO && number == SYS_futex && !is_wake) {
        /* It may wait before the reader, which has the lock, comes to its read. */
        __atomic_store_n(&pair.waits, 1, __ATOMIC_SEQ_CST);
        *result = system_call(number, argument);
        if (!count_of(&pair.reads)) __atomic_store_n(&pair.waits, 0, __ATOMIC_SEQ_CST);
        return true;
    }
    if (part == ONE_OF_TWO && count_of(&pair.is_given) && (number == SYS_epoll_pwait2 || number == SYS_epoll_pwait))
        __atomic_store_n(&pair.is_back, 1, __ATOMIC_SEQ_CST);
    if (part == READER && is_wake) {
        __atomic_store_n(&pair.is_given, 1, __ATOMIC_SEQ_CST);
        *result = system_call(number, argument);
        wait_until_count(&pair.is_back, 1);
        __atomic_store_n(&pair.is_over, true, __ATOMIC_SEQ_CST);
        return true;
    }
    return false;
}

static void run_pair(LoopThread *self) {
    part = ONE_OF_TWO;
    RLAddSource(self->loop, pair.report.source, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 1e9, false);
}

RL_TEST(a_dispatch_source_reports_in_one_of_two_loops, "S-KEV-8 S-THR-1",
        "Of two loops that find a dispatch source ready at the same time, one reports it, once, until it is enabled again") {
    make(&pair.report, kRLKernelFilterTimer, 1, kRLKernelEventDispatch | kRLKernelEventDisable, kRLNoteMicroseconds, 100);
    for (int i = 0; i < 2; i++) {
        loop_thread_start(&pair.loops[i], run_pair, NULL);
        wait_until_waiting(pair.loops[i].loop);
    }
    hook_system_calls(stay_away);
    RLKernelEventSourceSetEnabled(pair.report.source, true);
    wait_until_count(&pair.report.calls, 1);
    __atomic_store_n(&pair.is_over, true, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 2; i++) {
        RLPerformFunction(pair.loops[i].loop, kRLDefaultMode, call_stop, pair.loops[i].loop, NULL);
        RLWakeUp(pair.loops[i].loop);
        thread_join(pair.loops[i].thread);
    }
    hook_system_calls(NULL);
    ck_assert_int_eq(pair.report.calls, 1);
    RLRelease(pair.report.source);
}
