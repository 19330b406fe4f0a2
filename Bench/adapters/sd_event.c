/* SPDX-License-Identifier: MIT */
/* sd-event: a loop belongs to one thread. Other threads reach it by a descriptor. */
#include "../adapter.h"
#include "../bench.h"
#include "post_list.h"

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <systemd/sd-event.h>
#include <unistd.h>

const bool timers_are_slow = false;

struct loop {
    sd_event *sd;
    int wake;
    bool is_stopped;
    struct post_list posts;
    _Atomic(source *) signalled;
};
struct source {
    sd_event_source *defer;
    _Atomic(source *) next;
    atomic_bool is_signalled;
    void *info;
};

static loop *own;
static uint64_t base;
static function fire_function, observe_function, perform_function;

/* Sources that other threads signalled stand in a list that a wake-up enables. */
static int be_woken(sd_event_source *io, int descriptor, uint32_t events, void *info) {
    (void)io;
    (void)events;
    loop *l = info;
    uint64_t count;
    bench_require(read(descriptor, &count, sizeof count) == sizeof count, "no wake-up to read");
    for (source *s = atomic_exchange(&l->signalled, NULL), *next; s; s = next) {
        next = atomic_load(&s->next);
        atomic_store(&s->is_signalled, false);
        perform_function(s->info);
    }
    post_list_run(&l->posts);
    return 0;
}

loop *loop_open(bool threads) {
    loop *l = bench_allocate(sizeof *l);
    bench_require(sd_event_new(&l->sd) >= 0, "no loop");
    if (threads) {
        post_list_init(&l->posts);
        l->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        sd_event_add_io(l->sd, NULL, l->wake, EPOLLIN, be_woken, l);
    }
    own = l;
    return l;
}

/* A loop that was left with sd_event_exit cannot run again, so this is sd_event_loop by hand. */
void loop_run(loop *l) {
    l->is_stopped = false;
    while (!l->is_stopped) bench_require(sd_event_run(l->sd, UINT64_MAX) >= 0, "the loop failed");
}

void loop_stop(loop *l) { l->is_stopped = true; }
void loop_rebase(loop *l) {
    if (sd_event_now(l->sd, 1, &base) < 0) bench_require(false, "no time");
}

void loop_spin(loop *l, double seconds) {
    (void)l;
    (void)seconds;
    bench_absent();
}

static int never(sd_event_source *io, int descriptor, uint32_t events, void *info) {
    (void)io;
    (void)descriptor;
    (void)events;
    (void)info;
    bench_require(false, "an idle descriptor performed");
    return 0;
}

void loop_watch(loop *l, int descriptor, bool object) {
    (void)object;
    sd_event_add_io(l->sd, NULL, descriptor, EPOLLIN, never, NULL);
}

struct receiver {
    function call;
    void *info;
};

static int receive(sd_event_source *io, int descriptor, uint32_t events, void *receiver) {
    (void)io;
    (void)descriptor;
    (void)events;
    struct receiver *r = receiver;
    r->call(r->info);
    return 0;
}

bool loop_receive(loop *l, int descriptor, function call, void *info, int kind) {
    if (kind) bench_absent();
    struct receiver *r = bench_allocate(sizeof *r);
    *r = (struct receiver){call, info};
    bench_require(sd_event_add_io(l->sd, NULL, descriptor, EPOLLIN, receive, r) >= 0, "no source");
    return false;
}

static int observe(sd_event_source *timer, void *info) {
    (void)timer;
    observe_function(info);
    return 0;
}

static int never_due(sd_event_source *timer, uint64_t time, void *info) {
    (void)timer;
    (void)time;
    (void)info;
    bench_require(false, "a timer of the far future fired");
    return 0;
}

/* Any source may have a function that is called at the beginning of each pass. */
void loop_observe(loop *l, function call, void *info) {
    sd_event_source *timer;
    observe_function = call;
    bench_require(sd_event_add_time(l->sd, &timer, 1, UINT64_MAX, 1, never_due, info) >= 0,
                  "no timer");
    sd_event_source_set_prepare(timer, observe);
}

static void wake(loop *l) {
    uint64_t one = 1;
    bench_require(write(l->wake, &one, sizeof one) == sizeof one, "no wake-up");
}

void loop_post(loop *l, function call, void *info) {
    if (post_list_put(&l->posts, call, info)) wake(l);
}

static int perform_source(sd_event_source *defer, void *info) {
    (void)defer;
    perform_function(((source *)info)->info);
    return 0;
}

source *source_add(loop *l, function perform, void *info) {
    source *s = bench_allocate(sizeof *s);
    perform_function = perform;
    s->info = info;
    bench_require(sd_event_add_defer(l->sd, &s->defer, perform_source, s) >= 0, "no source");
    sd_event_source_set_enabled(s->defer, SD_EVENT_OFF);
    return s;
}

void source_signal(source *s) { sd_event_source_set_enabled(s->defer, SD_EVENT_ONESHOT); }

void source_wake(loop *l, source *s) {
    if (atomic_exchange(&s->is_signalled, true)) return;
    source *first = atomic_load(&l->signalled);
    do atomic_store(&s->next, first);
    while (!atomic_compare_exchange_weak(&l->signalled, &first, s));
    if (!first) wake(l);
}

source *again_add(loop *l, function perform, void *info) { return source_add(l, perform, info); }
void again_signal(source *s) { source_signal(s); }

struct timed {
    uint64_t interval, next;
};

static int fire(sd_event_source *timer, uint64_t time, void *info) {
    (void)timer;
    (void)time;
    fire_function(info);
    return 0;
}

static int fire_and_repeat(sd_event_source *timer, uint64_t time, void *info) {
    (void)time;
    struct timed *repeating = info;
    repeating->next += repeating->interval;
    sd_event_source_set_time(timer, repeating->next);
    sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
    fire_function(NULL);
    return 0;
}

static uint64_t microseconds(double delay) { return (uint64_t)(delay * 1e6 + 0.5); }

timer *timer_add(loop *l, double delay, double interval, double tolerance, function call,
                 void *info) {
    sd_event_source *t;
    fire_function = call;
    uint64_t accuracy = tolerance > 0 ? microseconds(tolerance) : 1;
    if (interval > 0) {
        struct timed *repeating = bench_allocate(sizeof *repeating);
        repeating->interval = microseconds(interval);
        repeating->next = base + microseconds(delay);
        sd_event_add_time(l->sd, &t, 1, repeating->next, accuracy, fire_and_repeat, repeating);
    } else {
        uint64_t date = base + microseconds(delay);
        bench_require(sd_event_add_time(l->sd, &t, 1, date, accuracy, fire, info) >= 0, "no timer");
    }
    return (timer *)t;
}

void timer_remove_set_add(timer *t, double delay) {
    sd_event_source_set_enabled((sd_event_source *)t, SD_EVENT_OFF);
    sd_event_source_set_time((sd_event_source *)t, base + microseconds(delay));
    sd_event_source_set_enabled((sd_event_source *)t, SD_EVENT_ONESHOT);
}

void timer_move(timer *t, double delay) {
    sd_event_source_set_time((sd_event_source *)t, base + microseconds(delay));
}

void timer_move_from_outside(timer *t, double delay) {
    (void)t;
    (void)delay;
    bench_absent();
}

void timer_end(timer *t) { sd_event_source_unref((sd_event_source *)t); }
