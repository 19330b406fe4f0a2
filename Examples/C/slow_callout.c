/* SPDX-License-Identifier: MIT */
/*
 * "Who blocks my loop?" A timer waits for something for half a second, in which the loop does nothing
 * else. The loop is watched: while the timer's function still waits, the handler tells where. With NULL in
 * place of the handler a line of the log says the same, and RUNLOOP_SLOW=0.1 in the environment gives that to
 * programs as they are.
 */
#include <runloop/runloop.h>

#include <stdio.h>
#include <unistd.h>

__attribute__((noinline)) static int ask_the_other_machine(void) { return usleep(500000); }

static void refresh(RLTimerRef timer, void *info) {
    (void)timer, (void)info;
    if (ask_the_other_machine() == 0) printf("refreshed\n");
}

/* Called on a thread of the library. */
static void tell(const RLSlowCallout *slow, void *info) {
    (void)info;
    printf("timer \"%s\" has blocked the loop for %.1f s\n", slow->name, slow->time);
    if (slow->frameCount > 0) printf("    in %s\n", slow->trace);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    RLSetSlowCalloutHandler(RLGetMain(), 0.1, tell, NULL, NULL);
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent(), 0, 0, 0, refresh, NULL);
    RLSetName(timer, "refresh");
    RLAddTimer(RLGetMain(), timer, kRLDefaultMode);
    RLRelease(timer);
    RLRun();
    printf("nothing is left\n");
    return 0;
}
