/* SPDX-License-Identifier: MIT */
#include "outside.h"

#include <string.h>

void outside_arm(struct outside *outside, struct outside_event event) {
    if (outside->count == MAX_OUTSIDE) return;
    int at = outside->count++;
    while (at > 0 && outside->event[at - 1].time > event.time) {
        outside->event[at] = outside->event[at - 1];
        at--;
    }
    outside->event[at] = event;
}

enum outside_next outside_wait(struct outside *outside, int64_t *now, int64_t deadline, struct outside_event *event) {
    bool endless = deadline == TIME_NEVER || deadline - *now > OUTSIDE_FAR;
    int64_t horizon = *now > OUTSIDE_HORIZON ? *now : OUTSIDE_HORIZON;
    if (outside->count > 0) {
        int64_t time = outside->event[0].time > *now ? outside->event[0].time : *now;
        if (time <= horizon && (endless || time <= deadline)) {
            *now = time;
            *event = outside->event[0];
            outside->count--;
            memmove(&outside->event[0], &outside->event[1], (size_t)outside->count * sizeof outside->event[0]);
            return OUTSIDE_EVENT;
        }
    }
    if (endless) return OUTSIDE_RESCUE;
    if (horizon <= deadline) {
        *now = horizon;
        return OUTSIDE_RESCUE;
    }
    *now = deadline;
    return OUTSIDE_DEADLINE;
}
