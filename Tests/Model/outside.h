/* SPDX-License-Identifier: MIT */
/* The world outside the loop during its waits: things a signal handler does at set times, and the
   rescue of a wait that has no end. The model and the executor each play one in the same way. */
#ifndef MODEL_OUTSIDE_H
#define MODEL_OUTSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "program.h"

enum { MAX_OUTSIDE = 16 };

/* A wait that would last longer than this counts as one without an end. */
#define OUTSIDE_FAR (INT64_C(3600) * 1000000000)
/* From this time of a sequence on, every wait is ended by a stop at once, so each sequence ends. */
#define OUTSIDE_HORIZON (INT64_C(1200) * UNIT_NANOSECONDS)

struct outside_event {
    int64_t time;
    enum op_kind kind; /* OP_SIGNAL, OP_WRITE, OP_WAKE, OP_STOP */
    int item;
    int loop;
};

struct outside {
    int count;
    struct outside_event event[MAX_OUTSIDE]; /* in order of time, equal times in order of arming */
};

enum outside_next { OUTSIDE_DEADLINE, OUTSIDE_EVENT, OUTSIDE_RESCUE };

void outside_arm(struct outside *outside, struct outside_event event);

/* Says what ends a wait that begins now and has this deadline (TIME_NEVER: none), and moves the
   clock there. An event is taken off the list. */
enum outside_next outside_wait(struct outside *outside, int64_t *now, int64_t deadline, struct outside_event *event);

#endif
