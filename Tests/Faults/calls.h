/* SPDX-License-Identifier: MIT */
/*
 * Stands between the library and libc: counts the library's kernel calls by the place that makes them, and lets one fail.
 *
 * A place is a call and the address behind it in the library's code, so a function that is used everywhere does not hide who
 * used it. Calls of the test's own code, and of libc's inside, are passed on.
 */
#ifndef RUNLOOP_FAULTS_CALLS_H
#define RUNLOOP_FAULTS_CALLS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Place {
    char call[32];     /* "epoll_ctl"; those made by syscall(2) by their own name */
    uint64_t offset;   /* of the return address in its file */
    uint64_t caller;   /* the same of the call of the function it is in, if that function is small: a wrapper has many callers */
    bool is_in_libbsd; /* else in the library */
    int count;
} Place;

enum { MAX_PLACES = 1024 };

/* What the process that was started for one run shares with the one that looks at it. */
typedef struct Record {
    Place places[MAX_PLACES];
    int place_count;
    bool is_full;
} Record;

/* From now on places are counted, in *record. */
void calls_record(Record *record);

/* The next call at the place fails with the error, or, if `is_made`, is made all the same and then said to have failed. */
void calls_fail(const Place *place, int error, bool is_made);
/* Whether it did. */
bool calls_have_failed(void);
/* No further failure. */
void calls_pass(void);

/* While on, the library takes every file system for one of several hosts. Set by the thread that then calls it. */
void calls_share_files(bool share);

#endif
