/* SPDX-License-Identifier: MIT */
/*
 * libevent 2: a base has a lock if threads were switched on, and then all calls are allowed from
 * all threads. They are switched on only where a workload has other threads, which is to its
 * advantage.
 */
#include "../adapter.h"
#include "../bench.h"
#include "post_list.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/thread.h>

const bool timers_are_slow = false;

struct loop {
    struct event_base *base;
    source *again;
    bool is_stopped, calls_again;
    int observers;
    struct event *observing[16];
    struct event poster;
    struct post_list posts;
};
struct source {
    struct event event;
};
struct timer {
    struct event event;
};

static function fire_function, observe_function, perform_function;
static loop *own;

static void run_posts(evutil_socket_t none, short what, void *list) {
    (void)none;
    (void)what;
    post_list_run(list);
}

static void never(evutil_socket_t none, short what, void *info) {
    (void)none;
    (void)what;
    (void)info;
    bench_require(false, "something idle was called");
}

loop *loop_open(bool threads) {
    loop *l = bench_allocate(sizeof *l);
    if (threads) evthread_use_pthreads();
    l->base = event_base_new();
    bench_require(l->base != NULL, "no loop");
    if (threads) {
        post_list_init(&l->posts);
        event_assign(&l->poster, l->base, -1, EV_PERSIST, run_posts, &l->posts);
    }
    own = l;
    return l;
}

/* An event that activates itself would be called again in the same pass, before anything else, so
   the pass that follows is asked for here. */
void loop_run(loop *l) {
    l->is_stopped = false;
    while (!l->is_stopped) {
        if (!l->calls_again) {
            event_base_loop(l->base, EVLOOP_NO_EXIT_ON_EMPTY);
            continue;
        }
        l->calls_again = false;
        for (int i = 0; i < l->observers; i++) event_active(l->observing[i], EV_READ, 0);
        event_active(&l->again->event, EV_READ, 0);
        event_base_loop(l->base, EVLOOP_NONBLOCK | EVLOOP_ONCE);
    }
}

void loop_stop(loop *l) {
    l->is_stopped = true;
    event_base_loopbreak(l->base);
}

void loop_rebase(loop *l) { event_base_update_cache_time(l->base); }

void loop_spin(loop *l, double seconds) {
    (void)l;
    (void)seconds;
    bench_absent();
}

void loop_watch(loop *l, int descriptor, bool object) {
    (void)object;
    struct event *event = event_new(l->base, descriptor, EV_READ | EV_PERSIST, never, NULL);
    event_add(event, NULL);
}

struct receiver {
    struct event event;
    function call;
    void *info;
};

static void receive(evutil_socket_t descriptor, short what, void *receiver) {
    (void)descriptor;
    (void)what;
    struct receiver *r = receiver;
    r->call(r->info);
}

bool loop_receive(loop *l, int descriptor, function call, void *info, int kind) {
    if (kind) bench_absent();
    struct receiver *r = bench_allocate(sizeof *r);
    r->call = call;
    r->info = info;
    event_assign(&r->event, l->base, descriptor, EV_READ | EV_PERSIST, receive, r);
    bench_require(event_add(&r->event, NULL) == 0, "no event");
    return false;
}

static void observe(evutil_socket_t none, short what, void *info) {
    (void)none;
    (void)what;
    observe_function(info);
}

/* There are none in this version: events that are activated with the pass stand for them. */
void loop_observe(loop *l, function call, void *info) {
    observe_function = call;
    l->observing[l->observers++] = event_new(l->base, -1, EV_PERSIST, observe, info);
}

void loop_post(loop *l, function call, void *info) {
    if (post_list_put(&l->posts, call, info)) event_active(&l->poster, EV_READ, 0);
}

static void perform_source(evutil_socket_t none, short what, void *info) {
    (void)none;
    (void)what;
    perform_function(info);
}

source *source_add(loop *l, function perform, void *info) {
    source *s = bench_allocate(sizeof *s);
    perform_function = perform;
    event_assign(&s->event, l->base, -1, EV_PERSIST, perform_source, info);
    return s;
}

void source_signal(source *s) {
    own->again = s;
    own->calls_again = true;
    event_base_loopbreak(own->base);
}

void source_wake(loop *l, source *s) {
    (void)l;
    event_active(&s->event, EV_READ, 0);
}
source *again_add(loop *l, function perform, void *info) { return source_add(l, perform, info); }
void again_signal(source *s) { source_signal(s); }

static void fire(evutil_socket_t none, short what, void *info) {
    (void)none;
    (void)what;
    fire_function(info);
}

static struct timeval time_of(double delay) {
    long microseconds = (long)(delay * 1e6 + 0.5);
    return (struct timeval){microseconds / 1000000, microseconds % 1000000};
}

timer *timer_add(loop *l, double delay, double interval, double tolerance, function call,
                 void *info) {
    (void)tolerance;
    timer *t = bench_allocate(sizeof *t);
    struct timeval time = time_of(delay);
    fire_function = call;
    event_assign(&t->event, l->base, -1, interval > 0 ? EV_PERSIST : 0, fire, info);
    event_add(&t->event, &time);
    return t;
}

void timer_remove_set_add(timer *t, double delay) {
    struct timeval time = time_of(delay);
    event_del(&t->event);
    event_add(&t->event, &time);
}

void timer_move(timer *t, double delay) {
    struct timeval time = time_of(delay);
    event_add(&t->event, &time);
}

void timer_move_from_outside(timer *t, double delay) { timer_move(t, delay); }

void timer_end(timer *t) {
    event_del(&t->event);
    free(t);
}
