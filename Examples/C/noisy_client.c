/* SPDX-License-Identifier: MIT */
/*
 * One client sends without end, by a source that signals itself again in each callback. Without a
 * limit the loop would do little else; with one the source performs 100 times in a period and then
 * waits, with its signal. The pass limit does the same for functions: a crowd of them is done in
 * portions, and timers fire between these.
 */
#include <runloop/runloop.h>

#include <stdio.h>

static RLSourceRef noisy;
static int served, functions;

static void serve(void *info) {
    (void)info;
    served++;
    RLSourceSignal(noisy);
}

static void function(void *info) {
    (void)info;
    functions++;
}

static void tick(RLTimerRef timer, void *info) {
    (void)timer, (void)info;
    printf("tick: the noisy client was served %d times, functions done: %s\n", served, functions == 10000 ? "all" : "some");
}

static void end(RLTimerRef timer, void *info) {
    (void)timer, (void)info;
    RLStop(RLGetCurrent());
}

static void add(RLTimerCallBack callback, double seconds) {
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + seconds, 0, 0, 0, callback, NULL);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRelease(timer);
}

int main(void) {
    RLSourceContext context = {.perform = serve};
    noisy = RLSourceCreate(0, &context);
    RLSetName(noisy, "noisy client");
    RLSourceSetLimit(noisy, 100, 3600);
    RLAddSource(RLGetCurrent(), noisy, kRLDefaultMode);
    RLSourceSignal(noisy);

    RLSetPassLimit(RLGetCurrent(), kRLDefaultMode, 50);
    for (int i = 0; i < 10000; i++) RLPerformFunction(RLGetCurrent(), kRLDefaultMode, function, NULL, NULL);

    add(tick, 0);   /* due at once: after the first portions */
    add(tick, 0.1);
    add(end, 0.2);
    RLRun();
    printf("it still waits: %s\n", RLSourceIsSignalled(noisy) ? "yes" : "no");
    RLRelease(noisy);
    return 0;
}
