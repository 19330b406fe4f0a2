/* SPDX-License-Identifier: MIT */
/* The worker's thread: a custom source with a queue of batches; each is counted and reported. */
#include "private.h"

#include <stdlib.h>

/* The C locale's characters, whatever locale the program set. */
static bool is_space(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool is_printable(unsigned char c) { return c >= ' ' && c <= '~'; }

/* As wc counts in the C locale: a word is a run of bytes other than white space, one of them printable. A batch
 * ends with a line, so no word goes on in the next. */
static demo_counts count(const demo_batch *batch) {
    demo_counts counts = {.bytes = batch->length, .portions = batch->length > 0};
    bool in_word = false;
    for (size_t i = 0; i < batch->length; ++i) {
        unsigned char c = (unsigned char)batch->bytes[i];
        counts.lines += c == '\n';
        if (is_space(c)) {
            counts.words += in_word;
            in_word = false;
        } else if (is_printable(c)) {
            in_word = true;
        }
    }
    counts.words += in_word;
    return counts;
}

/* The custom source's perform: takes the whole queue, since one signal may stand for many batches. */
static void perform(void *info) {
    demo_worker *worker = info;
    pthread_mutex_lock(&worker->lock);
    demo_batch *batch = worker->first;
    worker->first = NULL;
    worker->end = &worker->first;
    pthread_mutex_unlock(&worker->lock);

    while (batch) {
        demo_report *report = malloc(sizeof *report);
        if (!report) abort();
        *report = (demo_report){worker->counter, count(batch), batch->last};
        /* The function travels to the main loop, which is woken to run it; free() ends the report. */
        RLPerformFunction(RLGetMain(), kRLDefaultMode, worker->report, report, free);
        RLWakeUp(RLGetMain());
        /* Without its source the loop is empty: the run returns Finished and the thread ends. */
        if (batch->last) RLSourceInvalidate(worker->source);
        demo_batch *next = batch->next;
        free(batch);
        batch = next;
    }
}

static void *worker_main(void *argument) {
    demo_worker *worker = argument;
    RLSourceContext context = {.info = worker, .perform = perform};
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);

    pthread_mutex_lock(&worker->lock);
    worker->source = source;
    worker->loop = (RLRunLoopRef)RLRetain(RLGetCurrent());
    pthread_cond_signal(&worker->ready);
    pthread_mutex_unlock(&worker->lock);

    RLRun();
    return NULL;
}

bool demo_worker_start(demo_worker *worker) {
    worker->end = &worker->first;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->ready, NULL);
    if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) return false;
    pthread_mutex_lock(&worker->lock);
    while (!worker->loop) pthread_cond_wait(&worker->ready, &worker->lock);
    pthread_mutex_unlock(&worker->lock);
    return true;
}

void demo_worker_give(demo_worker *worker, demo_batch *batch) {
    pthread_mutex_lock(&worker->lock);
    *worker->end = batch;
    worker->end = &batch->next;
    pthread_mutex_unlock(&worker->lock);
    RLSourceSignal(worker->source);
    RLWakeUp(worker->loop);
}

void demo_worker_join(demo_worker *worker) {
    pthread_join(worker->thread, NULL);
    RLRelease(worker->source);
    RLRelease(worker->loop);
    pthread_mutex_destroy(&worker->lock);
    pthread_cond_destroy(&worker->ready);
}
