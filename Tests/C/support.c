/* SPDX-License-Identifier: MIT */
/* The trace and the probes of support.h. */
#include "support.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The trace */

static pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER;
static char trace_buffer[1 << 20];
static size_t trace_length;

void trace(const char *format, ...) {
    char word[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(word, sizeof word, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&trace_lock);
    size_t length = strlen(word);
    /* A trace that overflows belongs to a loop that spins: better end it than truncate it. */
    if (trace_length + length + 2 > sizeof trace_buffer) {
        pthread_mutex_unlock(&trace_lock);
        ck_abort_msg("the trace overflowed at \"%s\"", word);
    }
    if (trace_length > 0) trace_buffer[trace_length++] = ' ';
    memcpy(trace_buffer + trace_length, word, length + 1);
    trace_length += length;
    pthread_mutex_unlock(&trace_lock);
}

/* What a thread took last, which its end frees. */
static pthread_key_t taken_key;
static void make_taken_key(void) { pthread_key_create(&taken_key, free); }

const char *trace_take(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_taken_key);
    free(pthread_getspecific(taken_key));
    pthread_mutex_lock(&trace_lock);
    char *taken = strdup(trace_length > 0 ? trace_buffer : "");
    trace_length = 0;
    pthread_mutex_unlock(&trace_lock);
    pthread_setspecific(taken_key, taken);
    return taken;
}

int trace_count(const char *word) {
    int count = 0;
    size_t length = strlen(word);
    pthread_mutex_lock(&trace_lock);
    trace_buffer[trace_length] = '\0';
    for (const char *at = trace_buffer; (at = strstr(at, word)) != NULL; at += length) {
        bool starts = at == trace_buffer || at[-1] == ' ';
        bool ends = at[length] == '\0' || at[length] == ' ';
        if (starts && ends) count++;
    }
    pthread_mutex_unlock(&trace_lock);
    return count;
}

/* Runs */

const char *result_name(RLRunResult result) {
    switch ((int)result) {
        case kRLRunFinished: return "Finished";
        case kRLRunStopped: return "Stopped";
        case kRLRunTimedOut: return "TimedOut";
        case kRLRunHandledSource: return "HandledSource";
        default: return "an unknown result";
    }
}

const char *activity_name(RLActivity activity) {
    switch ((RLOptionFlags)activity) {
        case kRLEntry: return "E";
        case kRLBeforeTimers: return "BT";
        case kRLBeforeSources: return "BS";
        case kRLBeforeWaiting: return "BW";
        case kRLAfterWaiting: return "AW";
        case kRLExit: return "X";
        default: return "an-unknown-activity";
    }
}

void expect_run_to_wait(RLMode mode) {
    RLRunLoopRef loop = RLGetCurrent();
    Thread *thread = when_waiting(loop, call_stop, loop);
    expect_run(mode, INFINITY, false, Stopped);
    thread_join(thread);
}

/* Probes */

/* Keeps what a case created and did not release reachable for the leak checker. */
static void remember(RLTypeRef object) {
    static RLTypeRef created[1 << 16];
    static size_t number;
    ck_assert_ptr_nonnull(object);
    size_t at = __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED);
    if (at < sizeof created / sizeof created[0]) created[at] = object;
}

int count_of(const int *counter) { return __atomic_load_n(counter, __ATOMIC_SEQ_CST); }

static void count(int *counter) { __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST); }

/* A source that is added by one thread may be performed by another, for an earlier signal, before the first is told of it. */
static void note_thread(Probe *probe) { __atomic_store_n(&probe->thread, pthread_self(), __ATOMIC_RELAXED); }

static void probe_call(void *info) {
    Probe *probe = info;
    note_thread(probe);
    if (probe->name) trace("%s", probe->name);
    count(&probe->calls);
    if (probe->action) probe->action(probe);
}

static void probe_call_timer(RLTimerRef timer, void *info) {
    (void)timer;
    probe_call(info);
}

static void probe_call_observer(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    ((Probe *)info)->activity = activity;
    probe_call(info);
}

static const void *probe_retain(const void *info) {
    count(&((Probe *)info)->retains);
    return info;
}

static void probe_release(const void *info) { count(&((Probe *)info)->releases); }

static void probe_release_performed(void *info) { probe_release(info); }

static void probe_schedule(void *info, RLRunLoopRef loop, RLMode mode) {
    Probe *probe = info;
    (void)loop;
    note_thread(probe);
    if (probe->traced) trace("+%s:%s", probe->name, mode);
    count(&probe->schedules);
}

static void probe_cancel(void *info, RLRunLoopRef loop, RLMode mode) {
    Probe *probe = info;
    (void)loop;
    note_thread(probe);
    if (probe->traced) trace("-%s:%s", probe->name, mode);
    count(&probe->cancels);
}

