/* SPDX-License-Identifier: MIT */
/* What an execution did, step by step, and how a failing one is shown. */
#define _GNU_SOURCE
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"load",       "store",      "update",     "compare",     "pause",       "futex wait", "futex wake",
                                    "membarrier", "kernel", "kernel", "join", "start", "note"};
static const char *const orders[] = {"relaxed", "acquire", "release", "acq-rel", "seq-cst"};

void note_step(enum access kind, int order, uintptr_t address, uint64_t old, uint64_t value, int stale, const char *file,
               uint32_t line) {
    if (shared->trace_count == MAX_TRACE || !self) return;
    uint32_t place = address && kind != ACCESS_NOTE ? place_number(place_of(address, file, line)) : 0;
    shared->trace[shared->trace_count++] = (struct step){
        .decision = run.decision, .thread = self->number, .kind = (uint8_t)kind, .order = (uint8_t)order,
        .stale = (uint8_t)stale, .line = line, .place = place, .file = file, .value = value, .old = old};
}

void print_schedule(const struct schedule *schedule, FILE *file) {
    if (schedule->count == 0) fputs("default", file);
    for (uint32_t i = 0; i < schedule->count; i++) {
        const struct deviation *deviation = &schedule->deviations[i];
        char kind = deviation->choice >= CHOICE_HANDLER ? (deviation->choice == CHOICE_HANDLER ? 'h' : 'p')
                    : deviation->choice >= CHOICE_STALE ? 's' : 't';
        int number = kind == 's' ? deviation->choice - CHOICE_STALE : kind == 't' ? deviation->choice : 0;
        fprintf(file, "%s%u%c%d", i ? "," : "", deviation->decision, kind, number);
    }
}

bool read_schedule(const char *text, struct schedule *schedule) {
    memset(schedule, 0, sizeof *schedule);
    if (strcmp(text, "default") == 0) return true;
    while (*text) {
        unsigned decision, number;
        char kind;
        int length;
        if (sscanf(text, "%u%c%u%n", &decision, &kind, &number, &length) != 3 || schedule->count == MAX_DEVIATIONS) return false;
        unsigned choice = kind == 't' ? number : kind == 's' ? CHOICE_STALE + number : kind == 'h' ? CHOICE_HANDLER : CHOICE_HURRY;
        schedule->deviations[schedule->count++] = (struct deviation){decision, (uint16_t)choice, 0};
        text += length;
        if (*text == ',') text++;
    }
    return true;
}

static const char *short_name(const char *file) {
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

static void print_step(const struct step *step, const char *const *names, FILE *file) {
    fprintf(file, "    %-6s", names[step->thread]);
    if (step->kind == ACCESS_NOTE) {
        fprintf(file, "-- %s", step->file);
        if (step->value) fprintf(file, " %" PRIu64, step->value);
        fputc('\n', file);
        return;
    }
    if (step->line == 0) {
        fprintf(file, "%s", step->file);
        if (step->place) fprintf(file, " #%u", step->place);
    } else {
        fprintf(file, "%s:%u %s %s #%u", short_name(step->file), step->line, kinds[step->kind], orders[step->order], step->place);
        if (step->kind == ACCESS_LOAD)
            fprintf(file, " = %" PRIx64, step->value);
        else
            fprintf(file, " %" PRIx64 " -> %" PRIx64, step->old, step->value);
        if (step->stale) fprintf(file, " (%u older than the newest)", step->stale);
    }
    fputc('\n', file);
}

/* The calls, and around each change of thread the last and first steps; or everything. */
void print_trace(const char *const *names, bool whole, FILE *file) {
    uint32_t count = shared->trace_count;
    enum { AROUND = 2 };
    bool left_out = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct step *step = &shared->trace[i];
        bool shown = whole || step->kind == ACCESS_NOTE || step->stale || i + 8 >= count;
        for (uint32_t j = i > AROUND ? i - AROUND : 1; !shown && j <= i + AROUND && j < count; j++)
            if (j > 0 && shared->trace[j].thread != shared->trace[j - 1].thread) shown = true;
        if (!shown) {
            if (!left_out) fputs("    ...\n", file);
            left_out = true;
            continue;
        }
        left_out = false;
        print_step(step, names, file);
    }
}
