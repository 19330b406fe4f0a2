/* SPDX-License-Identifier: MIT */
/* What was observed: a list of entries, made alike by the executor and by the model. */
#ifndef MODEL_TRACE_H
#define MODEL_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { TRACE_CAPACITY = 12000 };

enum entry_kind {
    ENTRY_OBSERVE,  /* item; a: activity */
    ENTRY_PERFORM,  /* item, a source */
    ENTRY_FIRE,     /* item, a timer */
    ENTRY_FUNCTION, /* item: number of the posted function */
    ENTRY_FUNCTION_RELEASE,
    ENTRY_SCHEDULE, /* item; a: loop and mode; b: answers inside the callback */
    ENTRY_CANCEL,
    ENTRY_CONTEXT_RETAIN,
    ENTRY_CONTEXT_RELEASE,
    ENTRY_RUN,     /* a: mode */
    ENTRY_RESULT,  /* a: result of the run */
    ENTRY_ANSWER,  /* item; a: the operation; b: what it answered */
    ENTRY_OUTSIDE, /* a: the operation that the world outside did during a wait */
    ENTRY_RESCUE,  /* a wait without an end was ended by a stop */
    ENTRY_GROUP,   /* from here to the next ENTRY_GROUP_END the order is not promised */
    ENTRY_GROUP_END,
    ENTRY_STUCK /* the library waits for something that cannot come, or makes calls without end */
};

struct entry {
    int16_t kind;
    int16_t thread;
    int32_t item;
    int32_t a;
    int64_t b;
    int64_t now; /* nanoseconds of the virtual clock since the sequence began */
};

struct trace {
    int count;
    bool overflow;
    /* The callback with this number is lost, to prove that a loss is noticed; -1: none. */
    int planted;
    int callbacks;
    struct entry entry[TRACE_CAPACITY];
};

/* Answers that are dates, as numbers: units since the start of the virtual wall clock, or one of
   these. */
#define ANSWER_DATE_NAN INT64_C(-9000000001)
#define ANSWER_DATE_MINUS_INFINITY INT64_C(-9000000002)
#define ANSWER_DATE_LIMIT INT64_C(-9000000003)
#define ANSWER_DATE_ZERO INT64_C(-9000000004)
#define ANSWER_DATE_INEXACT INT64_C(-9000000005)

void trace_clear(struct trace *trace);

void trace_add(struct trace *trace, struct entry entry);

/* Sorts the entries inside each group, whose order is not promised. */
void trace_normalise(struct trace *trace);

bool entry_equal(const struct entry *a, const struct entry *b);

/* Returns the index of the first entry in which the traces differ, or -1. */
int trace_difference(const struct trace *a, const struct trace *b);

/* Prints entries first ..< last, the one at mark with a sign in front. */
void trace_print(const struct trace *trace, int first, int last, int mark, FILE *out);

#endif
