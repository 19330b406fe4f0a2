/* SPDX-License-Identifier: MIT */
/* What the two threads of a program that runs share. */
#ifndef DESCRIPTORS_STAGE_H
#define DESCRIPTORS_STAGE_H

#include <pthread.h>
#include <runloop/runloop.h>

#include "model.h"

enum { PATIENCE = 3 /* seconds */ };

extern RLRunLoopRef loops[LOOPS];
extern RLMode modes[MODES];
/* The innermost run of the calling thread. */
extern __thread struct frame *top;
/* That of the calling thread. */
extern __thread int own_loop;
/* Callbacks do nothing. */
extern bool is_quiet;

/* The second thread, and what it is to do. */
struct second {
    pthread_t thread;
    bool is_started, is_busy, ends, sleeps;
    struct op op;
    struct frame *frame; /* of the run that sleeps */
};
extern struct second second;

/* The caller holds the lock. */
void do_op(const struct op *op);
void stop_sleep(void);

#endif
