/* SPDX-License-Identifier: MIT */
/*
 * The same with blocks: a performed block, a timer and an observer, each a closure over local variables.
 * Needs clang -fblocks and a block runtime (-lBlocksRuntime); the library itself needs neither.
 */
#include <runloop/runloop.h>

#include <stdio.h>

int main(void) {
    RLRunLoopRef loop = RLGetCurrent();
    __block int ticks = 0;

    /* The block is copied and runs in the next turn of the loop, never inside this call. */
    RLPerformBlock(loop, kRLDefaultMode, ^{ printf("performed before tick %d\n", ticks + 1); });

    RLTimerRef timer = RLTimerCreateWithHandler(RLAbsoluteTimeGetCurrent(), 0.01, 0, 0, ^(RLTimerRef t) {
        printf("tick %d\n", ++ticks);
        if (ticks == 3) {
            RLTimerInvalidate(t);
            RLStop(loop);
        }
    });
    RLAddTimer(loop, timer, kRLDefaultMode);

    RLObserverRef observer =
        RLObserverCreateWithHandler(kRLExit, false, 0, ^(RLObserverRef o, RLActivity activity) {
            (void)o;
            printf("%s\n", activity == kRLExit ? "Exit" : "?");
        });
    RLAddObserver(loop, observer, kRLDefaultMode);

    RLRunResult result = RLRunInMode(kRLDefaultMode, 60, false);
    printf("%s\n", result == kRLRunStopped ? "Stopped" : "ended otherwise");

    RLRelease(observer);
    RLRelease(timer);
    return ticks == 3 && result == kRLRunStopped ? 0 : 1;
}
