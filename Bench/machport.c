/*
 * Nanoseconds per Mach-like port message between two busy threads: one sends as fast as it may, the
 * other's loop receives. Printed for some queue limits, with and without a spin limit on the loop.
 */
#define _GNU_SOURCE
#include <runloop/runloop.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long expected, received;
static pthread_barrier_t ready;
static double spin;

static double nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void receive(RLMachPortRef port, const RLMachMessage *message, void *info) {
    (void)port;
    (void)info;
    received++;
    if (message->msgid) RLStop(RLGetCurrent());
}

static void *serve(void *port) {
    RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    RLSetSpinLimit(RLGetCurrent(), spin);
    pthread_barrier_wait(&ready);
    RLRun();
    return NULL;
}

static void measure(long count, RLIndex limit, double spin_limit) {
    char bytes[32] = "a message of 32 bytes";
    RLMachPortRef port = RLMachPortCreate(receive, NULL, NULL);
    pthread_t thread;
    expected = count;
    received = 0;
    spin = spin_limit;
    RLMachPortSetQueueLimit(port, limit);
    pthread_barrier_init(&ready, NULL, 2);
    pthread_create(&thread, NULL, serve, port);
    pthread_barrier_wait(&ready);
    double begin = nanoseconds();
    for (long i = 1; i <= count; i++)
        if (RLMachPortSend(port, i == count, bytes, sizeof bytes, NULL, 1e9) != kRLMessagePortSuccess) abort();
    pthread_join(thread, NULL);
    double each = (nanoseconds() - begin) / (double)count;
    if (received != expected) abort();
    printf("mach_message limit %ld spin %g %.0f ns\n", limit, spin_limit, each);
    RLMachPortInvalidate(port);
    RLRelease(port);
}

int main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 200000;
    for (int spins = 0; spins < 2; spins++) {
        measure(count, 5, spins ? 0.0001 : 0);
        measure(count, 64, spins ? 0.0001 : 0);
        measure(count, 1024, spins ? 0.0001 : 0);
    }
    return 0;
}
