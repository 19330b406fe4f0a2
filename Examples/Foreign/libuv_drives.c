/* SPDX-License-Identifier: MIT */
/*
 * libuv drives a run loop: a prepare handle makes the steps of a pass before libuv waits, a poll
 * handle those after the wait.
 */
#include <runloop/runloop.h>

#include <stdio.h>
#include <uv.h>

struct driver {
    RLForeignRunRef run;
    uv_prepare_t prepare;
    uv_poll_t poll;
};

static void before_wait(uv_prepare_t *handle) {
    struct driver *self = handle->data;
    /* If there is something to do at once, or a timer is due later, the descriptor says so. */
    RLForeignRunPrepare(self->run);
}

static void driver_stop(struct driver *self) {
    uv_poll_stop(&self->poll); /* before the descriptor is closed */
    RLForeignRunInvalidate(self->run);
    RLRelease(self->run);
    uv_close((uv_handle_t *)&self->poll, NULL);
    uv_close((uv_handle_t *)&self->prepare, NULL);
}

static void after_wait(uv_poll_t *handle, int status, int events) {
    struct driver *self = handle->data;
    (void)status, (void)events;
    RLRunResult result = RLForeignRunDispatch(self->run);
    if (result == kRLRunGoesOn) return;
    printf("libuv: the run is over, %s\n", result == kRLRunStopped ? "stopped" : "finished");
    driver_stop(self);
}

static int driver_start(struct driver *self, uv_loop_t *loop) {
    self->run = RLForeignRunCreate(kRLDefaultMode);
    if (self->run == NULL) return -1;
    self->prepare.data = self->poll.data = self;
    uv_prepare_init(loop, &self->prepare);
    uv_prepare_start(&self->prepare, before_wait);
    uv_poll_init(loop, &self->poll, RLForeignRunGetDescriptor(self->run));
    return uv_poll_start(&self->poll, UV_READABLE, after_wait);
}

/* The run loop's side: a timer, and a source that a worker of libuv signals. */

static RLSourceRef source;
static RLRunLoopRef run_loop;

static void tick(RLTimerRef timer, void *info) {
    int *ticks = info;
    printf("run loop: tick %d\n", ++*ticks);
    if (*ticks == 3) RLTimerInvalidate(timer);
}

static void perform(void *info) {
    (void)info;
    printf("run loop: signalled by libuv's worker\n");
    RLSourceInvalidate(source); /* nothing is left in the mode: the run finishes */
}

static void work(uv_work_t *request) {
    (void)request;
    RLSourceSignal(source);
    RLWakeUp(run_loop);
}

static void uv_tick(uv_timer_t *timer) {
    static uv_work_t request;
    printf("libuv: timer\n");
    if (*(int *)timer->data < 3) return;
    uv_queue_work(timer->loop, &request, work, NULL);
    uv_close((uv_handle_t *)timer, NULL);
}

int main(void) {
    int ticks = 0;
    run_loop = RLGetCurrent();
    RLTimerContext timer_context = {.info = &ticks};
    RLAbsoluteTime soon = RLAbsoluteTimeGetCurrent() + 0.02;
    RLTimerRef timer = RLTimerCreate(soon, 0.02, 0, 0, tick, &timer_context);
    RLAddTimer(run_loop, timer, kRLDefaultMode);
    RLSourceContext context = {.perform = perform};
    source = RLSourceCreate(0, &context);
    RLAddSource(run_loop, source, kRLDefaultMode);

    struct driver driver;
    uv_timer_t uv_timer = {.data = &ticks};
    uv_timer_init(uv_default_loop(), &uv_timer);
    uv_timer_start(&uv_timer, uv_tick, 30, 30);
    if (driver_start(&driver, uv_default_loop()) != 0) return 1;
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    RLRelease(timer), RLRelease(source);
    return uv_loop_close(uv_default_loop()) == 0 ? 0 : 1;
}
