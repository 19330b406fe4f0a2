/* SPDX-License-Identifier: MIT */
/*
 * Runs the cases with n objects and with eight times as many, each on a new thread, and has callgrind write down what
 * the counted parts cost. `growth` compares.
 *
 * usage: growth-program [CASE...]     --list lists the cases
 */
#define _GNU_SOURCE
#include "growth.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <valgrind/callgrind.h>

enum { FEW = 2000, FACTOR = 8 };

static Case *cases;
static Case *now;
static long size;
RLRunLoopRef own;
long calls;
RLTypeRef kept[KEPT + 1];

void case_register(Case *the_case) {
    the_case->next = cases;
    cases = the_case;
}

void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "growth: %s with %ld: %s\n", now->name, size, what);
    exit(1);
}

/* What is not counted runs without callgrind's own code in it, several times as fast. */
void counted(void) {
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

void counted_end(void) {
    char label[100];
    snprintf(label, sizeof label, "%s %s %ld", now->name, now->kind == EACH ? "each" : "idle", size);
    CALLGRIND_DUMP_STATS_AT(label);
    CALLGRIND_STOP_INSTRUMENTATION;
}

void count_call(void *info) {
    (void)info;
    calls++;
}

void release_kept(long n) {
    for (long i = 0; i < n; i++) {
        RLRelease(kept[i]);
        kept[i] = NULL;
    }
}

RLSourceRef make_source(void (*perform)(void *), void *info) {
    RLSourceContext context = {0};
    context.info = info;
    context.perform = perform;
    return RLSourceCreate(0, &context);
}

static void count_timer(RLTimerRef timer, void *info) {
    (void)timer;
    (void)info;
    calls++;
}

RLTimerRef make_timer(double date, double interval, RLTimerCallBack fire) {
    return RLTimerCreate(date, interval, 0, 0, fire != NULL ? fire : count_timer, NULL);
}

static void count_observer(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    (void)activity;
    (void)info;
    calls++;
}

RLObserverRef make_observer(RLOptionFlags activities, bool repeats, RLIndex order, RLObserverCallBack callback) {
    return RLObserverCreate(activities, repeats, order, callback != NULL ? callback : count_observer, NULL);
}

RLMode mode_name(long index) {
    static __thread char name[32];
    snprintf(name, sizeof name, "mode %ld", index);
    return name;
}

static RLSourceRef pass_source;
static long passes_left;
static void (*pass_each)(void);

static void pass_again(void *info) {
    (void)info;
    if (pass_each != NULL) pass_each();
    if (--passes_left > 0)
        RLSourceSignal(pass_source);
    else
        RLStop(RLGetCurrent());
}

void passes(RLMode mode, long count, void (*each)(void)) {
    pass_source = make_source(pass_again, &passes_left);
    passes_left = count;
    pass_each = each;
    RLAddSource(RLGetCurrent(), pass_source, mode);
    RLSourceSignal(pass_source);
    RLRunInMode(mode, 1000, false);
    require(passes_left == 0, "the passes did not end");
    RLSourceInvalidate(pass_source);
    RLRelease(pass_source);
}

static void *run_case(void *unused) {
    own = RLGetCurrent();
    calls = 0;
    now->body(size);
    return unused;
}

static void run(Case *the_case, long n) {
    now = the_case;
    size = n / the_case->divisor;
    pthread_t thread;
    require(pthread_create(&thread, NULL, run_case, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
}

int main(int count, char **arguments) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    for (Case *each = cases; each != NULL; each = each->next) {
        if (count > 1 && strcmp(arguments[1], "--list") == 0) {
            puts(each->name);
            continue;
        }
        bool isMeant = count <= 1;
        for (int i = 1; i < count; i++)
            if (strcmp(arguments[i], each->name) == 0) isMeant = true;
        if (!isMeant) continue;
        run(each, FEW);
        run(each, FEW * FACTOR);
    }
    return 0;
}
