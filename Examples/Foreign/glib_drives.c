/* SPDX-License-Identifier: MIT */
/*
 * GLib drives a run loop: a GSource makes the waits of the thread's run loop, so that sources,
 * timers and observers work in a program whose main loop is GLib's.
 */
#include <runloop/runloop.h>

#include <glib-unix.h>
#include <glib.h>
#include <stdio.h>

struct run_source {
    GSource base;
    RLForeignRunRef run;
    gpointer descriptor;
    GMainLoop *main_loop;
};

/* GLib is about to wait: the steps of a pass before that. The descriptor tells of timers, too. */
static gboolean prepare(GSource *base, gint *timeout) {
    *timeout = -1;
    return RLForeignRunPrepare(((struct run_source *)base)->run) == 0;
}

static gboolean check(GSource *base) {
    return g_source_query_unix_fd(base, ((struct run_source *)base)->descriptor) != 0;
}

static gboolean dispatch(GSource *base, GSourceFunc callback, gpointer data) {
    struct run_source *self = (struct run_source *)base;
    (void)callback, (void)data;
    /* Finished is no end here: the run begins again when something is added. */
    if (RLForeignRunDispatch(self->run) == kRLRunStopped) g_main_loop_quit(self->main_loop);
    return G_SOURCE_CONTINUE;
}

static void finalize(GSource *base) {
    struct run_source *self = (struct run_source *)base;
    RLForeignRunInvalidate(self->run);
    RLRelease(self->run);
}

static GSourceFuncs functions = {
    .prepare = prepare, .check = check, .dispatch = dispatch, .finalize = finalize};

/* The run loop's side: a timer, and a source that another thread signals. */

static void tick(RLTimerRef timer, void *info) {
    int *ticks = info;
    printf("run loop: tick %d\n", ++*ticks);
    if (*ticks == 3) RLTimerInvalidate(timer);
}

static void perform(void *info) {
    (void)info;
    printf("run loop: signalled by GLib's thread\n");
    RLStop(RLGetCurrent());
}

static RLSourceRef source;
static RLRunLoopRef loop;

static gpointer worker(gpointer unused) {
    RLSourceSignal(source);
    RLWakeUp(loop);
    return unused;
}

static gboolean glib_timeout(gpointer ticks) {
    printf("GLib: timeout\n");
    if (*(int *)ticks < 3) return G_SOURCE_CONTINUE;
    g_thread_unref(g_thread_new("worker", worker, NULL));
    return G_SOURCE_REMOVE;
}

int main(void) {
    int ticks = 0;
    loop = RLGetCurrent();
    RLTimerContext timer_context = {.info = &ticks};
    RLAbsoluteTime soon = RLAbsoluteTimeGetCurrent() + 0.02;
    RLTimerRef timer = RLTimerCreate(soon, 0.02, 0, 0, tick, &timer_context);
    RLAddTimer(loop, timer, kRLDefaultMode);
    RLSourceContext context = {.perform = perform};
    source = RLSourceCreate(0, &context);
    RLAddSource(loop, source, kRLDefaultMode);

    GSource *base = g_source_new(&functions, sizeof(struct run_source));
    struct run_source *self = (struct run_source *)base;
    self->main_loop = g_main_loop_new(NULL, FALSE);
    self->run = RLForeignRunCreate(kRLDefaultMode);
    if (self->run == NULL) return 1;
    self->descriptor = g_source_add_unix_fd(base, RLForeignRunGetDescriptor(self->run), G_IO_IN);
    g_source_attach(base, NULL);
    g_timeout_add(30, glib_timeout, &ticks);
    g_main_loop_run(self->main_loop);
    printf("GLib: the main loop has ended\n");
    g_source_destroy(base);
    g_main_loop_unref(self->main_loop);
    g_source_unref(base);
    RLRelease(timer), RLRelease(source);
    return 0;
}
