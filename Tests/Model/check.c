/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <stdlib.h>

#include "choices.h"
#include "model.h"

/* A sequence with so many open questions that this many answers do not settle it counts as failed.
   */
enum { MAX_ANSWERS = 3000 };

/* Entries inside a group are sorted, so a question asked anywhere in it may be the cause. */
static int end_of_group(const struct trace *trace, int index) {
    int open = -1;
    for (int i = 0; i < trace->count; i++) {
        if (trace->entry[i].kind == ENTRY_GROUP) open = i;
        if (trace->entry[i].kind == ENTRY_GROUP_END) {
            if (open >= 0 && open < index && index <= i) return i;
            open = -1;
        }
    }
    return open >= 0 && open < index ? trace->count : index;
}

int check_trace(const struct program *program, struct trace *observed, struct trace *expected) {
    static struct trace attempt;
    struct choices choices = {.prefix = 0};
    int best = -1;
    trace_normalise(observed);
    for (int answers = 0; answers < MAX_ANSWERS; answers++) {
        model_predict(program, &choices, &attempt);
        trace_normalise(&attempt);
        int difference = trace_difference(observed, &attempt);
        if (difference < 0) return -1;
        if (difference > best) {
            best = difference;
            *expected = attempt;
        }
        if (!choices_advance(&choices, end_of_group(&attempt, difference))) break;
    }
    return best;
}
