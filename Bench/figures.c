/*
 * The costs of a loop's main operations, for the library or for CoreFoundation: the program is built over both.
 * Each line of the output is the name of a workload, its size, and nanoseconds per operation.
 *
 * Every workload counts its callbacks and ends the program with an error if one is missing.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <runloop/runloop.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* CoreFoundation's costs grow with the number of items: where it is slow it does fewer operations. */
static bool is_slow;

static double nanoseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void report(const char *workload, long size, double begin, long operations) {
    printf("%s %ld %.1f\n", workload, size, (nanoseconds() - begin) / (double)operations);
    fflush(stdout);
}

static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "figures: %s\n", what);
    exit(1);
}

static void pin_to_first_core(void) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(0, &cores);
    pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
}

/* One pass: a source that signals itself, beside sources that are never signalled. */

static RLSourceRef self_signalling;
static long performed, perform_limit;

static void signal_again(void *info) {
    (void)info;
    if (++performed < perform_limit)
        RLSourceSignal(self_signalling);
    else
        RLStop(RLGetCurrent());
}

static void never(void *info) {
    (void)info;
    require(false, "an idle source performed");
}

static RLSourceRef add_source(void (*perform)(void *), void *info) {
    RLSourceContext context = {0};
    context.info = info;
    context.perform = perform;
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    return source;
}

static void drop_source(RLSourceRef source) {
    RLSourceInvalidate(source);
    RLRelease(source);
}

static void measure_pass(long idle, long passes) {
    RLSourceRef *sources = calloc((size_t)idle + 1, sizeof *sources);
    for (long i = 0; i < idle; i++) sources[i] = add_source(never, (void *)(i + 1));
    self_signalling = add_source(signal_again, NULL);
    for (int warm = 1; warm >= 0; warm--) {
        performed = 0;
        perform_limit = warm ? passes / 10 + 1 : passes;
        RLSourceSignal(self_signalling);
        double begin = nanoseconds();
        RLRun();
        if (!warm) report("pass_with_idle_sources", idle, begin, passes);
        require(performed == perform_limit, "a signal was lost");
    }
    drop_source(self_signalling);
    for (long i = 0; i < idle; i++) drop_source(sources[i]);
    free(sources);
}

/* Remove and add a timer, drawn at random, among many that are due within the next hours. */

static void fire(RLTimerRef timer, void *info) {
    (void)timer;
    (void)info;
    require(false, "a timer of the far future fired");
}

static void measure_timers(long live, long operations) {
    RLTimerRef *timers = calloc((size_t)live, sizeof *timers);
    RLAbsoluteTime soonest = RLAbsoluteTimeGetCurrent() + 1000;
    for (long i = 0; i < live; i++) {
        timers[i] = RLTimerCreate(soonest + 3600 * (double)rand() / RAND_MAX, 0, 0, 0, fire, NULL);
        RLAddTimer(RLGetCurrent(), timers[i], kRLDefaultMode);
    }
    unsigned random = 1;
    double begin = nanoseconds();
    for (long i = 0; i < operations; i++) {
        random = random * 1664525u + 1013904223u;
        RLTimerRef timer = timers[(random >> 8) % (unsigned long)live];
        RLRemoveTimer(RLGetCurrent(), timer, kRLDefaultMode);
        RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    }
    report("timer_remove_and_add", live, begin, operations);
    /* CoreFoundation would need an hour to take a million timers out; they end with the process. */
    if (is_slow && live > 100000) return;
    for (long i = 0; i < live; i++) {
        RLTimerInvalidate(timers[i]);
        RLRelease(timers[i]);
    }
    free(timers);
}

/* Two threads on one core: each signals and wakes the other's loop. */

static struct side {
    RLRunLoopRef loop;
    RLSourceRef source;
    long count;
} sides[2];
static long rounds;
static pthread_barrier_t ready;

static void answer(void *info) {
    struct side *own = info;
    struct side *other = &sides[own == &sides[0]];
    own->count++;
    if (own == &sides[0] && own->count == rounds) {
        RLStop(other->loop);
        RLStop(own->loop);
        return;
    }
    RLSourceSignal(other->source);
    RLWakeUp(other->loop);
}

static void *be_the_other_side(void *unused) {
    (void)unused;
    pin_to_first_core();
    sides[1].loop = RLGetCurrent();
    sides[1].source = add_source(answer, &sides[1]);
    pthread_barrier_wait(&ready);
    RLRunInMode(kRLDefaultMode, 1e9, false);
    drop_source(sides[1].source);
    return NULL;
}

static void measure_ping_pong(long count) {
    pthread_t thread;
    rounds = count;
    pin_to_first_core();
    pthread_barrier_init(&ready, NULL, 2);
    sides[0].loop = RLGetCurrent();
    sides[0].source = add_source(answer, &sides[0]);
    pthread_create(&thread, NULL, be_the_other_side, NULL);
    pthread_barrier_wait(&ready);
    double begin = nanoseconds();
    RLSourceSignal(sides[1].source);
    RLWakeUp(sides[1].loop);
    RLRun();
    report("ping_pong", 2, begin, count);
    pthread_join(thread, NULL);
    require(sides[0].count == count && sides[1].count == count, "a wake-up was lost");
    drop_source(sides[0].source);
}

int main(int argc, char **argv) {
    (void)argv;
    is_slow = argc > 1;
    measure_pass(0, is_slow ? 200000 : 2000000);
    measure_pass(100000, is_slow ? 20 : 2000000);
    measure_ping_pong(is_slow ? 20000 : 100000);
    measure_timers(10, is_slow ? 200000 : 2000000);
    measure_timers(10000, is_slow ? 5000 : 2000000);
    measure_timers(1000000, is_slow ? 20 : 2000000);
    return 0;
}
