/* SPDX-License-Identifier: MIT */
/*
 * A run loop drives a GLib context: the descriptors GLib wants polled stand in an epoll set, which
 * is a port of the run loop; GLib's timeout is a timer; GLib dispatches after each wait.
 */
#include <runloop/runloop.h>

#include <glib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { capacity = 64 };

struct driver {
    GMainContext *context;
    int set;                           /* an epoll descriptor */
    GPollFD wanted[capacity];          /* what the last query said */
    GPollFD watched[capacity];         /* what is in the set */
    int wanted_count, watched_count, priority;
    RLSourceRef port;
    RLTimerRef timer;
    RLObserverRef observer;
};

static void wakes_only(RLTimerRef timer, void *info) { (void)timer, (void)info; }
static RLPort get_port(void *info) { return ((struct driver *)info)->set; }

/* GLib lists a descriptor once for each source that polls it; the set takes it once. */
static void watch(struct driver *self) {
    if (self->wanted_count == self->watched_count &&
        memcmp(self->wanted, self->watched, sizeof(GPollFD) * self->wanted_count) == 0)
        return;
    for (int i = 0; i < self->watched_count; i++)
        epoll_ctl(self->set, EPOLL_CTL_DEL, self->watched[i].fd, NULL);
    for (int i = 0; i < self->wanted_count; i++) {
        struct epoll_event event = {.events = 0};
        for (int k = 0; k < self->wanted_count; k++)
            if (self->wanted[k].fd == self->wanted[i].fd) event.events |= self->wanted[k].events;
        epoll_ctl(self->set, EPOLL_CTL_ADD, self->wanted[i].fd, &event);
    }
    memcpy(self->watched, self->wanted, sizeof(GPollFD) * self->wanted_count);
    self->watched_count = self->wanted_count;
}

static void around_wait(RLObserverRef observer, RLActivity activity, void *info) {
    struct driver *self = info;
    (void)observer;
    if (activity == kRLBeforeWaiting) {
        int milliseconds = -1;
        memset(self->wanted, 0, sizeof self->wanted);
        gboolean ready = g_main_context_prepare(self->context, &self->priority);
        self->wanted_count =
            g_main_context_query(self->context, self->priority, &milliseconds, self->wanted,
                                 capacity);
        if (self->wanted_count > capacity) self->wanted_count = capacity; /* make room instead */
        watch(self);
        if (ready || milliseconds == 0) RLWakeUp(RLGetCurrent());
        RLAbsoluteTime next = RLAbsoluteTimeGetCurrent() + milliseconds / 1e3;
        RLTimerSetNextFireDate(self->timer, milliseconds < 0 ? INFINITY : next);
    } else {
        g_poll(self->wanted, self->wanted_count, 0);
        if (g_main_context_check(self->context, self->priority, self->wanted, self->wanted_count))
            g_main_context_dispatch(self->context);
    }
}

static void driver_start(struct driver *self, GMainContext *context, RLMode mode) {
    g_main_context_acquire(self->context = context);
    self->set = epoll_create1(EPOLL_CLOEXEC);
    RLSourceContext1 port = {.version = 1, .info = self, .getPort = get_port};
    self->port = RLSourceCreate(0, (RLSourceContext *)&port);
    /* It repeats only so that it stays valid: its date is set before each wait. */
    self->timer = RLTimerCreate(INFINITY, 1e6, 0, 0, wakes_only, NULL);
    RLObserverContext around = {.info = self};
    self->observer =
        RLObserverCreate(kRLBeforeWaiting | kRLAfterWaiting, true, 0, around_wait, &around);
    RLAddSource(RLGetCurrent(), self->port, mode);
    RLAddTimer(RLGetCurrent(), self->timer, mode);
    RLAddObserver(RLGetCurrent(), self->observer, mode);
}

static void driver_stop(struct driver *self) {
    RLSourceInvalidate(self->port);
    RLTimerInvalidate(self->timer);
    RLObserverInvalidate(self->observer);
    RLRelease(self->port), RLRelease(self->timer), RLRelease(self->observer);
    close(self->set);
    g_main_context_release(self->context);
}

/* GLib's side: a timeout, and a call that another thread sends to the context. */

static gboolean called(gpointer loop) {
    printf("GLib: called from another thread\n");
    RLStop(loop);
    return G_SOURCE_REMOVE;
}
static gpointer worker(gpointer loop) {
    g_main_context_invoke(NULL, called, loop);
    return NULL;
}
static gboolean timeout(gpointer loop) {
    static int ticks;
    printf("GLib: timeout %d\n", ++ticks);
    if (ticks < 3) return G_SOURCE_CONTINUE;
    g_thread_unref(g_thread_new("worker", worker, loop));
    return G_SOURCE_REMOVE;
}

static void rl_tick(RLTimerRef timer, void *info) {
    (void)timer, (void)info;
    printf("run loop: timer\n");
}

int main(void) {
    static struct driver driver;
    g_timeout_add(20, timeout, RLGetCurrent());
    driver_start(&driver, g_main_context_default(), kRLDefaultMode);
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 0.03, 0, 0, 0, rl_tick, NULL);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRunResult result = RLRunInMode(kRLDefaultMode, INFINITY, false);
    printf("run loop: %s\n", result == kRLRunStopped ? "stopped" : "ended otherwise");
    driver_stop(&driver);
    RLRelease(timer);
    return 0;
}
