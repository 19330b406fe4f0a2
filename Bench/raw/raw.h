/* SPDX-License-Identifier: MIT */
/* What the hand-written programs share: the futex calls and the two stores of timers. */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include "../bench.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define SPIN_HINT() __builtin_ia32_pause()
#else
#define SPIN_HINT() __asm__ volatile("" ::: "memory")
#endif

typedef void (*function)(void *info);

static inline void futex_wake(atomic_int *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Waits until a date of CLOCK_MONOTONIC in nanoseconds, or for ever if it is 0. */
static inline void futex_wait(atomic_int *word, int value, uint64_t until) {
    struct timespec time = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, until ? &time : NULL, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

/* A word that a thread sleeps on. */
enum { WORD_IDLE, WORD_SIGNALLED, WORD_ASLEEP };

static inline void word_signal(atomic_int *word) {
    if (atomic_exchange(word, WORD_SIGNALLED) == WORD_ASLEEP) futex_wake(word);
}

static inline void word_wait(atomic_int *word) {
    for (;;) {
        int seen = WORD_SIGNALLED;
        if (atomic_compare_exchange_strong(word, &seen, WORD_IDLE)) return;
        if (seen == WORD_IDLE && !atomic_compare_exchange_strong(word, &seen, WORD_ASLEEP))
            continue;
        futex_wait(word, WORD_ASLEEP, 0);
    }
}

/* A timer of either store. */
struct timed {
    uint64_t due;
    function fire;
    void *info;
    union {
        size_t place;
        struct {
            struct timed *next, **previous;
        } links;
    } in;
};

/* A 4-ary heap of dates. */
void heap_add(struct timed *t);
void heap_remove(struct timed *t);
void heap_move(struct timed *t, uint64_t due);
struct timed *heap_first(void);
/* A wheel of lists. */
void wheel_add(struct timed *t);
void wheel_remove(struct timed *t);

void raw_ping_pong(void);
void raw_post(void);
void raw_pass(void);
void raw_pass_idle_sources(void);
void raw_descriptors(void);
void raw_timer_remove_set_add(void);
void raw_timer_move(void);
void raw_timer_move_outside(void);
void raw_timer_life(void);
void raw_fire_at_once(void);
void raw_fire_spread(void);
void raw_lateness(void);
void raw_memory_timer(void);
void raw_memory_source(void);
void raw_memory_descriptor(void);
void raw_idle(void);

#endif
