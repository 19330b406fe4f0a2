/* SPDX-License-Identifier: MIT */
/*
 * A run loop drives libuv: libuv's epoll descriptor is a port of the run loop, its next timeout a
 * timer, and libuv runs after each wait without waiting itself.
 */
#include <runloop/runloop.h>

#include <math.h>
#include <stdio.h>
#include <unistd.h>
#include <uv.h>

struct driver {
    uv_loop_t *loop;
    RLSourceRef port;
    RLTimerRef timer;
    RLObserverRef observer;
};

static void wakes_only(RLTimerRef timer, void *info) { (void)timer, (void)info; }
static RLPort get_port(void *info) { return uv_backend_fd(((struct driver *)info)->loop); }

/* Around each wait of the run loop. */
static void around_wait(RLObserverRef observer, RLActivity activity, void *info) {
    struct driver *self = info;
    if (activity == kRLAfterWaiting) uv_run(self->loop, UV_RUN_NOWAIT);
    if (!uv_loop_alive(self->loop)) { /* nothing is left for the run loop to wait for */
        RLSourceInvalidate(self->port);
        RLTimerInvalidate(self->timer);
        RLObserverInvalidate(observer);
        return;
    }
    if (activity != kRLBeforeWaiting) return;
    uv_update_time(self->loop);
    int milliseconds = uv_backend_timeout(self->loop);
    if (milliseconds == 0) RLWakeUp(RLGetCurrent());
    RLAbsoluteTime next = RLAbsoluteTimeGetCurrent() + milliseconds / 1e3;
    RLTimerSetNextFireDate(self->timer, milliseconds < 0 ? INFINITY : next);
}

static void driver_start(struct driver *self, uv_loop_t *loop, RLMode mode) {
    self->loop = loop;
    RLSourceContext1 port = {.version = 1, .info = self, .getPort = get_port};
    self->port = RLSourceCreate(0, (RLSourceContext *)&port);
    /* It repeats only so that it stays valid: its date is set before each wait. */
    self->timer = RLTimerCreate(INFINITY, 1e6, 0, 0, wakes_only, NULL);
    RLObserverContext context = {.info = self};
    self->observer =
        RLObserverCreate(kRLBeforeWaiting | kRLAfterWaiting, true, 0, around_wait, &context);
    RLAddSource(RLGetCurrent(), self->port, mode);
    RLAddTimer(RLGetCurrent(), self->timer, mode);
    RLAddObserver(RLGetCurrent(), self->observer, mode);
}

/* libuv's side: a timer, work on its threads, and a pipe that a callback starts to watch. */

static int pipe_ends[2];

static void readable(uv_poll_t *poll, int status, int events) {
    char byte;
    (void)status, (void)events;
    printf("libuv: the pipe says %zd\n", read(pipe_ends[0], &byte, 1));
    uv_close((uv_handle_t *)poll, NULL);
}
static void work(uv_work_t *request) { (void)request; }
static void work_done(uv_work_t *request, int status) {
    static uv_poll_t poll;
    printf("libuv: work is done\n");
    (void)status;
    uv_poll_init(request->loop, &poll, pipe_ends[0]);
    uv_poll_start(&poll, UV_READABLE, readable);
    if (write(pipe_ends[1], "x", 1) != 1) printf("the pipe is broken\n");
}
static void uv_tick(uv_timer_t *timer) {
    static uv_work_t request;
    static int ticks;
    printf("libuv: timer %d\n", ++ticks);
    if (ticks < 3) return;
    uv_close((uv_handle_t *)timer, NULL);
    uv_queue_work(timer->loop, &request, work, work_done);
}

static void rl_tick(RLTimerRef timer, void *info) {
    (void)timer, (void)info;
    printf("run loop: timer\n");
}

int main(void) {
    if (pipe(pipe_ends) != 0) return 1;
    uv_timer_t uv_timer;
    uv_timer_init(uv_default_loop(), &uv_timer);
    uv_timer_start(&uv_timer, uv_tick, 20, 20);
    struct driver driver;
    driver_start(&driver, uv_default_loop(), kRLDefaultMode);
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 0.03, 0, 0, 0, rl_tick, NULL);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRunResult result = RLRunInMode(kRLDefaultMode, INFINITY, false);
    printf("run loop: %s\n", result == kRLRunFinished ? "finished" : "ended otherwise");
    RLRelease(timer), RLRelease(driver.port), RLRelease(driver.timer), RLRelease(driver.observer);
    return uv_loop_close(uv_default_loop()) == 0 ? 0 : 1;
}
