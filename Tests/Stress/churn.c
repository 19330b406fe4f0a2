/* SPDX-License-Identifier: MIT */
/* Four threads make, add, signal, move, remove, invalidate and release sources, port sources,
   timers and observers of two running loops, and hand each other items that the giver goes on
   using. No callback sees a released context, every addition has its removal, every context is
   released: S-THR-1, S-THR-2, S-THR-5, S-THR-8, S-SRC-10, S-SRC-14, S-SRC-15, S-SRC-18, S-SRC-19,
   S-TMR-42, S-TMR-44, S-TMR-48, S-OBS-15, S-OBS-16, S-REF-3. */
#include "stress.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { churner_count = 4, slot_count = 16 };
enum kind { SOURCE, PORT, TIMER, OBSERVER, kind_count };

/* What the context of an item points at. It stays in memory to the end of the test, so that a
   callback that comes too late is seen. */
struct subject {
    struct subject *next;
    enum kind kind;
    int fd;
    atomic_int references;
    atomic_long scheduled;
    atomic_ulong calls;
};

struct churner {
    struct subject *subjects;
    uint64_t state;
    unsigned long made;
    pthread_t thread;
};

static struct churner churners[churner_count];
static struct stress_loop loops[2];
static _Atomic(RLTypeRef) slots[kind_count][slot_count];
static atomic_ulong calls[kind_count];
static unsigned long rounds;

static void report(void) {
    for (unsigned i = 0; i < churner_count; i++) fprintf(stderr, "churner %u: made %lu\n", i, churners[i].made);
    for (unsigned i = 0; i < 2; i++) fprintf(stderr, "loop %u: waiting %d\n", i, RLIsWaiting(loops[i].loop));
}

static struct subject *alive(const void *info) {
    struct subject *subject = (struct subject *)info;
    MUST_BE(atomic_load(&subject->references), >, 0);
    return subject;
}

static const void *subject_retain(const void *info) {
    atomic_fetch_add(&((struct subject *)info)->references, 1);
    return info;
}

static void subject_release(const void *info) {
    struct subject *subject = alive(info);
    if (atomic_fetch_sub(&subject->references, 1) == 1 && subject->kind == PORT) close(subject->fd);
}

static struct subject *called(const void *info) {
    struct subject *subject = alive(info);
    MUST(RLGetCurrent() == loops[0].loop || RLGetCurrent() == loops[1].loop);
    atomic_fetch_add_explicit(&subject->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&calls[subject->kind], 1, memory_order_relaxed);
    return subject;
}

static void schedule(void *info, RLRunLoopRef loop, RLMode mode) {
    MUST(loop != NULL && mode != NULL);
    atomic_fetch_add(&alive(info)->scheduled, 1);
}

static void cancel(void *info, RLRunLoopRef loop, RLMode mode) {
    MUST(loop != NULL && mode != NULL);
    atomic_fetch_sub(&alive(info)->scheduled, 1);
}

static RLPort port_of(void *info) { return alive(info)->fd; }
static void perform(void *info) { called(info); }

static void fire(RLTimerRef timer, void *info) {
    if (atomic_load(&called(info)->calls) % 4 == 0) RLTimerInvalidate(timer);
    alive(info);
}

static void observe(RLObserverRef observer, RLActivity activity, void *info) {
    MUST(activity != 0 && (activity & (activity - 1)) == 0);
    if (atomic_load(&called(info)->calls) % 8 == 0) RLObserverInvalidate(observer);
}

static RLTypeRef make(struct churner *churner, enum kind kind) {
    struct subject *subject = calloc(1, sizeof *subject);
    uint32_t random = stress_random(&churner->state);
    MUST(subject != NULL);
    subject->kind = kind;
    subject->fd = kind == PORT ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    subject->next = churner->subjects;
    churner->subjects = subject;
    churner->made++;
    if (kind == SOURCE) {
        RLSourceContext context = {.info = subject, .retain = subject_retain, .release = subject_release,
                                   .schedule = schedule, .cancel = cancel, .perform = perform};
        return RLSourceCreate((RLIndex)(random % 3), &context);
    }
    if (kind == PORT) {
        RLSourceContext1 context = {.version = 1, .info = subject, .retain = subject_retain,
                                    .release = subject_release, .getPort = port_of, .perform = perform};
        return RLSourceCreate(0, (RLSourceContext *)&context);
    }
    if (kind == TIMER) {
        RLTimerContext context = {.info = subject, .retain = subject_retain, .release = subject_release};
        return RLTimerCreate(RLAbsoluteTimeGetCurrent() + random % 2048 * 1e-6, random % 2 ? 0.0005 : 0, 0, 0, fire,
                             &context);
    }
    RLObserverContext context = {.info = subject, .retain = subject_retain, .release = subject_release};
    return RLObserverCreate(kRLAllActivities, random % 2, (RLIndex)(random % 3), observe, &context);
}

static void add_or_remove(enum kind kind, bool add, RLRunLoopRef loop, RLTypeRef item, RLMode mode) {
    if (kind == TIMER)
        (add ? RLAddTimer : RLRemoveTimer)(loop, (RLTimerRef)item, mode);
    else if (kind == OBSERVER)
        (add ? RLAddObserver : RLRemoveObserver)(loop, (RLObserverRef)item, mode);
    else
        (add ? RLAddSource : RLRemoveSource)(loop, (RLSourceRef)item, mode);
}

