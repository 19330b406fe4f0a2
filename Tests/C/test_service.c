/* SPDX-License-Identifier: MIT */
/* Section 44: telling a service manager. */
#define _GNU_SOURCE
#include "support.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* The manager's socket; a name with '@' is abstract. */
static int listen_at(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    memcpy(address.sun_path, name, length);
    if (name[0] == '@') address.sun_path[0] = '\0';
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(descriptor, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)), 0);
    setenv("NOTIFY_SOCKET", name, 1);
    return descriptor;
}

static int listen_somewhere(void) {
    static int number;
    char name[64];
    snprintf(name, sizeof name, "@runloop-test-%d-%d", (int)getpid(), number++);
    return listen_at(name);
}

/* What arrived; "" if nothing did. */
static const char *receive(int descriptor) {
    static char text[512];
    ssize_t length = recv(descriptor, text, sizeof text - 1, MSG_DONTWAIT);
    text[length > 0 ? length : 0] = '\0';
    return text;
}

RL_TEST(a_text_is_one_datagram, "S-SDN-1", "The text arrives whole at an abstract name and at a path, and no descriptor is left") {
    int manager = listen_somewhere();
    int descriptors = count_descriptors();
    ck_assert(RLServiceNotify("READY=1\nSTATUS=at work"));
    ck_assert_str_eq(receive(manager), "READY=1\nSTATUS=at work");
    ck_assert(RLServiceNotify("STOPPING=1"));
    ck_assert_str_eq(receive(manager), "STOPPING=1");
    ck_assert_int_eq(count_descriptors(), descriptors);

    char folder[] = "/tmp/runloop-service-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/notify", folder);
    int other = listen_at(path);
    ck_assert(RLServiceNotify("READY=1"));
    ck_assert_str_eq(receive(other), "READY=1");
    unlink(path);
    ck_assert(!RLServiceNotify("READY=1"));
    rmdir(folder);
}

RL_TEST(without_a_manager_nothing_is_sent, "S-SDN-1", "No variable, an address of another kind, one that is too long, no text: false") {
    unsetenv("NOTIFY_SOCKET");
    ck_assert(!RLServiceNotify("READY=1"));
    char longest[200];
    memset(longest, 'x', sizeof longest);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    const char *addresses[] = {"", "@", "/", "relative", "vsock:2:1234", longest, "/nowhere/notify"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        setenv("NOTIFY_SOCKET", addresses[i], 1);
        ck_assert(!RLServiceNotify("READY=1"));
    }
    int manager = listen_somewhere();
    ck_assert(!RLServiceNotify(NULL));
    ck_assert(!RLServiceNotify(""));
    ck_assert_str_eq(receive(manager), "");
}

RL_TEST(a_manager_that_does_not_read_ends_nothing, "S-SDN-1 S-SDN-3", "A full queue: a notification is refused after its wait, and the watchdog does not wait") {
    int manager = listen_somewhere();
    setenv("WATCHDOG_USEC", "2000000", 1);
    unsetenv("WATCHDOG_PID");
    while (RLServiceNotify("READY=1")) {}
    RLTimerRef timer = RLServiceWatchdogCreate();
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    while (receive(manager)[0] != '\0') {}
    ck_assert(RLServiceNotify("READY=1"));
    ck_assert_str_eq(receive(manager), "READY=1");
    RLRelease(timer);
}

