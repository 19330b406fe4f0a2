/* SPDX-License-Identifier: MIT */
/* Counts what the process allocates, by standing in front of the C library's allocator. Not there
   in sanitized programs, whose runtime stands there already: COUNT_MALLOC says which. */
#ifndef RUNLOOP_TESTS_COUNT_MALLOC_H
#define RUNLOOP_TESTS_COUNT_MALLOC_H

#include "stress.h"

#if defined(__GLIBC__) && !defined(STRESS_SANITIZED)
#define COUNT_MALLOC 1
#endif

/* Blocks and usable bytes that are allocated now. */
extern atomic_long malloc_live_blocks, malloc_live_bytes;

/* Calls of any allocation function made while the calling thread's mark was set. A signal handler
   sets the mark; every such call is one that could deadlock. */
extern _Thread_local volatile int malloc_forbidden;
extern atomic_ulong malloc_forbidden_calls;

#endif
