/* SPDX-License-Identifier: MIT */
/*
 * A plain epoll loop drives a run loop: the run's descriptor stands in its set like any other, and
 * there is nothing else to do than to dispatch when it is readable.
 */
#include <runloop/runloop.h>

#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

static void tick(RLTimerRef timer, void *info) {
    int *pipe_end = info;
    static int ticks;
    (void)timer;
    printf("run loop: tick %d\n", ++ticks);
    if (write(*pipe_end, "x", 1) != 1 || ticks == 3) RLStop(RLGetCurrent());
}

int main(void) {
    int ends[2];
    if (pipe(ends) != 0) return 1;
    RLTimerContext context = {.info = &ends[1]};
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 0.02, 0.02, 0, 0, tick, &context);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    if (run == NULL) return 1;

    int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = RLForeignRunGetDescriptor(run)};
    epoll_ctl(set, EPOLL_CTL_ADD, event.data.fd, &event);
    event.data.fd = ends[0];
    epoll_ctl(set, EPOLL_CTL_ADD, event.data.fd, &event);

    RLRunResult result = kRLRunGoesOn;
    while (result == kRLRunGoesOn) {
        if (epoll_wait(set, &event, 1, -1) != 1) continue; /* a signal */
        if (event.data.fd == ends[0]) {
            char byte;
            printf("epoll: the pipe says %zd\n", read(ends[0], &byte, 1));
        } else {
            result = RLForeignRunDispatch(run);
        }
    }
    printf("epoll: the run was %s\n", result == kRLRunStopped ? "stopped" : "finished");
    RLForeignRunInvalidate(run);
    RLRelease(run), RLRelease(timer);
    close(set);
    return 0;
}
