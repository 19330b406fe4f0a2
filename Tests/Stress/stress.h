/* SPDX-License-Identifier: MIT */
/* What the stress programs share: counts, failures seen from any thread, loops on threads of their
   own, answers to waiting threads, and a watchdog that turns a lost wake-up into a failure. */
#ifndef RUNLOOP_TESTS_STRESS_H
#define RUNLOOP_TESTS_STRESS_H

#include <pthread.h>
#include <runloop/runloop.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STRESS_THREAD_SANITIZER 1
#endif
#if __has_feature(address_sanitizer)
#define STRESS_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) && !defined(STRESS_THREAD_SANITIZER)
#define STRESS_THREAD_SANITIZER 1
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(STRESS_ADDRESS_SANITIZER)
#define STRESS_ADDRESS_SANITIZER 1
#endif
#if defined(STRESS_THREAD_SANITIZER) || defined(STRESS_ADDRESS_SANITIZER)
#define STRESS_SANITIZED 1
#endif

/* Long enough to be no limit (8 years), short enough to be a deadline (S-RUN-18): a run that
   returns TimedOut, or never returns, has lost a wake-up. */
#define STRESS_FOREVER 2.5e8

/* The library's checks may be off; these never are. They work on any thread: Check's own may
   not. */
#define MUST(condition) \
    do { \
        if (!(condition)) stress_fail(__FILE__, __LINE__, "%s", #condition); \
    } while (0)

/* Compares whole numbers and prints both when it fails. */
#define MUST_BE(left, relation, right) \
    do { \
        long long left_ = (long long)(left), right_ = (long long)(right); \
        if (!(left_ relation right_)) \
            stress_fail(__FILE__, __LINE__, "%s %s %s, with %lld and %lld", #left, #relation, #right, left_, right_); \
    } while (0)

__attribute__((noreturn, format(printf, 3, 4))) void stress_fail(const char *file, int line, const char *format, ...);

/* `full`, times RL_STRESS_TIMES and divided by RL_STRESS_SCALE (1 unless set; 20 in a sanitized
   program), but at least `least`. */
unsigned long stress_count_at_least(unsigned long full, unsigned long least);
unsigned long stress_count(unsigned long full);

/* Small pseudo-random numbers, the same in every run; each thread has a state of its own. */
static inline uint32_t stress_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* The watchdog ends the program, after a call of `report`, once nothing called stress_progress for
   two minutes. It bounds no test's duration: only standing still is a failure. */
void stress_watchdog_start(void (*report)(void));
void stress_watchdog_stop(void);
extern atomic_ulong stress_progress_made;
static inline void stress_progress(void) { atomic_fetch_add_explicit(&stress_progress_made, 1, memory_order_relaxed); }

/* An answer that one thread waits for and the loop's thread gives once it has seen a value. The
   value is asked for before it is published, so no answer is missed. */
struct answer {
    atomic_ulong wanted; /* 0: nobody asks */
    sem_t given;
};

void answer_init(struct answer *answer);
void answer_destroy(struct answer *answer);
static inline void answer_ask(struct answer *answer, unsigned long value) { atomic_store(&answer->wanted, value); }
void answer_wait(struct answer *answer);

static inline void answer_give(struct answer *answer, unsigned long seen) {
    unsigned long wanted = atomic_load(&answer->wanted);
    if (wanted != 0 && wanted <= seen && atomic_compare_exchange_strong(&answer->wanted, &wanted, 0))
        sem_post(&answer->given);
}

/* What a loop has to sleep on: with nothing registered in the kernel it waits on a futex, with a
   port source in epoll; with a spin limit it looks for a while before it waits. */
enum stress_sleep { SLEEP_ON_FUTEX, SLEEP_IN_EPOLL, SLEEP_SPINNING };

/* A thread that runs the default mode of its loop until somebody stops it. The loop is retained
   until stress_loop_join, so that late calls meet a loop whose thread is gone (S-LOOP-12). */
struct stress_loop {
    RLRunLoopRef loop;
    pthread_t thread;
    enum stress_sleep sleep;
    int idle_fd;
    RLSourceRef keep; /* never signalled: it keeps the mode from being empty */
    RLSourceRef idle_port;
    sem_t running;
    atomic_bool ended;
};

/* Returns once the loop is running. */
void stress_loop_start(struct stress_loop *loop, enum stress_sleep sleep);

/* Waits for the run to end, which must be by a stop, and for the thread. */
void stress_loop_join(struct stress_loop *loop);

/* A source that calls `perform(info)` and has no other callback. */
RLSourceRef stress_source(RLIndex order, void (*perform)(void *info), void *info);

/* A port source of `fd` whose perform never runs unless somebody makes the descriptor ready; `fd`
   must outlive it. */
RLSourceRef stress_idle_port(int *fd);

/* The thread's name in /proc/self/task. */
int stress_thread_id(void);

/* Puts the calling thread, and threads it starts later, on one core. False where that is
   refused. */
bool stress_pin_to_one_core(void);

void stress_thread_start(pthread_t *thread, void *(*body)(void *), void *info);
void stress_thread_join(pthread_t thread);

#endif
