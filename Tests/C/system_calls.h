/* SPDX-License-Identifier: MIT */
/*
 * For programs that stand between the library and the kernel: the library makes its calls by syscall(2), which system_calls.c
 * defines. A program that links it may set a hook, which sees each of them, on whatever thread.
 */
#ifndef RUNLOOP_TESTS_SYSTEM_CALLS_H
#define RUNLOOP_TESTS_SYSTEM_CALLS_H

#include <stdbool.h>

/* True: the call is answered, by *result, or by errno with -1 in it. False: the kernel answers it. */
typedef bool SystemCallHook(long number, const long argument[6], long *result);
/* Sets the hook; NULL takes it away. A call that is under way on another thread may still ask the old one. */
void hook_system_calls(SystemCallHook *hook);

/* Asks the kernel, without the hook. */
long system_call(long number, const long argument[6]);

#endif
