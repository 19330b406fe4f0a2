/* SPDX-License-Identifier: MIT */
/*
 * What the cases of the growth test share. A case is a function of n that does something with n objects. What it does
 * between `counted` and `counted_end` is what callgrind counts; the rest prepares it and clears up. See growth.
 */
#ifndef RUNLOOP_TESTS_GROWTH_H
#define RUNLOOP_TESTS_GROWTH_H

#include <runloop/runloop.h>
#include <stdbool.h>
#include <stdlib.h>

/* How the instructions of the counted part may grow with n: an operation for each object, or as many whatever n is. */
typedef enum { EACH, IDLE } Kind;

typedef struct Case {
    const char *name;
    Kind kind;
    long divisor; /* n is divided by it where the objects are dear */
    void (*body)(long n);
    struct Case *next;
} Case;

void case_register(Case *the_case);

#define GROWTH_CASE_(kind_, divisor_, name_)                                       \
    static void name_(long n);                                                     \
    __attribute__((constructor)) static void name_##_register(void) {              \
        static Case the_case = {#name_, kind_, divisor_, name_, NULL};             \
        case_register(&the_case);                                                  \
    }                                                                              \
    static void name_(long n)

/* n operations, or rounds over n objects: n log n is the most. */
#define EACH_OF(name) GROWTH_CASE_(EACH, 1, name)
#define EACH_OF_FEW(name, divisor) GROWTH_CASE_(EACH, divisor, name)
/* The divisor of a case that is known to grow: fewer objects show it, and all would take most of the test's time. */
#define KNOWN 8
/* As many operations whatever n is, beside n objects that have nothing to do with them. */
#define BESIDE_IDLE(name) GROWTH_CASE_(IDLE, 1, name)
#define BESIDE_IDLE_FEW(name, divisor) GROWTH_CASE_(IDLE, divisor, name)

void counted(void);
void counted_end(void);
/* Ends the program with what is missing unless it holds. */
void require(bool holds, const char *what);

/* The loop of the case, which has a thread of its own, and the callbacks so far. */
extern RLRunLoopRef own;
extern long calls;
void count_call(void *info);

#define KEPT 20000
/* Objects of the case; the references are the case's. */
extern RLTypeRef kept[KEPT + 1];
void release_kept(long n);

RLSourceRef make_source(void (*perform)(void *), void *info);
RLTimerRef make_timer(double date, double interval, RLTimerCallBack fire);
RLObserverRef make_observer(RLOptionFlags activities, bool repeats, RLIndex order, RLObserverCallBack callback);
/* The name of the index-th mode. */
RLMode mode_name(long index);
/* Passes over a mode with a source that signals itself, so many times. */
void passes(RLMode mode, long count, void (*each)(void));

#endif
