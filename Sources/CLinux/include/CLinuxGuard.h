/* SPDX-License-Identifier: MIT */
/* A call of a function that may end its thread. */
#ifndef CLINUX_GUARD_H
#define CLINUX_GUARD_H

#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>

/* Calls the function, and if it ends the thread the cleanup.
 *
 * pthread_cleanup_push(3) of glibc leaves the handler that was called last at the head of the thread's list: a destructor of the thread's that calls
 * pthread_exit(3) once more would call it again, in a frame that is gone. So it is taken off first. */
static inline void rl_guard(void (*function)(void *info), void *info, void (*cleanup)(void *argument), void *argument) {
#if defined(__GLIBC__) && !defined(__EXCEPTIONS)
    __pthread_unwind_buf_t frame;
    /* gcc takes the declared array for as long as that of setjmp(3), of which this call writes the beginning. */
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif
    if (__sigsetjmp((struct __jmp_buf_tag *)(void *)frame.__cancel_jmp_buf, 0)) {
        __pthread_unregister_cancel(&frame);
        cleanup(argument);
        __pthread_unwind_next(&frame);
    }
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
    __pthread_register_cancel(&frame);
    function(info);
    __pthread_unregister_cancel(&frame);
#else
    pthread_cleanup_push(cleanup, argument);
    function(info);
    pthread_cleanup_pop(0);
#endif
}

#endif
