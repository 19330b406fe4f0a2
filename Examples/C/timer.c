/* SPDX-License-Identifier: MIT */
/*
 * A timer that fires first after 0.1 s and then every 0.3 s, in the common modes: it fires in the default
 * mode and, once that is a common mode, in a mode of the program's own.
 *
 * usage: timer [SCALE]    0.1 makes everything ten times shorter
 */
#include <runloop/runloop.h>

#include <stdio.h>
#include <stdlib.h>

struct state {
    int fires, early;
};

static void fire(RLTimerRef timer, void *info) {
    struct state *state = info;
    /* During the callback the timer still gives the date it is being fired for. */
    double late = RLAbsoluteTimeGetCurrent() - RLTimerGetNextFireDate(timer);
    char *mode = RLCopyCurrentMode(RLGetCurrent());
    printf("fire %d, %.0f microseconds late, in %s\n", ++state->fires, late * 1e6, mode);
    free(mode);
    /* A date is a double: near the present its last digit is about a tenth of a microsecond. */
    state->early += late < -1e-6;
    if (state->fires % 2 == 0) RLStop(RLGetCurrent());
}

int main(int argc, char **argv) {
    double scale = argc > 1 ? atof(argv[1]) : 1;
    struct state state = {0, 0};
    RLTimerContext context = {.info = &state};
    RLTimerRef timer =
        RLTimerCreate(RLAbsoluteTimeGetCurrent() + 0.1 * scale, 0.3 * scale, 0, 0, fire, &context);
    RLAddTimer(RLGetCurrent(), timer, kRLCommonModes);

    /* Two fires here, then two more in the other mode, which gets the timer when it becomes common. */
    RLRunResult first = RLRunInMode(kRLDefaultMode, 60, false);
    RLAddCommonMode(RLGetCurrent(), "tracking");
    RLRunResult second = RLRunInMode("tracking", 60, false);

    printf("%d fires, %s early\n", state.fires, state.early ? "some" : "none");
    RLTimerInvalidate(timer);
    RLRelease(timer);
    return first == kRLRunStopped && second == kRLRunStopped && state.early == 0 ? 0 : 1;
}
