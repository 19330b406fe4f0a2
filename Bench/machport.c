/* SPDX-License-Identifier: MIT */
/*
 * Messages of 32 bytes from a thread that sends all the time to one that is called for each, in
 * nanoseconds: by Mach-like ports, by queues as one would write them by hand, by CoreFoundation.
 * All queues are bounded: the sender sleeps while one is full, the receiver while it is empty.
 *
 * arguments: messages; the queue's limit; raw only: 1 for the lock-free ring
 * Without a library it is a ring under a mutex with two conditions, or a lock-free ring whose sides
 * sleep on futexes; over CoreFoundation such a ring under a mutex and a version 0 source that is
 * signalled for it.
 */
#define _GNU_SOURCE
#include "bench.h"
#include "raw/raw.h"

#ifdef OVER_COREFOUNDATION
#include <CoreFoundation/CoreFoundation.h>
#elif defined(OVER_RUNLOOP)
#include <runloop/runloop.h>
#endif
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 32 };

static long expected, received, limit;
static pthread_barrier_t ready;

/* Every way ends here: each message is one call, in the order in which they were sent. */
static bool be_called(const char *bytes) {
    long number;
    memcpy(&number, bytes, sizeof number);
    bench_require(number == received, "a message came twice, or too early");
    return ++received == expected;
}

#ifdef OVER_RUNLOOP

static RLMachPortRef port;

static void receive(RLMachPortRef from, const RLMachMessage *message, void *info) {
    (void)from;
    (void)info;
    bench_require(message->length == LENGTH, "a message was cut");
    if (be_called(message->bytes)) RLStop(RLGetCurrent());
}

static void send_message(const char *bytes) {
    int32_t code = RLMachPortSend(port, 1, bytes, LENGTH, NULL, 1e9);
    bench_require(code == kRLMessagePortSuccess, "a message was not sent");
}

static void serve_messages(void) { RLRun(); }

static void prepare_receiver(void) {
    port = RLMachPortCreate(receive, NULL, NULL);
    RLMachPortSetQueueLimit(port, limit);
    RLAddSource(RLGetCurrent(), RLMachPortCreateRunLoopSource(port, 0), kRLDefaultMode);
}

#else

/* A ring under a mutex */

static char (*ring)[LENGTH];
static long filled, emptied;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_room = PTHREAD_COND_INITIALIZER;

/* Returns whether the ring was empty. */
static bool put_locked(const char *bytes) {
    while (filled - emptied == limit) pthread_cond_wait(&has_room, &mutex);
    memcpy(ring[filled % limit], bytes, LENGTH);
    return filled++ == emptied;
}

static void take_locked(char *bytes) {
    memcpy(bytes, ring[emptied % limit], LENGTH);
    if (filled - emptied++ == limit) pthread_cond_signal(&has_room);
}

#ifdef OVER_COREFOUNDATION

static CFRunLoopRef loop;
static CFRunLoopSourceRef source;

/* One message for each time that it performs, as a port's source does. */
static void perform(void *info) {
    char bytes[LENGTH];
    (void)info;
    pthread_mutex_lock(&mutex);
    take_locked(bytes);
    bool is_empty = filled == emptied;
    pthread_mutex_unlock(&mutex);
    if (!is_empty) CFRunLoopSourceSignal(source);
    if (be_called(bytes))
        CFRunLoopStop(loop);
    else if (!is_empty)
        CFRunLoopWakeUp(loop);
}

static void send_message(const char *bytes) {
    pthread_mutex_lock(&mutex);
    bool was_empty = put_locked(bytes);
    pthread_mutex_unlock(&mutex);
    if (!was_empty) return;
    CFRunLoopSourceSignal(source);
    CFRunLoopWakeUp(loop);
}

static void prepare_receiver(void) {
    CFRunLoopSourceContext context = {.perform = perform};
    loop = CFRunLoopGetCurrent();
    source = CFRunLoopSourceCreate(NULL, 0, &context);
    CFRunLoopAddSource(loop, source, kCFRunLoopDefaultMode);
}
static void serve_messages(void) { CFRunLoopRun(); }

