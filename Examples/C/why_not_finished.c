/* SPDX-License-Identifier: MIT */
/*
 * "Why does it not end?" RLRun returns when its mode has nothing left, and here it does not: something
 * was forgotten in it. SIGUSR1 makes the program say what, in words. A loop that is stuck in a
 * call-out cannot answer for itself, so a thread of its own answers, for all loops.
 * Run without arguments it sends itself the signal and ends the timer that keeps it.
 */
#include <runloop/runloop.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void flush(RLTimerRef timer, void *info) {
    (void)timer, (void)info;
}

static void end_timer(void *timer) { RLTimerInvalidate(timer); }

static void answer(RLSourceRef source, const RLKernelEvent *event, void *info) {
    RLTimerRef forgotten = info;
    (void)source, (void)event;
    RLDump(NULL, STDOUT_FILENO);
    RLPerformFunction(RLGetMain(), kRLDefaultMode, end_timer, forgotten, NULL);
    RLWakeUp(RLGetMain());
}

static void ask(void *info) {
    (void)info;
    kill(getpid(), SIGUSR1);
}

int main(void) {
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 3600, 3600, 0, 0, flush, NULL);
    RLSetName(RLGetMain(), "main");
    RLSetName(timer, "hourly flush");
    RLAddTimer(RLGetMain(), timer, kRLDefaultMode);

    RLKernelEvent event = {.ident = SIGUSR1, .filter = kRLKernelFilterSignal};
    RLKernelEventContext context = {.info = timer};
    RLSourceRef source = RLKernelEventSourceCreate(&event, answer, &context);
    if (source == NULL) perror("why_not_finished"), exit(1);
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    RLThreadSetName(thread, "answers");
    RLThreadStart(thread);
    RLAddSource(RLThreadGetRunLoop(thread), source, kRLDefaultMode);
    RLRelease(source);

    RLPerformFunction(RLGetMain(), kRLDefaultMode, ask, NULL, NULL);
    RLRun();
    printf("nothing is left: the main loop is finished\n");
    RLThreadEnd(thread);
    RLRelease(thread);
    RLRelease(timer);
    return 0;
}
