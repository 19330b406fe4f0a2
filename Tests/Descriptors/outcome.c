/* SPDX-License-Identifier: MIT */
#include "outcome.h"

#include <stdarg.h>
#include <stdio.h>

struct outcome *outcome;

void outcome_start(struct outcome *result) {
    outcome = result;
    result->has_failed = false;
    result->failure[0] = result->history[0] = 0;
    result->length = 0;
}

static void add(const char *format, va_list arguments) {
    if (outcome->has_failed) return;
    int room = HISTORY - outcome->length;
    int length = vsnprintf(outcome->history + outcome->length, (size_t)room, format, arguments);
    /* What does not fit is left out; the failure is kept elsewhere. */
    if (length >= 0 && length < room) outcome->length += length;
    else outcome->history[outcome->length] = 0;
}

void note(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add(format, arguments);
    va_end(arguments);
}

void disagree(const char *format, ...) {
    va_list arguments;
    if (outcome->has_failed) return;
    va_start(arguments, format);
    vsnprintf(outcome->failure, FAILURE_TEXT, format, arguments);
    va_end(arguments);
    note("  ! %s\n", outcome->failure);
    outcome->has_failed = true;
}