#else

static pthread_cond_t has_message = PTHREAD_COND_INITIALIZER;

static void send_locked(const char *bytes) {
    pthread_mutex_lock(&mutex);
    bool was_empty = put_locked(bytes);
    pthread_mutex_unlock(&mutex);
    if (was_empty) pthread_cond_signal(&has_message);
}

static void serve_locked(void) {
    bool is_over = false;
    while (!is_over) {
        char bytes[LENGTH];
        pthread_mutex_lock(&mutex);
        while (filled == emptied) pthread_cond_wait(&has_message, &mutex);
        take_locked(bytes);
        pthread_mutex_unlock(&mutex);
        is_over = be_called(bytes);
    }
}

/* A ring between two threads: each side owns its counter and sleeps on a word of its own. */

static _Alignas(128) atomic_long sent;
static _Alignas(128) atomic_long taken;
static _Alignas(128) atomic_int receiver_word;
static _Alignas(128) atomic_int sender_word;

/* The word says that its thread looks once more and then sleeps. */
static void sleep_while(atomic_int *word, atomic_long *counter, long value) {
    atomic_store(word, WORD_ASLEEP);
    if (atomic_load(counter) == value) futex_wait(word, WORD_ASLEEP, 0);
    atomic_store_explicit(word, WORD_IDLE, memory_order_relaxed);
}

static void wake(atomic_int *word) {
    if (atomic_load(word) == WORD_ASLEEP && atomic_exchange(word, WORD_IDLE) == WORD_ASLEEP)
        futex_wake(word);
}

static void send_lock_free(const char *bytes) {
    long number = atomic_load_explicit(&sent, memory_order_relaxed), full = number - limit;
    while (atomic_load_explicit(&taken, memory_order_acquire) == full)
        sleep_while(&sender_word, &taken, full);
    memcpy(ring[number % limit], bytes, LENGTH);
    atomic_store(&sent, number + 1);
    wake(&receiver_word);
}

static void serve_lock_free(void) {
    bool is_over = false;
    for (long number = 0; !is_over; number++) {
        char bytes[LENGTH];
        while (atomic_load_explicit(&sent, memory_order_acquire) == number)
            sleep_while(&receiver_word, &sent, number);
        memcpy(bytes, ring[number % limit], LENGTH);
        atomic_store(&taken, number + 1);
        wake(&sender_word);
        is_over = be_called(bytes);
    }
}

static bool is_lock_free;

static void prepare_receiver(void) {}

static void serve_messages(void) {
    if (is_lock_free)
        serve_lock_free();
    else
        serve_locked();
}

static void send_message(const char *bytes) {
    if (is_lock_free)
        send_lock_free(bytes);
    else
        send_locked(bytes);
}

#endif
#endif

static void *receiving(void *unused) {
    (void)unused;
    bench_pin(1);
    prepare_receiver();
    pthread_barrier_wait(&ready);
    serve_messages();
    return NULL;
}

static void measure(void) {
    char bytes[LENGTH] = "";
    pthread_t thread;
    expected = bench_argument(0, 1000);
    limit = bench_argument(1, 5);
#ifndef OVER_RUNLOOP
    ring = bench_allocate((size_t)limit * LENGTH);
#endif
#if !defined(OVER_RUNLOOP) && !defined(OVER_COREFOUNDATION)
    is_lock_free = bench_argument(2, 0);
#endif
    bench_pin(0);
    pthread_barrier_init(&ready, NULL, 2);
    pthread_create(&thread, NULL, receiving, NULL);
    pthread_barrier_wait(&ready);
    bench_begin();
    for (long i = 0; i < expected; i++) {
        memcpy(bytes, &i, sizeof i);
        send_message(bytes);
    }
    pthread_join(thread, NULL);
    bench_end((double)expected);
    bench_require(received == expected, "a message was lost");
}

const struct workload bench_workloads[] = {{"mach_port", measure}, {NULL, NULL}};
