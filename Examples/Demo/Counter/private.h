/* SPDX-License-Identifier: MIT */
/* What the files of the C half share. */
#ifndef DEMO_PRIVATE_H
#define DEMO_PRIVATE_H

#include "counter.h"

#include <pthread.h>

/* A portion of the file's bytes that ends at the end of a line, except perhaps the last one. */
typedef struct demo_batch {
    struct demo_batch *next;
    bool last; /* nothing follows */
    size_t length;
    char bytes[];
} demo_batch;

/* The worker: a thread with a custom source. Counting is done in portions of whole lines. */
typedef struct demo_worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ready;
    RLRunLoopRef loop;            /* guarded by lock until ready, then constant */
    RLSourceRef source;           /* the same */
    demo_batch *first, **end;     /* guarded by lock */
    void (*report)(void *report); /* called on the main loop with a demo_report */
    struct demo_counter *counter;
} demo_worker;

typedef struct demo_report {
    struct demo_counter *counter;
    demo_counts counts; /* of one batch */
    bool last;
} demo_report;

/* The feeder: a thread whose loop has a repeating timer that writes the next portion. */
typedef struct demo_feeder {
    pthread_t thread;
    int file, pipe;
    size_t portion;
    double interval;
} demo_feeder;

struct demo_counter {
    int pipe;             /* the end that is read */
    RLSourceRef source;   /* watches it in the main loop */
    char *rest;           /* the beginning of a line whose end has not come yet */
    size_t rest_length;
    demo_counts counts;   /* reported so far */
    void (*finished)(void *info);
    void *info;
    demo_worker worker;
    demo_feeder feeder;
};

bool demo_worker_start(demo_worker *worker);
/* Takes the batch over. */
void demo_worker_give(demo_worker *worker, demo_batch *batch);
void demo_worker_join(demo_worker *worker);

bool demo_feeder_start(demo_feeder *feeder);

#endif
