/* SPDX-License-Identifier: MIT */
/* Two loops fire timers while three threads, and the timers' own callbacks, add, remove, reschedule,
   invalidate and release the same ones and carry them from loop to loop: no timer is freed while
   somebody has it, and the context of each is released exactly once: S-TMR-13, S-TMR-25, S-TMR-42,
   S-TMR-44, S-TMR-48. */
#include "stress.h"

#include <check.h>
#include <stdlib.h>

enum { slot_count = 64, worker_count = 3, loop_count = 2 };

/* One timer of many; its memory is that of the context. */
struct item {
    atomic_bool is_alive;
};

static struct slot {
    pthread_mutex_t mutex;
    RLTimerRef timer; /* with a reference */
} slots[slot_count];

static struct {
    RLRunLoopRef loop;
    pthread_t thread;
    sem_t ready;
} loops[loop_count];

static RLMode modes[] = {"a", "b"};
static atomic_ulong made, released, fired;
static atomic_bool finished;
static _Thread_local uint64_t state;

static unsigned draw(unsigned bound) { return stress_random(&state) % bound; }
static RLRunLoopRef any_loop(void) { return loops[draw(loop_count)].loop; }
static RLMode any_mode(void) { return modes[draw(2)]; }
static RLAbsoluteTime in_microseconds(long count) {
    return RLAbsoluteTimeGetCurrent() + (double)count * 1e-6;
}

static void release_item(const void *info) {
    struct item *item = (struct item *)(uintptr_t)info;
    MUST(atomic_exchange(&item->is_alive, false));
    free(item);
    atomic_fetch_add(&released, 1);
}

static void fire(RLTimerRef timer, void *info) {
    MUST(atomic_load(&((struct item *)info)->is_alive));
    atomic_fetch_add_explicit(&fired, 1, memory_order_relaxed);
    stress_progress();
    switch (draw(8)) {
    case 0: RLTimerInvalidate(timer); break;
    case 1:
        RLRemoveTimer(RLGetCurrent(), timer, "a");
        RLAddTimer(any_loop(), timer, any_mode());
        break;
    case 2: RLTimerSetNextFireDate(timer, in_microseconds(draw(3) * 1000)); break;
    case 3:
        RLRetain(timer);
        sched_yield();
        RLRelease(timer);
        break;
    default: break;
    }
}

/* Puts a new timer in the place of the slot's, which it releases. */
static void replace(struct slot *slot) {
    struct item *item = malloc(sizeof *item);
    atomic_init(&item->is_alive, true);
    RLTimerContext context = {.info = item, .release = release_item};
    RLTimerRef timer = RLTimerCreate(in_microseconds((long)draw(4) * 1000 - 1000), draw(2) ? 0.002 : 0, 0, 0,
                                     fire, &context);
    atomic_fetch_add(&made, 1);
    RLRetain(timer);
    pthread_mutex_lock(&slot->mutex);
    RLTimerRef old = slot->timer;
    slot->timer = timer;
    pthread_mutex_unlock(&slot->mutex);
    RLAddTimer(any_loop(), timer, any_mode());
    RLRelease(timer);
    if (old == NULL) return;
    if (draw(2)) RLTimerInvalidate(old);
    RLRelease(old);
}

static void disturb(RLTimerRef timer) {
    RLRunLoopRef loop = any_loop();
    RLMode mode = draw(5) ? any_mode() : kRLCommonModes;
    switch (draw(7)) {
    case 0:
    case 1: RLAddTimer(loop, timer, mode); break;
    case 2:
    case 3: RLRemoveTimer(loop, timer, mode); break;
    case 4: RLTimerSetNextFireDate(timer, in_microseconds(draw(5) * 700)); break;
    case 5: RLTimerInvalidate(timer); break;
    default:
        RLGetNextTimerFireDate(loop, any_mode());
        RLContainsTimer(loop, timer, mode);
    }
}

static void *work(void *number) {
    state = 7 + (uintptr_t)number;
    for (unsigned long i = stress_count(2000000); i > 0; i--) {
        struct slot *slot = &slots[draw(slot_count)];
        stress_progress();
        pthread_mutex_lock(&slot->mutex);
        RLTimerRef timer = slot->timer;
        if (timer != NULL) RLRetain(timer);
        pthread_mutex_unlock(&slot->mutex);
        if (timer == NULL || draw(6) == 0) replace(slot);
        else disturb(timer);
        if (timer != NULL) RLRelease(timer);
    }
    return NULL;
}

/* Both modes keep a timer of the far future, so that none is ever empty. */
static void *run_in_turns(void *info) {
    size_t index = (size_t)(uintptr_t)info;
    state = 99 + index;
    RLRunLoopRef loop = (RLRunLoopRef)RLRetain(RLGetCurrent());
    loops[index].loop = loop;
    RLAddCommonMode(loop, "b");
    RLTimerRef keep = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 1e6, 0, 0, 0, NULL, NULL);
    RLAddTimer(loop, keep, "a");
    RLAddTimer(loop, keep, "b");
    sem_post(&loops[index].ready);
    while (!atomic_load(&finished)) RLRunInMode(any_mode(), 0.001, false);
    RLTimerInvalidate(keep);
    RLRelease(keep);
    return NULL;
}

START_TEST(timers_in_many_hands) {
    pthread_t workers[worker_count];
    for (size_t i = 0; i < slot_count; i++) pthread_mutex_init(&slots[i].mutex, NULL);
    for (size_t i = 0; i < loop_count; i++) {
        sem_init(&loops[i].ready, 0, 0);
        stress_thread_start(&loops[i].thread, run_in_turns, (void *)(uintptr_t)i);
    }
    for (size_t i = 0; i < loop_count; i++) sem_wait(&loops[i].ready);
    stress_watchdog_start(NULL);
    for (size_t i = 0; i < worker_count; i++) stress_thread_start(&workers[i], work, (void *)(uintptr_t)i);
    for (size_t i = 0; i < worker_count; i++) stress_thread_join(workers[i]);
    for (size_t i = 0; i < slot_count; i++)
        if (slots[i].timer != NULL) RLRelease(slots[i].timer);
    atomic_store(&finished, true);
    for (size_t i = 0; i < loop_count; i++) stress_thread_join(loops[i].thread);
    for (size_t i = 0; i < loop_count; i++) RLRelease(loops[i].loop);
    stress_watchdog_stop();
    ck_assert_uint_gt(atomic_load(&fired), 0);
    ck_assert_uint_eq(atomic_load(&released), atomic_load(&made));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("timers");
    TCase *tests = tcase_create("timers_in_many_hands");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, timers_in_many_hands);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
