/* SPDX-License-Identifier: MIT */
/* GLib: a context may be used by all threads, under its lock. */
#include "../adapter.h"
#include "../bench.h"

#include <glib.h>
#include <stdatomic.h>

const bool timers_are_slow = false;

struct loop {
    GMainContext *context;
    bool is_stopped, threads;
};
struct source {
    GSource glib;
    atomic_bool is_signalled;
    void *info;
};

static gint64 base;
static function fire_function, observe_function, perform_function;

loop *loop_open(bool threads) {
    loop *l = bench_allocate(sizeof *l);
    l->threads = threads;
    l->context = g_main_context_new();
    g_main_context_acquire(l->context);
    return l;
}

void loop_run(loop *l) {
    l->is_stopped = false;
    while (!l->is_stopped) g_main_context_iteration(l->context, TRUE);
}

void loop_stop(loop *l) { l->is_stopped = true; }

void loop_rebase(loop *l) {
    (void)l;
    base = g_get_monotonic_time();
}

void loop_spin(loop *l, double seconds) {
    (void)l;
    (void)seconds;
    bench_absent();
}

static gboolean never(GSource *s, GSourceFunc call, gpointer info) {
    (void)s;
    (void)call;
    (void)info;
    bench_require(false, "an idle descriptor performed");
    return G_SOURCE_CONTINUE;
}

static GSourceFuncs watch_functions = {.dispatch = never};

void loop_watch(loop *l, int descriptor, bool object) {
    (void)object;
    GSource *s = g_source_new(&watch_functions, sizeof *s);
    g_source_add_unix_fd(s, descriptor, G_IO_IN);
    g_source_attach(s, l->context);
}

struct receiver {
    GSource glib;
    function call;
    void *info;
};

static gboolean receive(GSource *s, GSourceFunc call, gpointer info) {
    (void)call;
    (void)info;
    struct receiver *r = (struct receiver *)s;
    r->call(r->info);
    return G_SOURCE_CONTINUE;
}

/* Without functions that prepare and check the context looks at the descriptor alone. */
static GSourceFuncs receiver_functions = {.dispatch = receive};

bool loop_receive(loop *l, int descriptor, function call, void *info, int kind) {
    if (kind) bench_absent();
    struct receiver *r = (struct receiver *)g_source_new(&receiver_functions, sizeof *r);
    r->call = call;
    r->info = info;
    g_source_add_unix_fd(&r->glib, descriptor, G_IO_IN);
    g_source_attach(&r->glib, l->context);
    return false;
}

static gboolean prepare_observer(GSource *s, gint *timeout) {
    *timeout = -1;
    observe_function(((source *)s)->info);
    return FALSE;
}

static GSourceFuncs observer_functions = {.prepare = prepare_observer, .dispatch = never};

void loop_observe(loop *l, function call, void *info) {
    source *s = (source *)g_source_new(&observer_functions, sizeof *s);
    observe_function = call;
    s->info = info;
    g_source_attach(&s->glib, l->context);
}

struct posted {
    function call;
    void *info;
};

static gboolean run_posted(gpointer info) {
    struct posted *p = info;
    p->call(p->info);
    return G_SOURCE_REMOVE;
}

void loop_post(loop *l, function call, void *info) {
    struct posted *p = g_new(struct posted, 1);
    *p = (struct posted){call, info};
    g_main_context_invoke_full(l->context, G_PRIORITY_DEFAULT, run_posted, p, g_free);
}

static gboolean prepare(GSource *s, gint *timeout) {
    *timeout = -1;
    return atomic_load_explicit(&((source *)s)->is_signalled, memory_order_acquire);
}

static gboolean check(GSource *s) {
    return atomic_load_explicit(&((source *)s)->is_signalled, memory_order_acquire);
}

static gboolean dispatch(GSource *glib, GSourceFunc call, gpointer info) {
    (void)call;
    (void)info;
    source *s = (source *)glib;
    atomic_store(&s->is_signalled, false);
    perform_function(s->info);
    return G_SOURCE_CONTINUE;
}

/* What only the context's own thread signals needs no second look after the wait. */
static GSourceFuncs source_functions = {.prepare = prepare, .check = check, .dispatch = dispatch};
static GSourceFuncs own_source_functions = {.prepare = prepare, .dispatch = dispatch};

source *source_add(loop *l, function perform, void *info) {
    source *s = (source *)g_source_new(l->threads ? &source_functions : &own_source_functions,
                                       sizeof *s);
    perform_function = perform;
    s->info = info;
    g_source_attach(&s->glib, l->context);
    return s;
}

void source_signal(source *s) {
    atomic_store_explicit(&s->is_signalled, true, memory_order_release);
}

void source_wake(loop *l, source *s) {
    atomic_store(&s->is_signalled, true);
    g_main_context_wakeup(l->context);
}

source *again_add(loop *l, function perform, void *info) { return source_add(l, perform, info); }
void again_signal(source *s) { source_signal(s); }

static gboolean fire(GSource *s, GSourceFunc call, gpointer info) {
    (void)call;
    (void)info;
    g_source_set_ready_time(s, -1);
    fire_function(NULL);
    return G_SOURCE_CONTINUE;
}

static GSourceFuncs timer_functions = {.dispatch = fire};

static gboolean fire_repeating(gpointer info) {
    fire_function(info);
    return G_SOURCE_CONTINUE;
}

timer *timer_add(loop *l, double delay, double interval, double tolerance, function call,
                 void *info) {
    (void)tolerance;
    GSource *s;
    fire_function = call;
    if (interval > 0) {
        s = g_timeout_source_new((guint)(interval * 1000 + 0.5));
        g_source_set_callback(s, fire_repeating, info, NULL);
    } else {
        s = g_source_new(&timer_functions, sizeof *s);
        g_source_set_ready_time(s, base + (gint64)(delay * 1e6 + 0.5));
    }
    g_source_attach(s, l->context);
    return (timer *)s;
}

/* What was taken out of a context is destroyed and cannot come back. */
void timer_remove_set_add(timer *t, double delay) {
    (void)t;
    (void)delay;
    bench_absent();
}

void timer_move(timer *t, double delay) {
    g_source_set_ready_time((GSource *)t, base + (gint64)(delay * 1e6 + 0.5));
}
void timer_move_from_outside(timer *t, double delay) { timer_move(t, delay); }

void timer_end(timer *t) {
    g_source_destroy((GSource *)t);
    g_source_unref((GSource *)t);
}
