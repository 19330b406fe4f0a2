/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "stress.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void stress_fail(const char *file, int line, const char *format, ...) {
    char text[512];
    va_list arguments;
    int length = snprintf(text, sizeof text, "%s:%d: must hold: ", file, line);
    va_start(arguments, format);
    length += vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof text - 2) length = (int)sizeof text - 2;
    text[length++] = '\n';
    /* Not through stdio: the failing thread may be the child of a fork, without the lock's
       owner. */
    ssize_t written = write(STDERR_FILENO, text, (size_t)length);
    (void)written;
    abort();
}

unsigned long stress_count_at_least(unsigned long full, unsigned long least) {
    const char *text = getenv("RL_STRESS_SCALE"), *times = getenv("RL_STRESS_TIMES");
#ifdef STRESS_SANITIZED
    unsigned long scale = 20;
#else
    unsigned long scale = 1;
#endif
    if (text != NULL && strtoul(text, NULL, 10) > 0) scale = strtoul(text, NULL, 10);
    if (times != NULL && strtoul(times, NULL, 10) > 0) full *= strtoul(times, NULL, 10);
    return full / scale > least ? full / scale : least;
}

unsigned long stress_count(unsigned long full) { return stress_count_at_least(full, 100); }

/* The watchdog. */

atomic_ulong stress_progress_made;

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopped; /* guarded by lock */
    void (*report)(void);
} watchdog = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *watchdog_body(void *unused) {
    unsigned long before = atomic_load(&stress_progress_made);
    struct timespec until;
    (void)unused;
    pthread_mutex_lock(&watchdog.lock);
    while (!watchdog.stopped) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += 120;
        int status = 0;
        while (!watchdog.stopped && status == 0)
            status = pthread_cond_timedwait(&watchdog.changed, &watchdog.lock, &until);
        unsigned long now = atomic_load(&stress_progress_made);
        if (!watchdog.stopped && now == before) {
            if (watchdog.report != NULL) watchdog.report();
            stress_fail(__FILE__, __LINE__, "something happens within two minutes (progress stands at %lu)", now);
        }
        before = now;
    }
    pthread_mutex_unlock(&watchdog.lock);
    return NULL;
}

void stress_watchdog_start(void (*report)(void)) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    watchdog.stopped = false;
    watchdog.report = report;
    stress_thread_start(&watchdog.thread, watchdog_body, NULL);
}

void stress_watchdog_stop(void) {
    pthread_mutex_lock(&watchdog.lock);
    watchdog.stopped = true;
    pthread_cond_signal(&watchdog.changed);
    pthread_mutex_unlock(&watchdog.lock);
    stress_thread_join(watchdog.thread);
    pthread_cond_destroy(&watchdog.changed);
}

/* Answers. */

void answer_init(struct answer *answer) {
    atomic_init(&answer->wanted, 0);
    MUST_BE(sem_init(&answer->given, 0, 0), ==, 0);
}

void answer_destroy(struct answer *answer) { sem_destroy(&answer->given); }

void answer_wait(struct answer *answer) {
    while (sem_wait(&answer->given) != 0) MUST_BE(errno, ==, EINTR);
    stress_progress();
}

/* Loops on threads of their own. */

static void tell_running(void *info) { sem_post(&((struct stress_loop *)info)->running); }

static void *loop_body(void *info) {
    struct stress_loop *loop = info;
    loop->loop = RLGetCurrent();
    RLRetain(loop->loop);
    loop->keep = stress_source(0, NULL, NULL);
    RLAddSource(loop->loop, loop->keep, kRLDefaultMode);
    loop->idle_port = NULL;
    if (loop->sleep == SLEEP_SPINNING) RLSetSpinLimit(loop->loop, 0.0002);
    if (loop->sleep == SLEEP_IN_EPOLL) {
        loop->idle_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        MUST_BE(loop->idle_fd, >=, 0);
        loop->idle_port = stress_idle_port(&loop->idle_fd);
        RLAddSource(loop->loop, loop->idle_port, kRLDefaultMode);
    }
    RLPerformFunction(loop->loop, kRLDefaultMode, tell_running, loop, NULL);
    MUST_BE(RLRunInMode(kRLDefaultMode, STRESS_FOREVER, false), ==, kRLRunStopped);
    atomic_store(&loop->ended, true);
    return NULL;
}

void stress_loop_start(struct stress_loop *loop, enum stress_sleep sleep) {
    loop->sleep = sleep;
    loop->idle_fd = -1;
    atomic_init(&loop->ended, false);
    MUST_BE(sem_init(&loop->running, 0, 0), ==, 0);
    stress_thread_start(&loop->thread, loop_body, loop);
    while (sem_wait(&loop->running) != 0) MUST_BE(errno, ==, EINTR);
}

void stress_loop_join(struct stress_loop *loop) {
    stress_thread_join(loop->thread);
    MUST(atomic_load(&loop->ended));
    RLRelease(loop->keep);
    if (loop->idle_port != NULL) {
        RLSourceInvalidate(loop->idle_port);
        RLRelease(loop->idle_port);
        close(loop->idle_fd);
    }
    RLRelease(loop->loop);
    sem_destroy(&loop->running);
}

/* Sources. */

RLSourceRef stress_source(RLIndex order, void (*perform)(void *info), void *info) {
    RLSourceContext context = {.version = 0, .info = info, .perform = perform};
    RLSourceRef source = RLSourceCreate(order, &context);
    MUST(source != NULL);
    return source;
}

static RLPort idle_port_of(void *info) { return *(int *)info; }

static void idle_port_performed(void *info) {
    (void)info;
    stress_fail(__FILE__, __LINE__, "a descriptor that is never ready performs nothing");
}

RLSourceRef stress_idle_port(int *fd) {
    RLSourceContext1 context = {.version = 1, .info = fd, .getPort = idle_port_of, .perform = idle_port_performed};
    RLSourceRef source = RLSourceCreate(0, (RLSourceContext *)&context);
    MUST(source != NULL);
    return source;
}

/* Threads. */

int stress_thread_id(void) { return (int)syscall(SYS_gettid); }

bool stress_pin_to_one_core(void) {
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &allowed)) continue;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        return sched_setaffinity(0, sizeof one, &one) == 0;
    }
    return false;
}

void stress_thread_start(pthread_t *thread, void *(*body)(void *), void *info) {
    MUST_BE(pthread_create(thread, NULL, body, info), ==, 0);
}

void stress_thread_join(pthread_t thread) { MUST_BE(pthread_join(thread, NULL), ==, 0); }
