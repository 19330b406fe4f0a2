/* SPDX-License-Identifier: MIT */
/* See thread_starts.h. */
#define _GNU_SOURCE
#include "thread_starts.h"

#include "support.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

static ThreadStartHook *the_hook;

void hook_thread_starts(ThreadStartHook *hook) { __atomic_store_n(&the_hook, hook, __ATOMIC_SEQ_CST); }

bool refuse_thread(void) { return true; }

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
    ThreadStartHook *hook = __atomic_load_n(&the_hook, __ATOMIC_SEQ_CST);
    if (hook && hook()) return EAGAIN;
#if defined(WITH_ADDRESS_SANITIZER) || defined(WITH_THREAD_SANITIZER) /* They must know of every thread. */
    int __interceptor_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    return __interceptor_pthread_create(thread, attributes, body, argument);
#else
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    return next(thread, attributes, body, argument);
#endif
}
