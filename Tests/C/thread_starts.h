/* SPDX-License-Identifier: MIT */
/* For programs in which a thread cannot always be made: thread_starts.c defines pthread_create, which the library and the program call. */
#ifndef RUNLOOP_TESTS_THREAD_STARTS_H
#define RUNLOOP_TESTS_THREAD_STARTS_H

#include <stdbool.h>

/* True: the start fails with EAGAIN. Called on the thread that would start another one. */
typedef bool ThreadStartHook(void);
/* Sets the hook; NULL takes it away. A start that is under way on another thread may still ask the old one. */
void hook_thread_starts(ThreadStartHook *hook);

/* A hook by which none can be made. */
bool refuse_thread(void);

#endif
