/* SPDX-License-Identifier: MIT */
/* A stack for the signal handlers of one thread, painted, so that what they used can be measured,
   and with a page below it that must not be touched. */
#ifndef RUNLOOP_TESTS_SIGNAL_STACK_H
#define RUNLOOP_TESTS_SIGNAL_STACK_H

#include <stddef.h>

struct signal_stack {
    unsigned char *mapping, *low;
    size_t mapped, size;
};

/* Makes the calling thread's handlers run on a stack with `room` bytes beside the kernel's own
   frame. */
void signal_stack_begin(struct signal_stack *stack, size_t room);

/* Ends that, and returns how many bytes below `frame`, an address in the handlers' frame, were
   used. */
size_t signal_stack_end(struct signal_stack *stack, const unsigned char *frame);

#endif
