/* SPDX-License-Identifier: MIT */
/* The C half of the example: a source, a timer and an observer on a loop that Swift uses as well. */
#ifndef C_HALF_H
#define C_HALF_H

#include <runloop/runloop.h>

/* Adds the three items to the loop's default mode; `partner` is signalled by each perform of the source. */
void c_half_add(RLRunLoopRef loop, RLSourceRef partner);

/* The source, for the partner to signal in turn. The C half owns it. */
RLSourceRef c_half_source(void);

/* Makes the timer due now. Its callback ends the run. */
void c_half_set_timer_due(void);

/* How often the source, the timer and the observer were called. */
int c_half_performed(void);
int c_half_fired(void);
int c_half_observed(void);

/* Takes the three items off the loop for good. */
void c_half_remove(void);

#endif
