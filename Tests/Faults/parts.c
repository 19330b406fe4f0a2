/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

Outcome outcome;

void outcome_clear(void) { memset(&outcome, 0, sizeof outcome); }

void refused(const char *what) {
    if (!outcome.is_refused && !outcome.is_lost) snprintf(outcome.what, sizeof outcome.what, "%s", what);
    outcome.is_refused = true;
}

void lost(const char *what) {
    if (!outcome.is_lost) snprintf(outcome.what, sizeof outcome.what, "%s", what);
    outcome.is_lost = true;
}

int count_of(const int *counter) { return __atomic_load_n(counter, __ATOMIC_SEQ_CST); }

void add_one(int *counter) { __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST); }

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

Patience patience_begin(void) { return (Patience){now() + PATIENCE}; }

bool patience_ended(Patience patience) { return now() > patience.end; }

void sleep_briefly(void) {
    struct timespec moment = {0, 200000};
    nanosleep(&moment, NULL);
}

bool run_until(const int *counter, int value, const char *what) {
    Patience patience = patience_begin();
    while (count_of(counter) < value) {
        if (patience_ended(patience)) {
            lost(what);
            return false;
        }
        /* A mode that has become empty ends its runs at once. */
        if (RLRunInMode(kRLDefaultMode, PATIENCE / 4, true) == kRLRunFinished) sleep_briefly();
    }
    return true;
}

bool wait_until(const int *counter, int value, const char *what) {
    /* A thread of ours may have to wait for a processor. */
    Patience patience = {now() + 5 * PATIENCE};
    while (count_of(counter) < value) {
        if (patience_ended(patience)) {
            lost(what);
            return false;
        }
        sleep_briefly();
    }
    return true;
}

pthread_t start_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, argument) != 0) abort();
    return thread;
}

void join_thread(pthread_t thread) { pthread_join(thread, NULL); }
