/* SPDX-License-Identifier: MIT */
#include "trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

void trace_clear(struct trace *trace) {
    trace->count = 0;
    trace->callbacks = 0;
    trace->overflow = false;
    trace->planted = -1;
}

void trace_add(struct trace *trace, struct entry entry) {
    if (entry.kind <= ENTRY_FUNCTION && trace->callbacks++ == trace->planted) return;
    if (trace->count == TRACE_CAPACITY) {
        trace->overflow = true;
        return;
    }
    trace->entry[trace->count++] = entry;
}

static int compare_entries(const void *left, const void *right) {
    const struct entry *a = left, *b = right;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->item != b->item) return a->item < b->item ? -1 : 1;
    if (a->a != b->a) return a->a < b->a ? -1 : 1;
    if (a->b != b->b) return a->b < b->b ? -1 : 1;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    return 0;
}

void trace_normalise(struct trace *trace) {
    for (int i = 0; i < trace->count; i++) {
        if (trace->entry[i].kind != ENTRY_GROUP) continue;
        int end = i + 1;
        while (end < trace->count && trace->entry[end].kind != ENTRY_GROUP_END) end++;
        qsort(&trace->entry[i + 1], (size_t)(end - i - 1), sizeof trace->entry[0], compare_entries);
        i = end;
    }
}

/* A library may tell past dates apart by some nanoseconds (S-TMR-22), and the clock then shows
   them. */
bool entry_equal(const struct entry *a, const struct entry *b) {
    return a->kind == b->kind && a->thread == b->thread && a->item == b->item && a->a == b->a && a->b == b->b &&
           llabs(a->now - b->now) < 1000;
}

int trace_difference(const struct trace *a, const struct trace *b) {
    int common = a->count < b->count ? a->count : b->count;
    for (int i = 0; i < common; i++)
        if (!entry_equal(&a->entry[i], &b->entry[i])) return i;
    return a->count == b->count ? -1 : common;
}

static const char *activity_label(int activity) {
    switch (activity) {
    case 1 << 0:
        return "Entry";
    case 1 << 1:
        return "BeforeTimers";
    case 1 << 2:
        return "BeforeSources";
    case 1 << 5:
        return "BeforeWaiting";
    case 1 << 6:
        return "AfterWaiting";
    case 1 << 7:
        return "Exit";
    default:
        return "an unknown activity";
    }
}

static const char *result_label(int result) {
    static const char *const labels[] = {"0", "Finished", "Stopped", "TimedOut", "HandledSource"};
    return result >= 0 && result <= 4 ? labels[result] : "unknown";
}

static void print_answer(const struct entry *entry, FILE *out) {
    static const char *const questions[OP_KINDS] = {
        [OP_CONTAINS] = "contains",   [OP_IS_VALID] = "is valid",           [OP_IS_SIGNALLED] = "is signalled",
        [OP_FIRE_DATE] = "fire date", [OP_NEXT_FIRE_DATE] = "next fire date", [OP_CURRENT_MODE] = "current mode",
        [OP_ALL_MODES] = "all modes", [OP_IS_WAITING] = "is waiting",
        [OP_TOLERANCE] = "tolerance", [OP_CONTEXT] = "context has its info"};
    fprintf(out, "answer: ");
    if (entry->item >= 0) fprintf(out, "i%d ", entry->item);
    fprintf(out, "%s ", entry->a >= 0 && entry->a < OP_KINDS && questions[entry->a] ? questions[entry->a] : "?");
    switch (entry->b) {
    case ANSWER_DATE_NAN:
        fprintf(out, "NaN");
        break;
    case ANSWER_DATE_MINUS_INFINITY:
        fprintf(out, "-infinity");
        break;
    case ANSWER_DATE_LIMIT:
        fprintf(out, "the limit of dates");
        break;
    case ANSWER_DATE_ZERO:
        fprintf(out, "date 0");
        break;
    case ANSWER_DATE_INEXACT:
        fprintf(out, "a date between two units");
        break;
    default:
        if (entry->a == OP_CURRENT_MODE)
            fprintf(out, "%s", mode_label((int)entry->b));
        else
            fprintf(out, "%" PRId64, entry->b);
    }
}

static void print_entry(const struct entry *entry, FILE *out) {
    switch (entry->kind) {
    case ENTRY_OBSERVE:
        fprintf(out, "observer i%d: %s", entry->item, activity_label(entry->a));
        break;
    case ENTRY_PERFORM:
        fprintf(out, "perform i%d", entry->item);
        break;
    case ENTRY_FIRE:
        fprintf(out, "timer i%d", entry->item);
        break;
    case ENTRY_FUNCTION:
        fprintf(out, "function f%d", entry->item);
        break;
    case ENTRY_FUNCTION_RELEASE:
        fprintf(out, "release of f%d", entry->item);
        break;
    case ENTRY_SCHEDULE:
    case ENTRY_CANCEL:
        fprintf(out, "%s i%d L%d %s (member %d, valid %d)", entry->kind == ENTRY_SCHEDULE ? "schedule" : "cancel",
                entry->item, entry->a / 16, mode_label(entry->a % 16), (int)(entry->b & 1), (int)(entry->b >> 1 & 1));
        break;
    case ENTRY_CONTEXT_RETAIN:
        fprintf(out, "context of i%d retained", entry->item);
        break;
    case ENTRY_CONTEXT_RELEASE:
        fprintf(out, "context of i%d released", entry->item);
        break;
    case ENTRY_RUN:
        fprintf(out, "run %s", entry->a < 0 ? "for ever" : mode_label(entry->a));
        break;
    case ENTRY_RESULT:
        fprintf(out, "result %s", result_label(entry->a));
        break;
    case ENTRY_ANSWER:
        print_answer(entry, out);
        break;
    case ENTRY_OUTSIDE:
        fprintf(out, "from outside, during a wait: %s",
                entry->a == OP_SIGNAL  ? "signal"
                : entry->a == OP_WRITE ? "write"
                : entry->a == OP_WAKE  ? "wake"
                                       : "stop");
        break;
    case ENTRY_RESCUE:
        fprintf(out, "a wait without an end was stopped from outside");
        break;
    case ENTRY_GROUP:
        fprintf(out, "{");
        break;
    case ENTRY_GROUP_END:
        fprintf(out, "}");
        break;
    case ENTRY_STUCK:
        fprintf(out, "the library does not come back");
        break;
    }
}

void trace_print(const struct trace *trace, int first, int last, int mark, FILE *out) {
    for (int i = first < 0 ? 0 : first; i < last && i < trace->count; i++) {
        const struct entry *entry = &trace->entry[i];
        double units = (double)entry->now / (double)UNIT_NANOSECONDS;
        fprintf(out, "%s %4d  %8.3f  L%d  ", i == mark ? "->" : "  ", i, units, entry->thread);
        print_entry(entry, out);
        fprintf(out, "\n");
    }
    if (mark >= trace->count) fprintf(out, "->       (end)\n");
}
