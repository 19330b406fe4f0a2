/* SPDX-License-Identifier: MIT */
/* What the files of the executor share: the state of the sequence that runs now. */
#ifndef MODEL_EXECUTOR_STATE_H
#define MODEL_EXECUTOR_STATE_H

#include <stdlib.h>
#include <string.h>

#include <runloop/runloop.h>

#include "clock.h"
#include "executor.h"
#include "outside.h"

struct executor_item {
    int index;
    RLTypeRef object;
    int read_end;
    int write_end;
};

struct executor {
    const struct program *program;
    struct trace *trace;
    struct executor_options options;
    struct gate gate;
    struct outside outside;
    int functions;
    unsigned names; /* mode names made so far */
    RLRunLoopRef loop[LOOPS];
    struct executor_item item[MAX_ITEMS];
};

extern struct executor executor;

/* The number of the calling thread, which is that of its loop. */
extern __thread int executor_thread;

/* executor.c */
void executor_note(enum entry_kind kind, int item, int a, int64_t b);
void executor_run_script(int script);

/* executor_items.c */
const char *executor_mode_name(int mode);
int executor_mode_number(const char *name);
void executor_create(int index);
void executor_change_membership(const struct op *op);
void executor_invalidate(int index);
bool executor_is_valid(int index);
bool executor_contains(const struct op *op);
void executor_write_port(int index, int count);
void executor_drain_port(int index);
bool executor_has_info(int index);
double executor_date(const struct date *date);
int64_t executor_date_answer(double date);

/* Names by content (S-MODE-1) and copied by the library (S-ARG-5): every second one is a copy that
   is gone after the call. CoreFoundation knows its pseudo-mode by the pointer. */
static inline char *executor_lend_name(int mode) {
#ifdef MODEL_OVER_CF
    (void)mode;
    return NULL;
#else
    return executor.names++ % 2 ? strdup(executor_mode_name(mode)) : NULL;
#endif
}

#define WITH_NAME(mode, name, statement)                             \
    do {                                                             \
        char *copy_ = executor_lend_name(mode);                      \
        const char *name = copy_ ? copy_ : executor_mode_name(mode); \
        statement;                                                   \
        free(copy_);                                                 \
    } while (0)

#endif
