/* SPDX-License-Identifier: MIT */
/* What a program's run came to, in memory shared with the process that started it: a disagreement, and what happened before it. */
#ifndef DESCRIPTORS_OUTCOME_H
#define DESCRIPTORS_OUTCOME_H

#include <stdbool.h>

enum { FAILURE_TEXT = 200, HISTORY = 1 << 15 };

struct outcome {
    bool has_failed;
    char failure[FAILURE_TEXT];
    int length;
    char history[HISTORY];
    /* What was seen, to know that the programs do something. */
    unsigned long runs, calls, sleeps, queues, connections, connects, ends, data;
};

/* The outcome that the functions below write to. */
extern struct outcome *outcome;

void outcome_start(struct outcome *result);
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The first disagreement counts. */
void disagree(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
