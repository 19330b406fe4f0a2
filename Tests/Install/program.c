/* SPDX-License-Identifier: MIT */
/* A program of somebody else's: it runs a loop once with a timer, and checks the library's version. */
#include <runloop/runloop.h>
#include <stdio.h>
#include <string.h>

static void count(RLTimerRef timer, void *info) {
    (void)timer;
    ++*(int *)info;
}

int main(int argc, char **argv) {
    int fires = 0;
    RLTimerContext context = {0, &fires, NULL, NULL, NULL};
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent(), 0, 0, 0, count, &context);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRelease(timer);
    RLRunResult result = RLRunInMode(kRLDefaultMode, 10, false);
    printf("version %s, %d fire, result %d\n", RLGetVersion(), fires, (int)result);
    return argc == 2 && strcmp(RLGetVersion(), argv[1]) == 0 && fires == 1 && result == kRLRunFinished ? 0 : 1;
}
