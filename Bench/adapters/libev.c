/* SPDX-License-Identifier: MIT */
/* libev 4: a loop belongs to one thread; ev_async_send alone may be called from others. */
#include "../adapter.h"
#include "../bench.h"
#include "post_list.h"

#include <ev.h>

const bool timers_are_slow = false;

struct loop {
    struct ev_loop *ev;
    ev_async poster;
    struct post_list posts;
};
struct source {
    ev_async ev;
};
struct timer {
    ev_timer ev;
};

static loop *own;
static function fire_function, observe_function, perform_function;

static void run_posts(struct ev_loop *ev, ev_async *async, int events) {
    (void)ev;
    (void)events;
    post_list_run(async->data);
}

loop *loop_open(bool threads) {
    loop *l = bench_allocate(sizeof *l);
    l->ev = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
    bench_require(l->ev != NULL, "no loop");
    if (threads) {
        post_list_init(&l->posts);
        ev_async_init(&l->poster, run_posts);
        l->poster.data = &l->posts;
        ev_async_start(l->ev, &l->poster);
    }
    own = l;
    return l;
}

void loop_run(loop *l) { ev_run(l->ev, 0); }
void loop_stop(loop *l) { ev_break(l->ev, EVBREAK_ONE); }
void loop_rebase(loop *l) { ev_now_update(l->ev); }

void loop_spin(loop *l, double seconds) {
    (void)l;
    (void)seconds;
    bench_absent();
}

static void never(struct ev_loop *ev, ev_io *io, int events) {
    (void)ev;
    (void)io;
    (void)events;
    bench_require(false, "an idle descriptor performed");
}

void loop_watch(loop *l, int descriptor, bool object) {
    (void)object;
    ev_io *io = bench_allocate(sizeof *io);
    ev_io_init(io, never, descriptor, EV_READ);
    ev_io_start(l->ev, io);
}

struct receiver {
    ev_io io;
    function call;
};

static void receive(struct ev_loop *ev, ev_io *io, int events) {
    (void)ev;
    (void)events;
    ((struct receiver *)io)->call(io->data);
}

bool loop_receive(loop *l, int descriptor, function call, void *info, int kind) {
    if (kind) bench_absent();
    struct receiver *r = bench_allocate(sizeof *r);
    r->call = call;
    ev_io_init(&r->io, receive, descriptor, EV_READ);
    r->io.data = info;
    ev_io_start(l->ev, &r->io);
    return false;
}

static void observe(struct ev_loop *ev, ev_prepare *prepare, int events) {
    (void)ev;
    (void)events;
    observe_function(prepare->data);
}

void loop_observe(loop *l, function call, void *info) {
    ev_prepare *prepare = bench_allocate(sizeof *prepare);
    observe_function = call;
    ev_prepare_init(prepare, observe);
    prepare->data = info;
    ev_prepare_start(l->ev, prepare);
}

void loop_post(loop *l, function call, void *info) {
    if (post_list_put(&l->posts, call, info)) ev_async_send(l->ev, &l->poster);
}

static void perform_source(struct ev_loop *ev, ev_async *async, int events) {
    (void)ev;
    (void)events;
    perform_function(async->data);
}

source *source_add(loop *l, function perform, void *info) {
    source *s = bench_allocate(sizeof *s);
    perform_function = perform;
    ev_async_init(&s->ev, perform_source);
    s->ev.data = info;
    ev_async_start(l->ev, &s->ev);
    return s;
}

void source_signal(source *s) { ev_async_send(own->ev, &s->ev); }
void source_wake(loop *l, source *s) { ev_async_send(l->ev, &s->ev); }
/* On the loop's own thread ev_async_send only sets flags, and the next pass polls. */
source *again_add(loop *l, function perform, void *info) { return source_add(l, perform, info); }
void again_signal(source *s) { source_signal(s); }

static void fire(struct ev_loop *ev, ev_timer *timer, int events) {
    (void)ev;
    (void)events;
    fire_function(timer->data);
}

timer *timer_add(loop *l, double delay, double interval, double tolerance, function call,
                 void *info) {
    (void)tolerance;
    timer *t = bench_allocate(sizeof *t);
    fire_function = call;
    ev_timer_init(&t->ev, fire, delay, interval);
    t->ev.data = info;
    ev_timer_start(l->ev, &t->ev);
    return t;
}

void timer_remove_set_add(timer *t, double delay) {
    ev_timer_stop(own->ev, &t->ev);
    ev_timer_set(&t->ev, delay, 0);
    ev_timer_start(own->ev, &t->ev);
}

void timer_move(timer *t, double delay) {
    t->ev.repeat = delay;
    ev_timer_again(own->ev, &t->ev);
}

void timer_move_from_outside(timer *t, double delay) {
    (void)t;
    (void)delay;
    bench_absent();
}

void timer_end(timer *t) {
    ev_timer_stop(own->ev, &t->ev);
    free(t);
}