static void invalidate(enum kind kind, RLTypeRef item) {
    if (kind == TIMER) RLTimerInvalidate((RLTimerRef)item);
    else if (kind == OBSERVER) RLObserverInvalidate((RLObserverRef)item);
    else RLSourceInvalidate((RLSourceRef)item);
}

static void excite(struct churner *churner, enum kind kind, RLRunLoopRef loop, RLTypeRef item) {
    if (kind == SOURCE) {
        RLSourceSignal((RLSourceRef)item);
    } else if (kind == PORT) {
        RLSourceContext1 context = {.version = 1};
        uint64_t one = 1;
        RLSourceGetContext((RLSourceRef)item, (RLSourceContext *)&context);
        ssize_t written = write(alive(context.info)->fd, &one, sizeof one);
        (void)written;
    } else if (kind == TIMER) {
        RLTimerSetNextFireDate((RLTimerRef)item,
                               RLAbsoluteTimeGetCurrent() + stress_random(&churner->state) % 512 * 1e-6);
    }
    if (stress_random(&churner->state) % 2) RLWakeUp(loop);
}

/* Whether a callback of each kind has been called: on a busy machine few rounds can be over before a loop's thread has had its turn. */
static bool was_each_called(void) {
    for (enum kind kind = 0; kind < kind_count; kind++)
        if (atomic_load(&calls[kind]) == 0) return false;
    return true;
}

static void *churn(void *info) {
    static const RLMode modes[4] = {"kCFRunLoopDefaultMode", "kCFRunLoopCommonModes", "kCFRunLoopDefaultMode", "other"};
    struct churner *churner = info;
    for (unsigned long round = 0; round < rounds || (round < 100 * rounds && !was_each_called()); round++) {
        enum kind kind = stress_random(&churner->state) % kind_count;
        RLTypeRef item = make(churner, kind);
        MUST(item != NULL);
        /* Another thread takes the item over while this one goes on with it, and the other way
           round. */
        if (stress_random(&churner->state) % 2) {
            unsigned slot = stress_random(&churner->state) % slot_count;
            RLTypeRef other = atomic_exchange(&slots[kind][slot], RLRetain(item));
            if (other != NULL) {
                RLRelease(item);
                item = other;
            }
        }
        unsigned steps = 1 + stress_random(&churner->state) % 6;
        for (unsigned step = 0; step < steps; step++) {
            RLRunLoopRef loop = loops[stress_random(&churner->state) % 2].loop;
            RLMode mode = modes[stress_random(&churner->state) % 4];
            switch (stress_random(&churner->state) % 4) {
            case 0: add_or_remove(kind, false, loop, item, mode); break;
            case 1: excite(churner, kind, loop, item); break;
            default: add_or_remove(kind, true, loop, item, mode);
            }
        }
        /* A few stay where they are, for the threads' ends to clean up. */
        if (stress_random(&churner->state) % 512 != 0) invalidate(kind, item);
        RLRelease(item);
        stress_progress();
    }
    return NULL;
}

START_TEST(items_of_all_kinds_from_four_threads) {
    unsigned long released = 0, made = 0;
    rounds = stress_count(20000);
    /* kRLDefaultMode's text stands in a table above; the names must not drift apart (S-MODE-1). */
    ck_assert_str_eq(kRLDefaultMode, "kCFRunLoopDefaultMode");
    ck_assert_str_eq(kRLCommonModes, "kCFRunLoopCommonModes");
    stress_loop_start(&loops[0], SLEEP_ON_FUTEX);
    stress_loop_start(&loops[1], SLEEP_IN_EPOLL);
    stress_watchdog_start(report);
    for (unsigned i = 0; i < churner_count; i++) churners[i].state = 1000 + i;
    for (unsigned i = 0; i < churner_count; i++) stress_thread_start(&churners[i].thread, churn, &churners[i]);
    for (unsigned i = 0; i < churner_count; i++) stress_thread_join(churners[i].thread);
    for (enum kind kind = 0; kind < kind_count; kind++) {
        for (unsigned slot = 0; slot < slot_count; slot++) {
            RLTypeRef item = atomic_exchange(&slots[kind][slot], NULL);
            if (item != NULL) invalidate(kind, item);
            RLRelease(item);
        }
    }
    for (unsigned i = 0; i < 2; i++) RLStop(loops[i].loop);
    for (unsigned i = 0; i < 2; i++) stress_loop_join(&loops[i]);
    stress_watchdog_stop();
    for (unsigned i = 0; i < churner_count; i++) {
        made += churners[i].made;
        while (churners[i].subjects != NULL) {
            struct subject *subject = churners[i].subjects;
            ck_assert_int_eq(atomic_load(&subject->references), 0);
            ck_assert_int_eq(atomic_load(&subject->scheduled), 0);
            churners[i].subjects = subject->next;
            free(subject);
            released++;
        }
    }
    ck_assert_uint_eq(released, made);
    ck_assert(was_each_called());
}
END_TEST

int main(void) {
    Suite *suite = suite_create("churn");
    TCase *tests = tcase_create("other_threads_change_running_loops");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, items_of_all_kinds_from_four_threads);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
