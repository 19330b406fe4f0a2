/* SPDX-License-Identifier: MIT */
/* The Mac's unfair lock, which Tcl's notifier wants beside CoreFoundation: here a spin lock that yields. */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

typedef struct os_unfair_lock_s {
    int held;
} os_unfair_lock, *os_unfair_lock_t;
#define OS_UNFAIR_LOCK_INIT ((os_unfair_lock){0})

static inline bool os_unfair_lock_trylock(os_unfair_lock_t lock) { return !__atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE); }
static inline void os_unfair_lock_lock(os_unfair_lock_t lock) {
    while (!os_unfair_lock_trylock(lock)) sched_yield();
}
static inline void os_unfair_lock_unlock(os_unfair_lock_t lock) { __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE); }

/* BSD's, which Tcl uses as well. */
#define FD_COPY(from, to) (void)(*(to) = *(from))
