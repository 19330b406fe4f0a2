/* SPDX-License-Identifier: MIT */
/*
 * A loop over two lists of signalled sources, one of the loop's own thread and a lock-free one of
 * the others, and epoll_wait without waiting if there is a descriptor.
 */
#define _GNU_SOURCE
#include "raw.h"

#include <sys/epoll.h>

struct source {
    struct source *next;
    atomic_bool is_signalled;
    function perform;
    void *info;
};

static struct source *signalled_here;
static _Atomic(struct source *) signalled;
static struct source self;
static struct {
    function call;
    void *info;
} observers[16];
static long passes, performed, observed, observer_count;
static bool is_stopped;

static void signal_source(struct source *s) {
    if (atomic_load_explicit(&s->is_signalled, memory_order_relaxed)) return;
    atomic_store_explicit(&s->is_signalled, true, memory_order_relaxed);
    s->next = signalled_here;
    signalled_here = s;
}

static void perform(void *info) {
    (void)info;
    if (++performed < passes)
        signal_source(&self);
    else
        is_stopped = true;
}

static void observe(void *info) {
    (void)info;
    observed++;
}

static void run(int epoll) {
    is_stopped = false;
    while (!is_stopped) {
        for (long i = 0; i < observer_count; i++) observers[i].call(observers[i].info);
        struct source *s = signalled_here;
        signalled_here = NULL;
        bench_require(!atomic_load_explicit(&signalled, memory_order_relaxed), "who else signals?");
        while (s) {
            struct source *next = s->next;
            atomic_store_explicit(&s->is_signalled, false, memory_order_relaxed);
            s->perform(s->info);
            s = next;
        }
        if (epoll >= 0) {
            struct epoll_event event;
            bench_require(epoll_wait(epoll, &event, 1, 0) == 0, "an idle descriptor became ready");
        }
    }
}

static void measure(int epoll) {
    long asked = passes;
    self.perform = perform;
    for (int phase = 0; phase < 2; phase++) {
        passes = phase ? asked : asked / 10 + 1;
        performed = observed = 0;
        signal_source(&self);
        bench_begin();
        run(epoll);
        if (phase) bench_end((double)passes);
        bench_require(performed == passes && observed == passes * observer_count,
                      "a call was lost");
    }
}

void raw_pass(void) {
    int epoll = -1;
    passes = bench_argument(0, 1000);
    observer_count = bench_argument(1, 0);
    bench_pin(0);
    for (long i = 0; i < observer_count; i++) observers[i].call = observe;
    if (bench_argument(2, 0)) {
        struct epoll_event event = {.events = EPOLLIN};
        epoll = epoll_create1(EPOLL_CLOEXEC);
        epoll_ctl(epoll, EPOLL_CTL_ADD, bench_idle_descriptor(), &event);
    }
    measure(epoll);
}

static void never(void *info) {
    (void)info;
    bench_require(false, "an idle source performed");
}

void raw_pass_idle_sources(void) {
    passes = bench_argument(0, 1000);
    bench_pin(0);
    for (long i = bench_argument(1, 10); i > 0; i--) {
        struct source *s = bench_allocate(sizeof *s);
        s->perform = never;
    }
    measure(-1);
}
