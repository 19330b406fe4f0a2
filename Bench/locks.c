/* SPDX-License-Identifier: MIT */
/*
 * Locks and the like of the library beside those of POSIX threads, in turns, and prints the medians and their ratios:
 *
 *     ninja -C build locks && build/Bench/programs/locks [turns [part of a row's name]]
 */
#define _GNU_SOURCE
#include <runloop/runloop.h>

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TURNS = 51 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void pin(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static RLLock lock;
static RLRecursiveLock recursive;
static RLReadWriteLock read_write;
static RLCondition condition;
static RLSemaphore semaphores[2];
static pthread_mutex_t p_lock = PTHREAD_MUTEX_INITIALIZER, p_recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t p_read_write = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t p_condition = PTHREAD_COND_INITIALIZER;
static sem_t p_semaphores[2];
static volatile long counter;
static long turn;

/* One thread; nanoseconds an operation. */
#define ALONE(name, count, ...)                     \
    static double name(void) {                      \
        double begun = now();                       \
        for (int i = 0; i < (count); i++) __VA_ARGS__ \
        return (now() - begun) / (count);           \
    }

ALONE(lock_rl, 3000000, { RLLockLock(&lock); counter++; RLLockUnlock(&lock); })
ALONE(lock_posix, 3000000, { pthread_mutex_lock(&p_lock); counter++; pthread_mutex_unlock(&p_lock); })
ALONE(recursive_rl, 3000000, { RLRecursiveLockLock(&recursive); counter++; RLRecursiveLockUnlock(&recursive); })
ALONE(recursive_posix, 3000000, { pthread_mutex_lock(&p_recursive); counter++; pthread_mutex_unlock(&p_recursive); })
ALONE(read_rl, 3000000, { RLReadWriteLockLockForReading(&read_write); counter++; RLReadWriteLockUnlock(&read_write); })
ALONE(read_posix, 3000000, { pthread_rwlock_rdlock(&p_read_write); counter++; pthread_rwlock_unlock(&p_read_write); })
ALONE(write_rl, 3000000, { RLReadWriteLockLockForWriting(&read_write); counter++; RLReadWriteLockUnlock(&read_write); })
ALONE(write_posix, 3000000, { pthread_rwlock_wrlock(&p_read_write); counter++; pthread_rwlock_unlock(&p_read_write); })
ALONE(semaphore_rl, 3000000, { RLSemaphoreSignal(&semaphores[0]); RLSemaphoreWait(&semaphores[0]); })
ALONE(semaphore_posix, 3000000, { sem_post(&p_semaphores[0]); sem_wait(&p_semaphores[0]); })

static volatile int32_t number;
ALONE(atomic_rl, 3000000, { RLAtomicIncrement32Barrier(&number); })
ALONE(swap_rl, 3000000, { RLAtomicCompareAndSwap32Barrier(number, number + 1, &number); })

static void add_one(void *unused) {
    (void)unused;
    counter++;
}
static pthread_once_t p_once = PTHREAD_ONCE_INIT;
static RLOnce once;
static void add_one_once(void) { counter++; }
ALONE(once_rl, 3000000, { RLOnceCall(&once, add_one, NULL); })
ALONE(once_posix, 3000000, { pthread_once(&p_once, add_one_once); })
ALONE(synchronized_rl, 1000000, { RLSynchronized(&lock, add_one, NULL); })

static void *do_nothing(void *unused) { return unused; }
static void body(RLThreadRef thread, void *unused) { (void)thread, (void)unused; }
ALONE(thread_rl, 2000, {
    RLThreadRef thread = RLThreadCreate(body, NULL, NULL);
    RLThreadStart(thread);
    RLThreadJoin(thread);
    RLRelease(thread);
})
/* What a thread with a loop costs by hand: it makes its loop. */
static void *make_loop(void *unused) {
    RLGetCurrent();
    return unused;
}
ALONE(thread_posix, 2000, {
    pthread_t thread;
    pthread_create(&thread, NULL, make_loop, NULL);
    pthread_join(thread, NULL);
})
ALONE(thread_plain, 2000, {
    pthread_t thread;
    pthread_create(&thread, NULL, do_nothing, NULL);
    pthread_join(thread, NULL);
})

/* Two threads, a processor each; nanoseconds an operation of both together. */
static double together(void *(*first)(void *), void *(*second)(void *), int count) {
    pthread_t threads[2];
    turn = 0;
    double begun = now();
    pthread_create(&threads[0], NULL, first, (void *)0);
    pthread_create(&threads[1], NULL, second, (void *)1);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return (now() - begun) / count;
}

#define TOGETHER(name, count, ...)                                \
    static void *name##_thread(void *number) {                    \
        long me = (long)number;                                   \
        (void)me;                                                 \
        pin((int)me);                                             \
        for (int i = 0; i < (count) / 2; i++) __VA_ARGS__         \
        return NULL;                                              \
    }                                                             \
    static double name(void) { return together(name##_thread, name##_thread, count); }

static void work(int amount) {
    for (volatile int i = 0; i < amount; i++) continue;
}

TOGETHER(contended_rl, 1000000, { RLLockLock(&lock); counter++; RLLockUnlock(&lock); work(20); })
TOGETHER(contended_posix, 1000000, { pthread_mutex_lock(&p_lock); counter++; pthread_mutex_unlock(&p_lock); work(20); })
TOGETHER(long_rl, 200000, { RLLockLock(&lock); work(500); RLLockUnlock(&lock); work(500); })
TOGETHER(long_posix, 200000, { pthread_mutex_lock(&p_lock); work(500); pthread_mutex_unlock(&p_lock); work(500); })
TOGETHER(readers_rl, 1000000, { RLReadWriteLockLockForReading(&read_write); work(20); RLReadWriteLockUnlock(&read_write); })
TOGETHER(readers_posix, 1000000, { pthread_rwlock_rdlock(&p_read_write); work(20); pthread_rwlock_unlock(&p_read_write); })
TOGETHER(mixed_rl, 400000, {
    if (i % 8) RLReadWriteLockLockForReading(&read_write); else RLReadWriteLockLockForWriting(&read_write);
    work(20);
    RLReadWriteLockUnlock(&read_write);
})
TOGETHER(mixed_posix, 400000, {
    if (i % 8) pthread_rwlock_rdlock(&p_read_write); else pthread_rwlock_wrlock(&p_read_write);
    work(20);
    pthread_rwlock_unlock(&p_read_write);
})
TOGETHER(hop_rl, 40000, {
    RLLockLock(&condition.lock);
    while (turn != me) RLConditionWait(&condition);
    turn = 1 - me;
    RLConditionSignal(&condition);
    RLLockUnlock(&condition.lock);
})
TOGETHER(hop_posix, 40000, {
    pthread_mutex_lock(&p_lock);
    while (turn != me) pthread_cond_wait(&p_condition, &p_lock);
    turn = 1 - me;
    pthread_cond_signal(&p_condition);
    pthread_mutex_unlock(&p_lock);
})
TOGETHER(handover_rl, 40000, {
    if (me == 0) RLSemaphoreSignal(&semaphores[1]);
    RLSemaphoreWait(&semaphores[me]);
    if (me == 1) RLSemaphoreSignal(&semaphores[0]);
})
TOGETHER(handover_posix, 40000, {
    if (me == 0) sem_post(&p_semaphores[1]);
    sem_wait(&p_semaphores[me]);
    if (me == 1) sem_post(&p_semaphores[0]);
})

static const struct row {
    const char *name;
    double (*library)(void), (*posix)(void);
} rows[] = {
    {"lock and unlock", lock_rl, lock_posix},
    {"lock and unlock, recursive", recursive_rl, recursive_posix},
    {"lock for reading and unlock", read_rl, read_posix},
    {"lock for writing and unlock", write_rl, write_posix},
    {"semaphore, signal and wait", semaphore_rl, semaphore_posix},
    {"once, after the first call", once_rl, once_posix},
    {"an atomic increment with a barrier, beside lock and unlock", atomic_rl, lock_posix},
    {"compare and swap with a barrier, beside lock and unlock", swap_rl, lock_posix},
    {"RLSynchronized, beside a recursive mutex", synchronized_rl, recursive_posix},
    {"two threads, short sections", contended_rl, contended_posix},
    {"two threads, long sections", long_rl, long_posix},
    {"two threads that read", readers_rl, readers_posix},
    {"two threads, one in eight writes", mixed_rl, mixed_posix},
    {"a hop by a condition", hop_rl, hop_posix},
    {"a hop by semaphores", handover_rl, handover_posix},
    {"start and join of a thread with a loop", thread_rl, thread_posix},
    {"the same, beside a thread without a loop", thread_rl, thread_plain},
};
enum { ROWS = sizeof rows / sizeof *rows };

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

int main(int argc, char **argv) {
    static double times[2][MAX_TURNS];
    int turns = argc > 1 ? atoi(argv[1]) : 5;
    if (turns < 1 || turns > MAX_TURNS) return 2;
    pin(0);
    printf("| | RunLoop | POSIX | ratio |\n|---|---|---|---|\n");
    for (int row = 0; row < ROWS; row++) {
        if (argc > 2 && !strstr(rows[row].name, argv[2])) continue;
        for (int i = 0; i < 2 * turns; i++) {
            /* Each begins in every other turn. */
            bool posix = ((i + i / 2) & 1) != 0;
            times[posix][i / 2] = posix ? rows[row].posix() : rows[row].library();
        }
        double library = median(times[0], turns), posix = median(times[1], turns);
        printf("| %s | %.3g ns | %.3g ns | %.2f |\n", rows[row].name, library, posix, library / posix);
        fflush(stdout);
    }
    return 0;
}
