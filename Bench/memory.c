/* SPDX-License-Identifier: MIT */
/*
 * Bytes of memory for each of many objects that wait in a loop: the growth of what malloc has given out, with the words that it keeps
 * before each block, so tables count as well. No figure depends on a clock or on whole pages. See memory.
 *
 * usage: memory-program     prints a line for each kind
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <runloop/runloop.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST = 1000, COUNT = 10000 };

static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "memory: %s\n", what);
    exit(1);
}

static void never(void *info) {
    (void)info;
    require(false, "something idle was called");
}

static void never_fire(RLTimerRef timer, void *info) { (void)timer, never(info); }

static void never_report(RLFileDescriptorRef file, RLOptionFlags types, void *info) { (void)file, (void)types, never(info); }

static void never_tell(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)socket, (void)type, (void)address, (void)data, never(info);
}

static RLPort port_of(void *info) { return (RLPort)(intptr_t)info; }

static int idle_descriptor(void) {
    int descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    require(descriptor >= 0, "no descriptor");
    return descriptor;
}

/* The references of the client are not given back: nothing of an object may be freed before the end. */
static void add_source(RLSourceRef source) {
    require(source != NULL, "no source");
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
}

static void timer(long i) {
    RLAddTimer(RLGetCurrent(), RLTimerCreate(RLAbsoluteTimeGetCurrent() + 10000 + (double)i / 1000, 0, 0, 0, never_fire, NULL), kRLDefaultMode);
}

static void tolerant_timer(long i) {
    RLTimerRef t = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 10000 + (double)i / 1000, 0, 0, 0, never_fire, NULL);
    RLTimerSetTolerance(t, 1);
    RLAddTimer(RLGetCurrent(), t, kRLDefaultMode);
}

static void source(long i) {
    RLSourceContext context = {.info = (void *)(intptr_t)(i + 1), .perform = never};
    add_source(RLSourceCreate(0, &context));
}

static void source_v1(long i) {
    (void)i;
    RLSourceContext1 context = {.version = 1, .info = (void *)(intptr_t)idle_descriptor(), .getPort = port_of, .perform = never};
    add_source(RLSourceCreate(0, (RLSourceContext *)&context));
}

static void descriptor_object(long i) {
    (void)i;
    RLFileDescriptorRef file = RLFileDescriptorCreate(idle_descriptor(), false, never_report, NULL);
    RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack);
    add_source(RLFileDescriptorCreateRunLoopSource(file, 0));
}

static void socket_object(long i) {
    (void)i;
    add_source(RLSocketCreateRunLoopSource(RLSocketCreateWithNative(idle_descriptor(), kRLSocketReadCallBack, never_tell, NULL), 0));
}

static const struct {
    const char *name;
    void (*add)(long i);
} kinds[] = {
    {"timer", timer},         {"tolerant_timer", tolerant_timer},       {"source", source},
    {"source_v1", source_v1}, {"descriptor_object", descriptor_object}, {"socket_object", socket_object},
};

static double given_out(void) {
    struct mallinfo2 info = mallinfo2();
    return (double)info.uordblks + (double)info.hblkhd;
}

int main(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < FIRST + COUNT + 64) {
        printf("skipped: the limit of descriptors is %lu\n", (unsigned long)limit.rlim_max);
        return 77;
    }
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        /* Each in a process of its own, whose memory nothing used before. */
        pid_t child = fork();
        require(child >= 0, "no process");
        if (child == 0) {
            for (long i = 0; i < FIRST; i++) kinds[kind].add(i);
            double before = given_out();
            for (long i = FIRST; i < FIRST + COUNT; i++) kinds[kind].add(i);
            printf("%-20s %8.1f\n", kinds[kind].name, (given_out() - before) / COUNT);
            fflush(stdout);
            _exit(0);
        }
        int status;
        require(waitpid(child, &status, 0) == child && status == 0, kinds[kind].name);
    }
    return 0;
}