static RLPort probe_get_port(void *info) { return ((Probe *)info)->fd; }

RLSourceRef probe_source(Probe *probe, RLIndex order) {
    RLSourceContext context = {0};
    context.info = probe;
    context.retain = probe->counted ? probe_retain : NULL;
    context.release = probe->counted ? probe_release : NULL;
    context.schedule = probe_schedule;
    context.cancel = probe_cancel;
    context.perform = probe_call;
    probe->loop = RLGetCurrent();
    probe->source = RLSourceCreate(order, &context);
    remember(probe->source);
    return probe->source;
}

RLSourceRef probe_port(Probe *probe, int fd) {
    RLSourceContext1 context = {0};
    context.version = 1;
    context.info = probe;
    context.retain = probe->counted ? probe_retain : NULL;
    context.release = probe->counted ? probe_release : NULL;
    context.getPort = probe_get_port;
    context.perform = probe_call;
    probe->fd = fd;
    probe->loop = RLGetCurrent();
    probe->source = RLSourceCreate(0, (RLSourceContext *)&context);
    remember(probe->source);
    return probe->source;
}

RLTimerRef probe_timer(Probe *probe, RLAbsoluteTime date, RLTimeInterval interval) {
    RLTimerContext context = {0};
    context.info = probe;
    context.retain = probe->counted ? probe_retain : NULL;
    context.release = probe->counted ? probe_release : NULL;
    probe->loop = RLGetCurrent();
    probe->timer = RLTimerCreate(date, interval, 0, 0, probe_call_timer, &context);
    remember(probe->timer);
    return probe->timer;
}

RLObserverRef probe_observer(Probe *probe, RLOptionFlags activities, bool repeats, RLIndex order) {
    RLObserverContext context = {0};
    context.info = probe;
    context.retain = probe->counted ? probe_retain : NULL;
    context.release = probe->counted ? probe_release : NULL;
    probe->loop = RLGetCurrent();
    probe->observer = RLObserverCreate(activities, repeats, order, probe_call_observer, &context);
    remember(probe->observer);
    return probe->observer;
}

void probe_perform(Probe *probe, RLRunLoopRef loop, RLMode mode) {
    probe->loop = loop;
    RLPerformFunction(loop, mode, probe_call, probe, probe_release_performed);
}

void probe_perform_in_modes(Probe *probe, RLRunLoopRef loop, const RLMode *modes, RLIndex number) {
    probe->loop = loop;
    RLPerformFunctionInModes(loop, modes, number, probe_call, probe, probe_release_performed);
}

void action_stop(Probe *self) { RLStop(self->loop); }

void action_wake_up(Probe *self) { RLWakeUp(self->loop); }

void action_take_time(Probe *self) { take_time((double)self->value / 1000); }

RLSourceRef add_source(Probe *probe, RLMode mode) {
    RLAddSource(RLGetCurrent(), probe_source(probe, 0), mode);
    RLRelease(probe->source);
    return probe->source;
}

RLSourceRef add_port(Probe *probe, int fd, RLMode mode) {
    RLAddSource(RLGetCurrent(), probe_port(probe, fd), mode);
    RLRelease(probe->source);
    return probe->source;
}

RLTimerRef add_timer(Probe *probe, RLAbsoluteTime date, RLTimeInterval interval, RLMode mode) {
    RLAddTimer(RLGetCurrent(), probe_timer(probe, date, interval), mode);
    RLRelease(probe->timer);
    return probe->timer;
}

RLObserverRef add_observer(Probe *probe, RLOptionFlags activities, RLMode mode) {
    RLAddObserver(RLGetCurrent(), probe_observer(probe, activities, true, 0), mode);
    RLRelease(probe->observer);
    return probe->observer;
}

static void record_activity(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    trace("%s%s", (const char *)info, activity_name(activity));
}

RLObserverRef observe_as(RLRunLoopRef loop, RLMode mode, const char *prefix) {
    RLObserverContext context = {0};
    context.info = (void *)prefix;
    RLObserverRef observer = RLObserverCreate(kRLAllActivities, true, 0, record_activity, &context);
    ck_assert_ptr_nonnull(observer);
    RLAddObserver(loop, observer, mode);
    RLRelease(observer);
    return observer;
}

RLObserverRef observe(RLRunLoopRef loop, RLMode mode) { return observe_as(loop, mode, ""); }

RLSourceRef keep_alive(RLRunLoopRef loop, RLMode mode) {
    RLSourceContext context = {0};
    RLSourceRef source = RLSourceCreate(0, &context);
    ck_assert_ptr_nonnull(source);
    RLAddSource(loop, source, mode);
    RLRelease(source);
    return source;
}
