/* SPDX-License-Identifier: MIT */
/* libuv 1: a loop belongs to one thread; uv_async_send alone may be called from others. */
#include "../adapter.h"
#include "../bench.h"
#include "post_list.h"

#include <uv.h>

const bool timers_are_slow = false;

struct loop {
    uv_loop_t uv;
    uv_async_t poster;
    struct post_list posts;
};
struct source {
    union {
        uv_async_t async;
        uv_idle_t idle;
    } uv;
};
struct timer {
    uv_timer_t uv;
};

static loop *own;
static function fire_function, observe_function, perform_function;

static void run_posts(uv_async_t *async) { post_list_run(async->data); }

loop *loop_open(bool threads) {
    loop *l = bench_allocate(sizeof *l);
    bench_require(uv_loop_init(&l->uv) == 0, "no loop");
    if (threads) {
        post_list_init(&l->posts);
        uv_async_init(&l->uv, &l->poster, run_posts);
        l->poster.data = &l->posts;
    }
    own = l;
    return l;
}

void loop_run(loop *l) { uv_run(&l->uv, UV_RUN_DEFAULT); }
void loop_stop(loop *l) { uv_stop(&l->uv); }
void loop_rebase(loop *l) { uv_update_time(&l->uv); }

void loop_spin(loop *l, double seconds) {
    (void)l;
    (void)seconds;
    bench_absent();
}

static void never(uv_poll_t *poll, int status, int events) {
    (void)poll;
    (void)status;
    (void)events;
    bench_require(false, "an idle descriptor performed");
}

void loop_watch(loop *l, int descriptor, bool object) {
    (void)object;
    uv_poll_t *poll = bench_allocate(sizeof *poll);
    uv_poll_init(&l->uv, poll, descriptor);
    uv_poll_start(poll, UV_READABLE, never);
}

struct receiver {
    uv_poll_t poll;
    function call;
};

static void receive(uv_poll_t *poll, int status, int events) {
    (void)events;
    bench_require(status == 0, "a descriptor has an error");
    ((struct receiver *)poll)->call(poll->data);
}

bool loop_receive(loop *l, int descriptor, function call, void *info, int kind) {
    if (kind) bench_absent();
    struct receiver *r = bench_allocate(sizeof *r);
    r->call = call;
    r->poll.data = info;
    bench_require(uv_poll_init(&l->uv, &r->poll, descriptor) == 0, "no handle");
    uv_poll_start(&r->poll, UV_READABLE, receive);
    return false;
}

static void observe(uv_prepare_t *prepare) { observe_function(prepare->data); }

void loop_observe(loop *l, function call, void *info) {
    uv_prepare_t *prepare = bench_allocate(sizeof *prepare);
    observe_function = call;
    uv_prepare_init(&l->uv, prepare);
    prepare->data = info;
    uv_prepare_start(prepare, observe);
}

void loop_post(loop *l, function call, void *info) {
    if (post_list_put(&l->posts, call, info)) uv_async_send(&l->poster);
}

static void perform_source(uv_async_t *async) { perform_function(async->data); }

source *source_add(loop *l, function perform, void *info) {
    source *s = bench_allocate(sizeof *s);
    perform_function = perform;
    uv_async_init(&l->uv, &s->uv.async, perform_source);
    s->uv.async.data = info;
    return s;
}

void source_signal(source *s) { uv_async_send(&s->uv.async); }
void source_wake(loop *l, source *s) {
    (void)l;
    uv_async_send(&s->uv.async);
}

static void perform_idle(uv_idle_t *idle) { perform_function(idle->data); }

/* Sending to oneself writes to a descriptor; an idle handle runs in every pass without that. */
source *again_add(loop *l, function perform, void *info) {
    source *s = bench_allocate(sizeof *s);
    perform_function = perform;
    uv_idle_init(&l->uv, &s->uv.idle);
    s->uv.idle.data = info;
    return s;
}

void again_signal(source *s) {
    if (!uv_is_active((uv_handle_t *)&s->uv.idle)) uv_idle_start(&s->uv.idle, perform_idle);
}

static void fire(uv_timer_t *timer) { fire_function(timer->data); }
static uint64_t milliseconds(double delay) { return (uint64_t)(delay * 1000 + 0.5); }

timer *timer_add(loop *l, double delay, double interval, double tolerance, function call,
                 void *info) {
    (void)tolerance;
    timer *t = bench_allocate(sizeof *t);
    fire_function = call;
    uv_timer_init(&l->uv, &t->uv);
    t->uv.data = info;
    uv_timer_start(&t->uv, fire, milliseconds(delay), milliseconds(interval));
    return t;
}

void timer_remove_set_add(timer *t, double delay) {
    uv_timer_stop(&t->uv);
    uv_timer_start(&t->uv, fire, milliseconds(delay), 0);
}

void timer_move(timer *t, double delay) { uv_timer_start(&t->uv, fire, milliseconds(delay), 0); }

void timer_move_from_outside(timer *t, double delay) {
    (void)t;
    (void)delay;
    bench_absent();
}

static void free_handle(uv_handle_t *handle) { free(handle); }
void timer_end(timer *t) { uv_close((uv_handle_t *)&t->uv, free_handle); }
