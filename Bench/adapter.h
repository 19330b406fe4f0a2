/* SPDX-License-Identifier: MIT */
/*
 * What a workload needs from a loop. Each file of adapters/ gives it over one library, with the
 * means that its manual recommends and, where there are several, with the cheapest.
 *
 * A function that the library has no counterpart for ends the program with bench_absent().
 * Delays count from the loop's base instant, which loop_rebase sets: a library that takes dates
 * adds the delay to a date it has, and reads no clock for it.
 */
#ifndef BENCH_ADAPTER_H
#define BENCH_ADAPTER_H

#include <stdbool.h>

typedef struct loop loop;
typedef struct source source;
typedef struct timer timer;
typedef void (*function)(void *info);

/* The calling thread's loop. threads: other threads will call into it. */
loop *loop_open(bool threads);
/* Runs until loop_stop, which is called from a callback only. Something must have been added. */
void loop_run(loop *l);
void loop_stop(loop *l);
/* Takes the present instant for the base. */
void loop_rebase(loop *l);
/* Lets the loop watch for wake-ups for so long before it sleeps. */
void loop_spin(loop *l, double seconds);
/* Adds a descriptor that never becomes ready; object: as an object for descriptors, where the
   library has another kind of source as well. */
void loop_watch(loop *l, int descriptor, bool object);
/* Calls a function whenever a descriptor, an eventfd, is readable, for ever; kind: 1 and 2 by other
   kinds of sources, where the library has them. True if the library reads the count itself. */
bool loop_receive(loop *l, int descriptor, function call, void *info, int kind);
/* Calls a function once in each pass. */
void loop_observe(loop *l, function call, void *info);
/* Queues a function and makes the loop run it soon; from any thread. */
void loop_post(loop *l, function call, void *info);

/* A source that performs after it was signalled; there may be many, all with the same function. */
source *source_add(loop *l, function perform, void *info);
/* Signals from the loop's own thread. */
void source_signal(source *s);
/* Signals from another thread, and wakes the loop that it was added to. */
void source_wake(loop *l, source *s);

/* The cheapest thing that a callback can arrange to be called again in the next pass. */
source *again_add(loop *l, function perform, void *info);
void again_signal(source *s);

/* A timer that is waiting; all have the same function. interval: 0 for a one-shot; tolerance: how
   late it may be, 0 for not. timer_end is not called for a one-shot that has fired, whose memory
   stays. */
timer *timer_add(loop *l, double delay, double interval, double tolerance, function fire,
                 void *info);
/* Takes a timer out, makes it due at another time and puts it back. */
void timer_remove_set_add(timer *t, double delay);
/* Makes a waiting timer due at another time. */
void timer_move(timer *t, double delay);
/* The same from another thread than the loop's. */
void timer_move_from_outside(timer *t, double delay);
/* Removes and frees. */
void timer_end(timer *t);

/* Adding or removing one of n timers costs time proportional to n, so there must be fewer. */
extern const bool timers_are_slow;

#endif