static void notice(int signal) { (void)signal; }
RL_TEST(signals_do_not_lengthen_the_wait, "S-SDN-1", "Signals that come all the time end no wait for room early, and begin none anew: it is over after a second") {
    int manager = listen_somewhere();
    while (RLServiceNotify("READY=1")) {}
    struct sigaction action = {.sa_handler = notice, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    ck_assert_int_eq(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    const struct itimerspec often = {{0, 100000000}, {0, 100000000}};
    timer_settime(timer, 0, &often, NULL);
    const double began = monotonic_now();
    ck_assert(!RLServiceNotify("READY=1"));
    ck_assert_double_ge(monotonic_now() - began, 0.99);
    timer_delete(timer);
    close(manager);
}

static void set_watchdog(const char *time, const char *process) {
    if (time) setenv("WATCHDOG_USEC", time, 1); else unsetenv("WATCHDOG_USEC");
    if (process) setenv("WATCHDOG_PID", process, 1); else unsetenv("WATCHDOG_PID");
}

RL_TEST(no_watchdog_is_asked_for, "S-SDN-2", "No time, one that is no number above 0, or another process: NULL; else half the time, a millisecond at least") {
    char own[16];
    snprintf(own, sizeof own, "%d", (int)getpid());
    const char *times[] = {NULL, "", "0", "-5", "+5", " 5", "5s", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        set_watchdog(times[i], own);
        ck_assert_ptr_null(RLServiceWatchdogCreate());
    }
    const char *processes[] = {"", "1", "x", "-1"};
    for (size_t i = 0; i < sizeof processes / sizeof *processes; i++) {
        set_watchdog("1000000", processes[i]);
        ck_assert_ptr_null(RLServiceWatchdogCreate());
    }
    set_watchdog("1000000", own);
    RLTimerRef timer = RLServiceWatchdogCreate();
    ck_assert_double_eq(RLTimerGetInterval(timer), 0.5);
    RLRelease(timer);
    set_watchdog("1", own);
    timer = RLServiceWatchdogCreate();
    ck_assert_double_eq(RLTimerGetInterval(timer), 0.001);
    RLRelease(timer);
}

RL_TEST(the_watchdog_tells_at_half_the_time, "S-SDN-2 S-SDN-3", "By the loop's clock it tells at once and each half of the time, in its mode alone") {
    RLClockRef clock = RLClockCreateManual();
    ck_assert(RLSetClock(RLGetCurrent(), clock));
    int manager = listen_somewhere();
    set_watchdog("10000000", NULL);
    RLTimerRef timer = RLServiceWatchdogCreate();
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    keep_alive(RLGetCurrent(), "other");
    RLClockAdvance(clock, 0);
    ck_assert_str_eq(receive(manager), "WATCHDOG=1");
    RLClockAdvance(clock, 4.9);
    ck_assert_str_eq(receive(manager), "");
    RLClockAdvance(clock, 10.2);
    for (int i = 0; i < 3; i++) ck_assert_str_eq(receive(manager), "WATCHDOG=1");
    ck_assert_str_eq(receive(manager), "");
    RLRunInMode("other", 0, false);
    ck_assert_str_eq(receive(manager), "");
    RLTimerInvalidate(timer);
    RLClockAdvance(clock, 100);
    ck_assert_str_eq(receive(manager), "");
    RLRelease(timer);
    RLRelease(clock);
}

static void run_in_child(void *manager) {
    RLRunInMode(kRLDefaultMode, 0, false);
    if (receive(*(int *)manager)[0] != '\0') _exit(1);
}

RL_TEST(the_child_of_fork_tells_nothing, "S-SDN-4 S-FORK-1", "The timer of the parent sends nothing from the child") {
    int manager = listen_somewhere();
    set_watchdog("10000000", NULL);
    RLTimerRef timer = RLServiceWatchdogCreate();
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    ck_assert_int_eq(run_child(run_in_child, &manager).status, 0);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_str_eq(receive(manager), "WATCHDOG=1");
    RLRelease(timer);
}

/* What the library takes for the process's number; 0: the kernel's. */
static pid_t number;
pid_t getpid(void) { return number ? number : (pid_t)syscall(SYS_getpid); }

RL_TEST(a_child_of_the_same_number_tells_nothing, "S-SDN-4", "Nor does it from a child that has the parent's number, in another pid namespace") {
    int manager = listen_somewhere();
    set_watchdog("10000000", NULL);
    number = getpid();
    RLTimerRef timer = RLServiceWatchdogCreate();
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    ck_assert_int_eq(run_child(run_in_child, &manager).status, 0);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_str_eq(receive(manager), "WATCHDOG=1");
    RLRelease(timer);
}
