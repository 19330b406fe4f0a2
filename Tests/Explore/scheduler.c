/* SPDX-License-Identifier: MIT */
/* Threads that run one at a time. Each access to shared memory or to the kernel is a point where the search decides who goes
 * next; whoever is not to go waits for the baton. The threads are the system's own: their keys, thread-local memory and ends are
 * real. */
#define _GNU_SOURCE
#include "explore.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread struct thread *self;
struct thread threads[MAX_THREADS];
struct run run;
static int thread_count;
static uint64_t sleep_order, turns;
static struct clocks fence;
static pthread_key_t end_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

long __real_syscall(long number, ...);
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __real_pthread_join(pthread_t, void **);

/* ---- the baton */

/* A thread to which the kernel switches when it is woken, as it mostly does, often gives the baton back before the waker has come to
 * its own sleep: then neither needs a call. */
enum { BATON_NONE, BATON_GIVEN, BATON_AWAITED };

static void hand_to(struct thread *next) {
    if (__atomic_exchange_n(&next->baton, BATON_GIVEN, __ATOMIC_SEQ_CST) == BATON_AWAITED)
        __real_syscall(SYS_futex, &next->baton, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

static void await_baton(void) {
    struct thread *me = self;
    uint32_t none = BATON_NONE;
    if (__atomic_compare_exchange_n(&me->baton, &none, BATON_AWAITED, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        while (__atomic_load_n(&me->baton, __ATOMIC_SEQ_CST) == BATON_AWAITED)
            __real_syscall(SYS_futex, &me->baton, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, BATON_AWAITED, NULL, NULL, 0);
    me->baton = BATON_NONE;
}

static void switch_to(struct thread *next) {
    if (next == self) return;
    int saved = errno;
    next->streak = 0;
    next->turn = ++turns;
    hand_to(next);
    await_baton();
    errno = saved;
}

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(shared->message, sizeof shared->message, format, arguments);
    va_end(arguments);
    shared->failed = true;
    /* The other threads stand where they stood. */
    _exit(1);
}

const char *thread_states(char *text, size_t size) {
    static const char *const names[] = {"none",          "ready",         "asleep in futex", "asleep in epoll",
                                        "asleep in poll", "waits for an end", "parked",      "ended"};
    size_t length = 0;
    text[0] = 0;
    for (int i = 1; i < MAX_THREADS && length < size; i++)
        if (threads[i].state != THREAD_NONE)
            length += (size_t)snprintf(text + length, size - length, "%s%s %s", length ? ", " : "", threads[i].name,
                                       names[threads[i].state]);
    return text;
}

/* ---- clocks of the threads */

static void join(struct clocks *into, const struct clocks *other) {
    for (int i = 0; i < MAX_THREADS; i++)
        if (other->of[i] > into->of[i]) into->of[i] = other->of[i];
}

void fence_clocks(void) {
    if (!self) return;
    join(&self->clocks, &fence);
    join(&fence, &self->clocks);
}

static void know_everything(void) {
    struct clocks all = {{0}};
    for (int i = 0; i < MAX_THREADS; i++) join(&all, &threads[i].clocks);
    for (int i = 0; i < MAX_THREADS; i++) threads[i].clocks = all;
    fence = all;
}

/* ---- who may go */

static bool is_enabled(struct thread *thread) {
    switch (thread->state) {
    case THREAD_READY: return true;
    case THREAD_FUTEX: return thread->roused;
    case THREAD_JOIN: return thread->joined->state == THREAD_DONE;
    case THREAD_EPOLL:
    case THREAD_POLL: return sleeper_is_ready(thread);
    default: return false;
    }
}

/* The one that has waited longest for a turn comes first. */
static int enabled_others(struct thread **list) {
    int count = 0;
    for (int i = 0; i < MAX_THREADS; i++) {
        struct thread *thread = &threads[i];
        if (thread == self || !is_enabled(thread)) continue;
        int place = count++;
        for (; place > 0 && list[place - 1]->turn > thread->turn; place--) list[place] = list[place - 1];
        list[place] = thread;
    }
    return count;
}

static uint16_t check_of(struct thread *thread, enum access kind, uint32_t line) {
    uint16_t check = (uint16_t)(thread->number * 4099u + kind * 257u + line * 31u);
    return check ? check : 1;
}

static void run_handler(void) {
    int saved = errno;
    run.handlers_left = 0;
    self->in_handler = true;
    note_step(ACCESS_NOTE, 0, 0, 0, 1, 0, "signal handler", 0);
    run.handler(run.handler_argument);
    note_step(ACCESS_NOTE, 0, 0, 0, 0, 0, "signal handler", 0);
    self->in_handler = false;
    errno = saved;
}

/* Whoever has to go on because the caller cannot. */
static struct thread *next_thread(bool must_leave) {
    for (;;) {
        struct thread *list[MAX_THREADS];
        int count = enabled_others(list);
        if (!must_leave && is_enabled(self)) list[count++] = self;
        if (count > 0) {
            if (!run.concurrent || count == 1) return list[0];
            struct option options[MAX_THREADS];
            for (int i = 0; i < count; i++)
                options[i] = (struct option){(uint16_t)(CHOICE_THREAD + list[i]->number), 0};
            return &threads[decide(check_of(self, ACCESS_NOTE, 1), options, count) - CHOICE_THREAD];
        }
        if (run.handlers_left > 0 && run.concurrent) {
            struct thread *target = run.handler_thread;
            if (target->state == THREAD_FUTEX || target->state == THREAD_EPOLL || target->state == THREAD_POLL) {
                /* Its sleep is interrupted; it runs the handler when it has the baton. */
                target->interrupted = true;
                target->state = THREAD_READY;
                return target;
            }
        }
        /* All sleep. Those who sleep until a time get it now. */
        struct thread *first = NULL;
        for (int i = 0; i < MAX_THREADS; i++) {
            struct thread *thread = &threads[i];
            bool sleeps = thread->state == THREAD_FUTEX || thread->state == THREAD_EPOLL || thread->state == THREAD_POLL;
            if (sleeps && thread->deadline != INT64_MAX && (!first || thread->deadline < first->deadline)) first = thread;
        }
        if (first) {
            if (first->deadline > run.now) run.now = first->deadline;
            first->timed_out = true;
            first->state = THREAD_READY;
            return first;
        }
        /* The scenario's threads have come to the end of the phase; those that the library made may sleep. */
        bool asleep = run.child || threads[0].state != THREAD_PARKED;
        for (int i = 1; i < MAX_THREADS; i++)
            if (threads[i].body && threads[i].state >= THREAD_FUTEX && threads[i].state <= THREAD_JOIN) asleep = true;
        if (!asleep) return &threads[0];
        char text[400];
        fail("nothing can run any more: %s", thread_states(text, sizeof text));
    }
}

void sleep_in(enum thread_state state, int64_t deadline) {
    struct thread *me = self;
    if (me->in_handler) fail("a signal handler sleeps");
    me->state = state;
    me->deadline = deadline;
    me->timed_out = me->interrupted = me->roused = false;
    me->order = ++sleep_order;
    struct thread *next = next_thread(false);
    switch_to(next);
    me->state = THREAD_READY;
    if (me->is_over) pthread_exit(NULL);
    if (me->interrupted) run_handler();
}

void time_passes(int64_t nanoseconds) {
    run.now += nanoseconds;
    for (int i = 0; i < MAX_THREADS; i++) {
        struct thread *thread = &threads[i];
        bool sleeps = thread->state == THREAD_FUTEX || thread->state == THREAD_EPOLL || thread->state == THREAD_POLL;
        if (!sleeps || thread->deadline > run.now) continue;
        thread->timed_out = true;
        thread->state = THREAD_READY;
    }
}

int futex_wake(uintptr_t address, int count, uint32_t bits) {
    int woken = 0;
    while (woken < count) {
        struct thread *first = NULL;
        for (int i = 0; i < MAX_THREADS; i++) {
            struct thread *thread = &threads[i];
            if (thread->state == THREAD_FUTEX && !thread->roused && thread->address == address && (thread->bits & bits) != 0 &&
                (!first || thread->order < first->order))
                first = thread;
        }
        if (!first) break;
        first->roused = true;
        woken++;
    }
    return woken;
}

static void count_step(void) {
    if (++run.steps > STEP_LIMIT) {
        char text[400];
        fail("no end after %d steps: %s", STEP_LIMIT, thread_states(text, sizeof text));
    }
}

void point(enum access kind, uintptr_t address, bool writes, const char *file, uint32_t line) {
    struct thread *me = self;
    if (!me || !run.scheduled) return;
    count_step();
    /* What the child of a fork learns is lost with it. */
    if (run.child) return;
    struct place *place = place_of(address, file, line);
    if (!run.concurrent) return;
    place_touch(place, me->in_handler ? ROLE_HANDLER : me->number, writes);
    if (me->in_handler) return;

    unsigned conflicts = place_conflicts(place, writes) & ~(1u << me->number);
    /* A thread may look again and again for what another is about to do: that one gets a turn. */
    struct thread *list[MAX_THREADS];
    if (++me->streak > LONGEST_STREAK && enabled_others(list) > 0) {
        me->streak = 0;
        switch_to(list[0]);
    }
    struct option options[MAX_THREADS + 2];
    int count = 0;
    options[count++] = (struct option){(uint16_t)(CHOICE_THREAD + me->number), 0};
    /* A given schedule is followed wherever it leads. */
    if (replayed) conflicts = ~0u;
    if (conflicts) {
        for (int i = 1; i < MAX_THREADS; i++) {
            struct thread *thread = &threads[(me->number + i) % MAX_THREADS];
            if (conflicts >> thread->number & 1 && is_enabled(thread))
                options[count++] = (struct option){(uint16_t)(CHOICE_THREAD + thread->number), 1};
        }
        if (run.handlers_left > 0 && run.handler_thread == me && conflicts >> ROLE_HANDLER & 1)
            options[count++] = (struct option){CHOICE_HANDLER, 1};
    }
    int choice = decide(check_of(me, kind, line), options, count);
    if (choice == CHOICE_HANDLER)
        run_handler();
    else if (choice != CHOICE_THREAD + me->number)
        switch_to(&threads[choice - CHOICE_THREAD]);
}

void rlx_pause(void) {
    struct thread *me = self;
    if (!me || !run.scheduled) return;
    count_step();
    if (me->in_handler) return;
    if (me->hurry > 0) {
        me->hurry--;
        return;
    }
    struct thread *list[MAX_THREADS];
    int others = enabled_others(list);
    if (others == 0) {
        /* It waits for time to go by. */
        run.now += 10000;
        return;
    }
    if (!run.concurrent) {
        switch_to(list[0]);
        return;
    }
    struct option options[MAX_THREADS + 1];
    int count = 0;
    for (int i = 0; i < others; i++)
        options[count++] = (struct option){(uint16_t)(CHOICE_THREAD + list[i]->number), (uint16_t)(i > 0)};
    options[count++] = (struct option){CHOICE_HURRY, 1};
    int choice = decide(check_of(me, ACCESS_PAUSE, 0), options, count);
    note_step(ACCESS_PAUSE, 0, 0, 0, 0, 0, "pause", 0);
    if (choice == CHOICE_HURRY) {
        me->hurry = 100;
        return;
    }
    switch_to(&threads[choice - CHOICE_THREAD]);
}

/* ---- threads' lives */

static void thread_is_done(struct thread *me) {
    me->state = THREAD_DONE;
    struct thread *next = next_thread(true);
    self = NULL;
    hand_to(next);
}

/* The last destructor of a thread's last round: after it no code of the library runs there. */
static void end_of_thread(void *argument) {
    struct thread *me = argument;
    if (++me->rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
        pthread_setspecific(end_key, me);
        return;
    }
    thread_is_done(me);
}

static void make_key(void) { pthread_key_create(&end_key, end_of_thread); }

static void *trampoline(void *argument) {
    self = argument;
    pthread_setspecific(end_key, self);
    await_baton();
    if (self->start)
        return self->result = self->start(self->argument);
    self->body(self->argument);
    return NULL;
}

static struct thread *new_thread(const char *name) {
    if (thread_count == MAX_THREADS) fail("too many threads");
    struct thread *thread = &threads[thread_count];
    /* A host of an execution before already awaits the baton, or is about to. */
    memset((char *)thread + sizeof thread->baton, 0, sizeof *thread - sizeof thread->baton);
    thread->number = (uint8_t)thread_count++;
    thread->name = name;
    thread->state = THREAD_READY;
    return thread;
}

/* A thread that the library does not know, because it makes no loop, serves all executions of its process: to make one takes longer
 * than most executions. */
static bool is_host[MAX_THREADS];

static void *host(void *argument) {
    self = argument;
    for (;;) {
        await_baton();
        self->body(self->argument);
        self->state = THREAD_DONE;
        hand_to(next_thread(true));
    }
    return NULL;
}

struct thread *thread_add(const char *name, void (*body)(void *), void *argument, bool stays) {
    struct thread *thread = new_thread(name);
    thread->state = THREAD_PARKED;
    thread->body = body;
    thread->argument = argument;
    if (is_host[thread->number]) return thread;
    is_host[thread->number] = stays;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    int error = __real_pthread_create(&thread->handle, &attributes, stays ? host : trampoline, thread);
    pthread_attr_destroy(&attributes);
    if (error) fail("pthread_create: %s", strerror(error));
    return thread;
}

int __wrap_pthread_create(pthread_t *handle, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    static const char *const names[] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};
    if (!self || !run.scheduled) return __real_pthread_create(handle, attributes, start, argument);
    /* Nobody would give it its turns: it would hold locks that the child's only thread sleeps for. */
    if (run.child) return EAGAIN;
    point(ACCESS_START, 8, true, "pthread_create", 0);
    struct thread *thread = new_thread(names[thread_count]);
    thread->start = start;
    thread->argument = argument;
    thread->clocks = self->clocks;
    int state = PTHREAD_CREATE_JOINABLE;
    if (attributes) pthread_attr_getdetachstate(attributes, &state);
    thread->is_detached = state == PTHREAD_CREATE_DETACHED;
    int error = __real_pthread_create(&thread->handle, attributes, trampoline, thread);
    if (error) thread->state = THREAD_NONE;
    *handle = thread->handle;
    return error;
}

int __wrap_pthread_join(pthread_t handle, void **result) {
    if (self && run.scheduled && !run.child) {
        for (int i = 1; i < thread_count; i++) {
            if (!pthread_equal(threads[i].handle, handle)) continue;
            point(ACCESS_JOIN, 8, true, "pthread_join", 0);
            self->joined = &threads[i];
            while (threads[i].state != THREAD_DONE) sleep_in(THREAD_JOIN, INT64_MAX);
            join(&self->clocks, &threads[i].clocks);
        }
    }
    return __real_pthread_join(handle, result);
}

/* ---- phases */

void run_begin(void) {
    pthread_once(&once, make_key);
    memset(&run, 0, sizeof run);
    memset(&fence, 0, sizeof fence);
    for (int i = 0; i < MAX_THREADS; i++) threads[i].state = THREAD_NONE;
    thread_count = 0;
    sleep_order = turns = 0;
    self = new_thread("main");
    run.now = run.begun = 100000000000000000; /* later than the real clock, so that timers of the kernel never fire */
    run.scheduled = true;
    memory_begin();
}

void run_alone(struct thread *thread) {
    threads[0].state = THREAD_PARKED;
    thread->state = THREAD_READY;
    switch_to(thread);
    threads[0].state = THREAD_READY;
}

void park(void) {
    self->state = THREAD_PARKED;
    struct thread *next = next_thread(true);
    switch_to(next);
}

void run_together(void) {
    know_everything();
    memory_forget_history();
    threads[0].state = THREAD_PARKED;
    struct thread *list[MAX_THREADS];
    struct option options[MAX_THREADS];
    int count = 0;
    for (int i = 1; i < thread_count; i++) {
        if (threads[i].state != THREAD_PARKED) continue;
        threads[i].state = THREAD_READY;
        options[count] = (struct option){(uint16_t)(CHOICE_THREAD + i), 0};
        list[count++] = &threads[i];
    }
    if (count == 0) return;
    (void)list;
    run.concurrent = true;
    switch_to(&threads[decide(1, options, count) - CHOICE_THREAD]);
    run.concurrent = false;
    know_everything();
    memory_forget_history();
    threads[0].state = THREAD_READY;
}

/* In Core/ForgetThreads.swift. */
void rlx_forget_threads(void);

void run_join_all(void) {
    /* One that the last releases have roused comes to its end, if it has one. */
    for (int i = 1; i < thread_count; i++)
        if (threads[i].is_detached && is_enabled(&threads[i])) run_alone(&threads[i]);
    /* A thread of the library's that serves the process sleeps for ever: it is ended, and the next execution makes another. */
    for (int i = 1; i < thread_count; i++) {
        if (!threads[i].is_detached || (threads[i].state != THREAD_FUTEX && threads[i].state != THREAD_POLL)) continue;
        threads[i].is_over = true;
        run_alone(&threads[i]);
        rlx_forget_threads();
    }
    for (int i = 1; i < thread_count; i++)
        if (threads[i].start && threads[i].state != THREAD_DONE && threads[i].state != THREAD_NONE)
            fail("a thread that the library made is still there at the end");
    for (int i = 1; i < thread_count; i++)
        if (!threads[i].start && !is_host[i] && threads[i].state == THREAD_DONE) __real_pthread_join(threads[i].handle, NULL);
    run.scheduled = false;
    self = NULL;
}
