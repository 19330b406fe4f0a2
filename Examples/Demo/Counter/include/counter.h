/* SPDX-License-Identifier: MIT */
/*
 * The C half of the demo: three threads with a loop each count what is in a file.
 *
 *   feeder thread          main thread                        worker thread
 *   a repeating timer      a port source on the read end      a custom source with a queue of lines;
 *   writes portions of     splits the bytes into lines,       counts them and reports to the main loop
 *   the file to a pipe     signals and wakes the worker       by a performed function
 */
#ifndef DEMO_COUNTER_H
#define DEMO_COUNTER_H

#include <runloop/runloop.h>

RL_HEADER_BEGIN

typedef struct demo_counts {
    unsigned long lines, words, bytes;
    int portions; /* how often the pipe was read */
} demo_counts;

typedef struct demo_counter demo_counter;

/*
 * Starts counting the file, whose bytes are spread over the given time. Call it on the main thread and run
 * the main loop in the default mode. Once everything is counted finished is called there, once.
 * Returns NULL, with errno set, if the file cannot be read.
 */
demo_counter *RL_NULLABLE demo_start(const char *RL_NONNULL path, double seconds,
                                     void (*RL_NONNULL finished)(void *RL_NULLABLE info), void *RL_NULLABLE info);

/* What the worker has reported so far. Main thread only. */
demo_counts demo_so_far(demo_counter *RL_NONNULL counter);

/* Waits for the other threads and frees the counter. Only after finished was called. */
void demo_free(demo_counter *RL_NONNULL counter);

RL_HEADER_END

#endif
