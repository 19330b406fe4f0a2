/* SPDX-License-Identifier: MIT */
/*
 * Parts of the library at work, each small and quick, done by a process that has not used the library before.
 *
 * A part says with `refused` that a call of the library's failed as its manual says it may, and goes on with what is left or ends;
 * with `lost` that something the library had taken on did not come, which is a fault. A part leaves nothing behind.
 */
#ifndef RUNLOOP_FAULTS_PARTS_H
#define RUNLOOP_FAULTS_PARTS_H

#include <runloop/runloop.h>

#include <pthread.h>
#include <stdbool.h>

typedef struct Part {
    const char *name;
    void (*work)(void);
} Part;

/* Ended by one without a name. */
extern const Part loop_parts[], descriptor_parts[], port_parts[], event_parts[], server_parts[], file_parts[], process_parts[];

/* What went wrong since the last outcome_clear; the first one is kept. */
typedef struct Outcome {
    bool is_refused, is_lost;
    char what[120];
} Outcome;
extern Outcome outcome;
void outcome_clear(void);
void refused(const char *what);
void lost(const char *what);

/* How long what has to come may take, in seconds: twenty times what the library waits before it tries again. */
#define PATIENCE 2.0

/* Runs the current loop until the counter has the value; false, and `lost`, if that takes too long. */
bool run_until(const int *counter, int value, const char *what);
/* The same, of a counter that another thread's work moves, without running anything. */
bool wait_until(const int *counter, int value, const char *what);
int count_of(const int *counter);
void add_one(int *counter);
/* True for ever once time is up. */
typedef struct Patience {
    double end;
} Patience;
Patience patience_begin(void);
bool patience_ended(Patience patience);

void sleep_briefly(void);

pthread_t start_thread(void *(*body)(void *), void *argument);
void join_thread(pthread_t thread);

#endif
