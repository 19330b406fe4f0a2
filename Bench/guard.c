/* SPDX-License-Identifier: MIT */
/*
 * One hot path, so many times: `guard` counts the instructions of a long run less those of a short
 * one, which depends on no clock. Prints how often memory was allocated in the whole run. See
 * guard.
 *
 * usage: guard-program NAME TIMES
 */
#define _GNU_SOURCE
#include "guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The C library's own functions, under the names it keeps for this. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static long allocations;

void *malloc(size_t size) {
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    allocations++;
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    allocations++;
    return __libc_realloc(block, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    allocations++;
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    allocations++;
    *block = __libc_memalign(alignment, size);
    return *block == NULL;
}

enum { BATCH = 100 };

long times, done;
RLRunLoopRef own;
RLAbsoluteTime base;
static RLSourceRef self, others[BATCH];

void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "guard: %s\n", what);
    exit(1);
}

/* Sources with the same info would be equal, and a mode holds only one of them. */
static RLSourceRef add_source(void (*perform)(void *), void *info) {
    RLSourceContext context = {0};
    context.info = info;
    context.perform = perform;
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddSource(own, source, kRLDefaultMode);
    return source;
}

void run_in_callout(void (*perform)(void *)) {
    self = add_source(perform, NULL);
    RLSourceSignal(self);
    RLRun();
}

static void count(void *info) {
    (void)info;
    done++;
}

static void signal_again(void *info) {
    (void)info;
    if (++done < times)
        RLSourceSignal(self);
    else
        RLStop(own);
}

static void observe(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    (void)activity;
    (void)info;
}

static RLPort port_of(void *info) { return (RLPort)(intptr_t)info; }

static void pass(void) { run_in_callout(signal_again); }

/* The same while the loop measures its call-outs, is watched for slow ones, or is traced. */
static void pass_measured(void) {
    RLSetAccounting(own, true);
    pass();
}

static void not_slow(const RLSlowCallout *callout, void *info) { (void)callout, (void)info; }

static void pass_watched(void) {
    RLSetSlowCalloutHandler(own, 1e6, not_slow, NULL, NULL);
    pass();
}

static void pass_traced(void) {
    char path[] = "/tmp/guard-XXXXXX";
    require(mkstemp(path) >= 0 && RLTraceStart(path, 1), "a trace");
    pass();
    unlink(path);
}

static void pass_observers(void) {
    for (int i = 0; i < 8; i++) {
        RLObserverRef observer = RLObserverCreate(kRLBeforeSources, true, 0, observe, NULL);
        RLAddObserver(own, observer, kRLDefaultMode);
    }
    run_in_callout(signal_again);
}

static void pass_descriptor(void) {
    int ends[2];
    require(pipe(ends) == 0, "no pipe");
    RLSourceContext1 context = {.version = 1, .info = (void *)(intptr_t)ends[0],
                                .getPort = port_of};
    RLAddSource(own, RLSourceCreate(0, (RLSourceContext *)&context), kRLDefaultMode);
    run_in_callout(signal_again);
}

/* A descriptor that stays readable, enabled again in each report. */
static void report_again(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    (void)info;
    RLFileDescriptorEnableCallBacks(file, types);
    if (++done == times) RLStop(own);
}

static void descriptor_event(void) {
    int ends[2];
    require(pipe(ends) == 0 && write(ends[1], "", 1) == 1, "no pipe");
    RLFileDescriptorRef file = RLFileDescriptorCreate(ends[0], false, report_again, NULL);
    RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack);
    RLAddSource(own, RLFileDescriptorCreateRunLoopSource(file, 0), kRLDefaultMode);
    RLRun();
}

/* Of a thousand sockets a hundred stay readable, which one call of the kernel returns. */
static void report_socket(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)socket, (void)type, (void)address, (void)data, (void)info;
    if (++done == times) RLStop(own);
}

static void socket_event(void) {
    for (int i = 0; i < 1000; i++) {
        int descriptor = eventfd(i < 100, EFD_NONBLOCK);
        require(descriptor >= 0, "no eventfd");
        RLSocketRef socket = RLSocketCreateWithNative(descriptor, kRLSocketReadCallBack, report_socket, NULL);
        RLAddSource(own, RLSocketCreateRunLoopSource(socket, 0), kRLDefaultMode);
    }
    RLRun();
}

/* Many sources that are signalled together. */
static void signal_batch(void *info) {
    (void)info;
    if (done == times) {
        RLStop(own);
        return;
    }
    for (int i = 0; i < BATCH; i++) RLSourceSignal(others[i]);
    RLSourceSignal(self);
}

static void signal_perform(void) {
    for (int i = 0; i < BATCH; i++) others[i] = add_source(count, &others[i]);
    run_in_callout(signal_batch);
}

static void wake_many(void *info) {
    (void)info;
    for (; done < times; done++) RLWakeUp(own);
    RLStop(own);
}

static void wake_awake(void) { run_in_callout(wake_many); }

static void post_batch(void *info) {
    (void)info;
    if (done == times) {
        RLStop(own);
        return;
    }
    for (int i = 0; i < BATCH; i++) {
        RLPerformFunction(own, kRLDefaultMode, count, NULL, NULL);
        RLWakeUp(own);
    }
    RLSourceSignal(self);
}

static void post(void) { run_in_callout(post_batch); }

static void replace_sources(void *info) {
    (void)info;
    for (; done < times; done++) {
        RLSourceRef source = add_source(count, NULL);
        RLSourceInvalidate(source);
        RLRelease(source);
    }
    RLStop(own);
}

static void source_life(void) { run_in_callout(replace_sources); }

static void end_at_once(RLThreadRef thread, void *info) {
    (void)thread;
    (void)info;
}

/* One thread after the other, with what the C library does for each. */
static void thread_life(void) {
    for (; done < times; done++) {
        RLThreadRef thread = RLThreadCreate(end_at_once, NULL, NULL);
        require(RLThreadStart(thread) && RLThreadJoin(thread), "a thread");
        RLRelease(thread);
    }
}

static const struct path paths[] = {
    {"pass", pass},
    {"pass_measured", pass_measured},
    {"pass_watched", pass_watched},
    {"pass_traced", pass_traced},
    {"pass_observers", pass_observers},
    {"pass_descriptor", pass_descriptor},
    {"descriptor_event", descriptor_event},
    {"socket_event", socket_event},
    {"signal_perform", signal_perform},
    {"wake_awake", wake_awake},
    {"post", post},
    {"source_life", source_life},
    {"thread_life", thread_life},
    {NULL, NULL},
};

static const struct path *find(const struct path *path, const char *name) {
    while (path->name && strcmp(path->name, name) != 0) path++;
    return path->name ? path : NULL;
}

int main(int argc, char **argv) {
    const struct path *path = argc == 3 ? find(paths, argv[1]) : NULL;
    if (argc == 3 && !path) path = find(timer_paths, argv[1]);
    if (path) {
        times = atol(argv[2]);
        own = RLGetCurrent();
        base = RLAbsoluteTimeGetCurrent();
        path->run();
        require(done == times, "a callback is missing");
        long counted = allocations;
        printf("%ld\n", counted);
        fflush(stdout);
        _exit(0);
    }
    fprintf(stderr, "usage: guard-program NAME TIMES\n");
    return 2;
}
