/* SPDX-License-Identifier: MIT */
/* A local port that cannot take a connection for now: what takes up the work again where the log handler ends its thread, and where there is no thread. */
#define _GNU_SOURCE
#include "messageport_support.h"
#include "system_calls.h"
#include "thread_starts.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* No thread can be made, and nothing more is put into an epoll set. */
static bool is_exhausted;
static int refusals;
static bool refuses(void) {
    if (!__atomic_load_n(&is_exhausted, __ATOMIC_SEQ_CST)) return false;
    __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST);
    return true;
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
    if (operation == EPOLL_CTL_ADD && refuses()) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}

static Service service;
static Gate is_ready = GATE_INITIALIZER, may_serve = GATE_INITIALIZER;
static int lines;

static void end_thread(const char *line, void *info) {
    (void)line, (void)info;
    lines++;
    pthread_exit(NULL);
}

static void *just_end(void *unused) { pthread_exit(unused); }

static void *serve_until_the_line(void *unused) {
    RLAddSource(RLGetCurrent(), service.source, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, false);
    gate_open(&is_ready);
    gate_wait(&may_serve);
    while (true) RLRunInMode(kRLDefaultMode, 1e6, false);
    return unused;
}

RL_TEST(the_handler_ends_the_thread, "S-ARG-9 S-ARG-10 S-LOOP-19",
        "A connection that found no descriptor is taken by another loop, though the log handler ended the thread that logged that; no reference is left") {
    RLMessagePortRef port = service_port(&service, port_name("paused"));
    service.source = RLMessagePortCreateRunLoopSource(port, 0);
    const long references = RLGetRetainCount(port);
    pthread_t thread;
    /* pthread_exit loads a library at its first use, which needs a descriptor. */
    ck_assert_int_eq(pthread_create(&thread, NULL, just_end, NULL), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(pthread_create(&thread, NULL, serve_until_the_line, NULL), 0);
    gate_wait(&is_ready);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("paused"));
    ck_assert_int_eq(send_text(remote, 1, "x"), kRLMessagePortSuccess);
    RLSetLogHandler(end_thread, NULL);
    struct rlimit old, none;
    getrlimit(RLIMIT_NOFILE, &old);
    none = old;
    none.rlim_cur = 3;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    gate_open(&may_serve);
    pthread_join(thread, NULL);
    setrlimit(RLIMIT_NOFILE, &old);
    ck_assert_int_eq(lines, 1);
    ck_assert_int_eq(service.calls, 0);
    RLAddSource(RLGetCurrent(), service.source, kRLDefaultMode);
    const double end = monotonic_now() + 60;
    while (service.calls == 0 && monotonic_now() < end) RLRunInMode(kRLDefaultMode, 0.1, true);
    ck_assert_int_eq(service.calls, 1);
    ck_assert_int_eq(RLGetRetainCount(port), references);
    RLRelease(remote);
    RLMessagePortInvalidate(port);
    RLRelease(port);
}

static int refused_sleeps;
static bool refuse_sleep(long number, const long argument[6], long *result) {
    (void)argument;
    if (number != SYS_nanosleep && number != SYS_clock_nanosleep) return false;
    __atomic_add_fetch(&refused_sleeps, 1, __ATOMIC_SEQ_CST);
    errno = EPERM;
    *result = -1;
    return true;
}
RL_TEST(where_sleeps_are_refused, "S-ARG-10 S-ARG-11", "A connection that found no descriptor is looked at ten times a second also where the kernel refuses sleeps") {
    RLMessagePortRef port = add_service(&service, port_name("sleepless"), "m");
    expect_run("m", 0, true, TimedOut);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("sleepless"));
    ck_assert_int_eq(send_text(remote, 1, "x"), kRLMessagePortSuccess);
    log_capture();
    hook_system_calls(refuse_sleep);
    struct rlimit old, none;
    getrlimit(RLIMIT_NOFILE, &old);
    none = old;
    none.rlim_cur = 3;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    const double begin = monotonic_now();
    while (monotonic_now() - begin < 0.3) RLRunInMode("m", 0.1, true);
    setrlimit(RLIMIT_NOFILE, &old);
    ck_assert_int_eq(service.calls, 0);
    ck_assert_int_gt(count_of(&refused_sleeps), 0);
    ck_assert_double_le(count_of(&refused_sleeps), 10 * (monotonic_now() - begin) + 3);
    const double end = monotonic_now() + 60;
    while (service.calls == 0 && monotonic_now() < end) RLRunInMode("m", 0.1, true);
    ck_assert_int_eq(service.calls, 1);
    hook_system_calls(NULL);
    RLRelease(remote);
    RLMessagePortInvalidate(port);
    RLRelease(port);
}

RL_TEST(neither_room_nor_a_thread, "S-ARG-10",
        "A connection for which there was neither room in the port's set nor a thread is served once there is room, without a spin, in a common mode that "
        "had no part in it, and so is the next one") {
    RLMessagePortRef port = add_service(&service, port_name("exhausted"), "m");
    RLAddSource(RLGetCurrent(), service.source, kRLDefaultMode);
    expect_run("m", 0, true, TimedOut);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("exhausted"));
    ck_assert_int_eq(send_text(remote, 1, "x"), kRLMessagePortSuccess);
    log_capture();
    __atomic_store_n(&is_exhausted, true, __ATOMIC_SEQ_CST);
    hook_thread_starts(refuses);
    const double begin = monotonic_now();
    while (monotonic_now() - begin < 0.3) RLRunInMode("m", 0.1, true);
    ck_assert_int_eq(service.calls, 0);
    ck_assert_int_gt(count_of(&refusals), 0);
    /* A look asks for the connection's place, the listener's, and a thread. */
    ck_assert_double_le(count_of(&refusals), 8 * (10 * (monotonic_now() - begin) + 3));
    ck_assert_int_eq(log_count(), 1);
    __atomic_store_n(&is_exhausted, false, __ATOMIC_SEQ_CST);
    const double end = monotonic_now() + 60;
    while (service.calls == 0 && monotonic_now() < end) RLRunInMode(kRLDefaultMode, 0.1, true);
    ck_assert_int_eq(service.calls, 1);
    RLMessagePortInvalidate(remote);
    RLRelease(remote);
    remote = RLMessagePortCreateRemote(port_name("exhausted"));
    ck_assert_int_eq(send_text(remote, 2, "y"), kRLMessagePortSuccess);
    while (service.calls == 1 && monotonic_now() < end) RLRunInMode(kRLDefaultMode, 0.1, true);
    ck_assert_int_eq(service.calls, 2);
    RLRelease(remote);
    RLMessagePortInvalidate(port);
    RLRelease(port);
}
