/* SPDX-License-Identifier: MIT */
/*
 * Timers in modes and loops, and the end of a timer: invalidation, context and references. The
 * probes are static, because what is left in a loop outlives the case that put it there.
 */
#define _GNU_SOURCE
#include "support.h"

#include <sched.h>
#include <string.h>
#include <time.h>

/* Membership */

static Gate leave = GATE_INITIALIZER;
static void wait_to_leave(LoopThread *self) {
    (void)self;
    gate_wait(&leave);
}

RL_TEST(a_timer_belongs_to_one_loop, "S-TMR-13 S-TMR-16",
        "Adding a timer to a second loop is ignored, and Contains is false there") {
    static Probe probe = {0};
    LoopThread other = {0};
    loop_thread_start(&other, wait_to_leave, NULL);
    add_timer(&probe, FAR_FUTURE, 0, kRLDefaultMode);
    RLAddTimer(other.loop, probe.timer, kRLDefaultMode);
    RLAddTimer(other.loop, probe.timer, kRLCommonModes);
    ck_assert(RLContainsTimer(probe.loop, probe.timer, kRLDefaultMode));
    ck_assert(!RLContainsTimer(other.loop, probe.timer, kRLDefaultMode));
    ck_assert(!RLContainsTimer(other.loop, probe.timer, kRLCommonModes));
    ck_assert_double_eq(RLGetNextTimerFireDate(other.loop, kRLDefaultMode), 0);
    RLRemoveTimer(other.loop, probe.timer, kRLDefaultMode);
    ck_assert(RLContainsTimer(probe.loop, probe.timer, kRLDefaultMode));
    gate_open(&leave);
    thread_join(other.thread);
}

RL_TEST(a_removed_timer_is_free_for_any_loop, "S-TMR-14",
        "Once out of its last mode a timer may be added to another loop") {
    static Probe probe = {0};
    LoopThread other = {0};
    loop_thread_start(&other, wait_to_leave, NULL);
    RLTimerRef timer = probe_timer(&probe, FAR_FUTURE, 0);
    RLAddTimer(probe.loop, timer, "one");
    RLAddTimer(probe.loop, timer, "two");
    RLRemoveTimer(probe.loop, timer, "one");
    RLAddTimer(other.loop, timer, kRLDefaultMode);
    ck_assert(!RLContainsTimer(other.loop, timer, kRLDefaultMode));
    RLRemoveTimer(probe.loop, timer, "two");
    RLAddTimer(other.loop, timer, kRLDefaultMode);
    ck_assert(RLContainsTimer(other.loop, timer, kRLDefaultMode));
    RLAddTimer(probe.loop, timer, "one");
    ck_assert(!RLContainsTimer(probe.loop, timer, "one"));
    gate_open(&leave);
    thread_join(other.thread);
    RLRelease(timer);
}

RL_TEST(a_common_timer_is_not_free, "S-TMR-14 S-MODE-26",
        "A timer that is in no mode but still a common item cannot join another loop") {
    static Probe probe = {0};
    LoopThread other = {0};
    loop_thread_start(&other, wait_to_leave, NULL);
    RLTimerRef timer = probe_timer(&probe, FAR_FUTURE, 0);
    RLAddTimer(probe.loop, timer, kRLCommonModes);
    RLRemoveTimer(probe.loop, timer, kRLDefaultMode);
    ck_assert(RLContainsTimer(probe.loop, timer, kRLCommonModes));
    RLAddTimer(other.loop, timer, kRLDefaultMode);
    ck_assert(!RLContainsTimer(other.loop, timer, kRLDefaultMode));
    RLRemoveTimer(probe.loop, timer, kRLCommonModes);
    RLAddTimer(other.loop, timer, kRLDefaultMode);
    ck_assert(RLContainsTimer(other.loop, timer, kRLDefaultMode));
    gate_open(&leave);
    thread_join(other.thread);
    RLRelease(timer);
}

RL_TEST(a_timer_in_several_modes_fires_once, "S-TMR-15",
        "A timer in several modes fires once per due instant, in the mode that runs") {
    static Probe once = {.name = "once"}, often = {.name = "often"};
    add_timer(&once, 0, 0, "one");
    RLAddTimer(once.loop, once.timer, "two");
    add_timer(&often, 0, 1000, "one");
    RLAddTimer(often.loop, often.timer, "two");
    expect_run("two", 0, false, TimedOut);
    expect_trace("once often");
    expect_run("one", 0, false, TimedOut);
    expect_run("two", 0, false, TimedOut);
    expect_trace("");
}

RL_TEST(removal_from_a_mode_it_is_not_in_does_nothing, "S-TMR-17",
        "Removing a timer where it is not does nothing, and no removal makes it invalid") {
    static Probe probe = {.name = "t"};
    RLTimerRef timer = probe_timer(&probe, FAR_FUTURE, 0);
    RLRemoveTimer(probe.loop, timer, kRLDefaultMode);
    RLAddTimer(probe.loop, timer, kRLDefaultMode);
    RLRemoveTimer(probe.loop, timer, "missing");
    RLRemoveTimer(probe.loop, timer, kRLCommonModes);
    ck_assert(RLContainsTimer(probe.loop, timer, kRLDefaultMode));
    RLRemoveTimer(probe.loop, timer, kRLDefaultMode);
    RLRemoveTimer(probe.loop, timer, kRLDefaultMode);
    ck_assert(RLTimerIsValid(timer));
    ck_assert(!RLContainsTimer(probe.loop, timer, kRLDefaultMode));
    expect_run(kRLDefaultMode, 0, false, Finished);
    RLRelease(timer);
}

RL_TEST(an_invalid_timer_is_not_added, "S-TMR-18",
        "Adding an invalid timer, to a mode or to the common modes, does nothing") {
    static Probe probe = {.name = "t"};
    RLTimerRef timer = probe_timer(&probe, 0, 0);
    RLTimerInvalidate(timer);
    RLAddTimer(probe.loop, timer, kRLDefaultMode);
    RLAddTimer(probe.loop, timer, kRLCommonModes);
    ck_assert(!RLContainsTimer(probe.loop, timer, kRLDefaultMode));
    ck_assert(!RLContainsTimer(probe.loop, timer, kRLCommonModes));
    expect_run(kRLDefaultMode, 0, false, Finished);
    RLRelease(timer);
}

RL_TEST(the_loop_keeps_its_timers, "S-TMR-19 S-TMR-48",
        "The loop's reference goes with the last mode, and the context with the last reference") {
    static Probe probe = {.counted = true};
    RLTimerRef timer = add_timer(&probe, FAR_FUTURE, 0, "one");
    RLAddTimer(probe.loop, timer, "two");
    RLRemoveTimer(probe.loop, timer, "one");
    ck_assert_int_eq(probe.releases, 0);
    ck_assert(RLTimerIsValid(timer));
    RLRemoveTimer(probe.loop, timer, "two");
    ck_assert_int_eq(probe.releases, 1);
}

RL_TEST(the_loop_keeps_a_common_timer, "S-TMR-19 S-MODE-22",
        "A common timer that is in no mode any more is kept until it leaves the common items") {
    static Probe probe = {.counted = true};
    RLTimerRef timer = add_timer(&probe, FAR_FUTURE, 0, kRLCommonModes);
    RLRemoveTimer(probe.loop, timer, kRLDefaultMode);
    ck_assert_int_eq(probe.releases, 0);
    ck_assert(RLTimerIsValid(timer));
    RLRemoveTimer(probe.loop, timer, kRLCommonModes);
    ck_assert_int_eq(probe.releases, 1);
}

/* Invalidation */

RL_TEST(invalidation_leaves_all_modes_and_releases_the_context, "S-TMR-42",
        "Invalidation takes a timer out of all modes and common items and releases its context "
        "inside the call, once") {
    static Probe probe = {.counted = true};
    RLRunLoopRef loop = RLGetCurrent();
    RLAddCommonMode(loop, "common");
    RLTimerRef timer = probe_timer(&probe, FAR_FUTURE, 10);
    RLAddTimer(loop, timer, kRLCommonModes);
    RLAddTimer(loop, timer, "own");
    RLTimerInvalidate(timer);
    ck_assert_int_eq(probe.releases, 1);
    ck_assert(!RLTimerIsValid(timer));
    ck_assert(!RLContainsTimer(loop, timer, kRLDefaultMode));
    ck_assert(!RLContainsTimer(loop, timer, "common"));
    ck_assert(!RLContainsTimer(loop, timer, "own"));
    ck_assert(!RLContainsTimer(loop, timer, kRLCommonModes));
    ck_assert_double_eq(RLGetNextTimerFireDate(loop, "own"), 0);
    RLTimerInvalidate(timer);
    RLRelease(timer);
    ck_assert_int_eq(probe.releases, 1);
}

RL_TEST(what_an_invalid_timer_still_tells, "S-TMR-43 S-TMR-37",
        "An invalid timer has next date 0 and a NULL info; interval, order and functions stay") {
    static Probe probe = {.counted = true};
    RLTimerRef timer = probe_timer(&probe, FAR_FUTURE, 10);
    RLTimerContext before, after;
    memset(&before, 0, sizeof before);
    memset(&after, 0, sizeof after);
    RLTimerGetContext(timer, &before);
    ck_assert_ptr_eq(before.info, &probe);
    RLTimerInvalidate(timer);
    RLTimerGetContext(timer, &after);
    ck_assert_ptr_null(after.info);
    ck_assert(after.retain == before.retain && after.retain != NULL);
    ck_assert(after.release == before.release && after.release != NULL);
    ck_assert_double_eq(RLTimerGetNextFireDate(timer), 0);
    ck_assert_double_eq(RLTimerGetInterval(timer), 10);
    ck_assert(RLTimerDoesRepeat(timer));
    ck_assert_int_eq(RLTimerGetOrder(timer), 0);
    RLTimerSetNextFireDate(timer, 12345);
    ck_assert_double_eq(RLTimerGetNextFireDate(timer), 0);
    ck_assert(!RLTimerIsValid(timer));
    RLRelease(timer);
}

/* A context whose retain gives another name to every reference, so that a release says which. */

static const char *const reference_names[] = {"made", "bracket1", "bracket2", "bracket3"};
static int references_made;
static const void *retain_by_name(const void *info) {
    (void)info;
    trace("retain");
    return reference_names[references_made++];
}
static void release_by_name(const void *info) { trace("release-%s", (const char *)info); }
static void fire_by_name(RLTimerRef timer, void *info) {
    trace("fire-%s-%d", (const char *)info, RLTimerIsValid(timer));
}
static void fire_and_invalidate(RLTimerRef timer, void *info) {
    (void)info;
    trace("fire");
    RLTimerInvalidate(timer);
    trace("invalidated");
}

static void add_named_timer(RLTimeInterval interval, RLTimerCallBack callback) {
    RLTimerContext context = {0, NULL, retain_by_name, release_by_name, NULL};
    RLTimerRef timer = RLTimerCreate(0, interval, 0, 0, callback, &context);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRelease(timer);
}

RL_TEST(a_repeating_fire_is_bracketed, "S-TMR-44",
        "A fire of a repeating timer is bracketed by a retain and a release of what it returned") {
    add_named_timer(1000, fire_by_name);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("retain retain fire-bracket1-1 release-bracket1");
}

RL_TEST(a_one_shot_fire_is_bracketed, "S-TMR-44 S-TMR-28",
        "A one-shot's invalidation releases its context before the bracket's release") {
    add_named_timer(0, fire_by_name);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("retain retain fire-bracket1-1 release-made release-bracket1");
}

RL_TEST(a_timer_may_invalidate_itself, "S-TMR-45 S-TMR-42",
        "Invalidating inside the callback is allowed; the context is released inside the call") {
    add_named_timer(1000, fire_and_invalidate);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("retain retain fire release-made invalidated release-bracket1");
}

static Gate firing = GATE_INITIALIZER, invalidated = GATE_INITIALIZER;
static void wait_for_invalidation(Probe *self) {
    gate_open(&firing);
    gate_wait(&invalidated);
    ck_assert(!RLTimerIsValid(self->timer));
    trace("finished");
}
static void invalidate_while_firing(void *timer) {
    gate_wait(&firing);
    RLTimerInvalidate(timer);
    gate_open(&invalidated);
}

RL_TEST(invalidation_does_not_wait_for_the_callback, "S-TMR-46",
        "Another thread's Invalidate returns while the callback runs, and the timer is not "
        "re-armed") {
    static Probe probe = {.name = "t", .action = wait_for_invalidation};
    RLTimerRef timer = add_timer(&probe, 0, 0.001, kRLDefaultMode);
    RLRetain(timer);
    Thread *thread = thread_start(invalidate_while_firing, timer);
    expect_run(kRLDefaultMode, 60, false, Finished);
    thread_join(thread);
    expect_trace("t finished");
    ck_assert_double_eq(RLTimerGetNextFireDate(timer), 0);
    ck_assert(!RLContainsTimer(probe.loop, timer, kRLDefaultMode));
    RLRelease(timer);
}

static void invalidate_timer(void *timer) { RLTimerInvalidate(timer); }
static void remove_timer(void *probe) {
    RLRemoveTimer(((Probe *)probe)->loop, ((Probe *)probe)->timer, kRLDefaultMode);
}

RL_TEST(invalidating_the_only_timer_does_not_wake, "S-TMR-47 S-RUN-7",
        "A loop that waits for its only timer waits on when another thread invalidates it") {
    static Probe probe = {.name = "t"};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_timer(&probe, FAR_FUTURE, 0, kRLDefaultMode);
    Thread *thread = when_waiting(probe.loop, invalidate_timer, probe.timer);
    expect_run(kRLDefaultMode, 0.2, false, TimedOut);
    thread_join(thread);
    expect_trace("E BT BS BW AW X");
}

RL_TEST(removing_the_only_timer_does_not_wake, "S-TMR-47 S-RUN-7",
        "A loop that waits for its only timer waits on when another thread removes it") {
    static Probe probe = {.name = "t"};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_timer(&probe, FAR_FUTURE, 0, kRLDefaultMode);
    Thread *thread = when_waiting(probe.loop, remove_timer, &probe);
    expect_run(kRLDefaultMode, 0.2, false, TimedOut);
    thread_join(thread);
    expect_trace("E BT BS BW AW X");
}

RL_TEST(the_last_release_invalidates, "S-TMR-48",
        "Dropping the last reference to a timer that is in no loop releases its context once") {
    static Probe probe = {.counted = true};
    RLTimerRef timer = probe_timer(&probe, FAR_FUTURE, 10);
    RLRetain(timer);
    RLRelease(timer);
    ck_assert_int_eq(probe.releases, 0);
    RLRelease(timer);
    ck_assert_int_eq(probe.releases, 1);
}

/* Two threads of one processor, one of which the scheduler prefers whenever it can run, set the date of one timer. */
static struct {
    RLTimerRef timer;
    int is_refused, is_over;
    double longest;
} preferred;

static void stay_on_a_processor(void) {
    cpu_set_t all, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    int number = 0;
    while (!CPU_ISSET(number, &all)) number++;
    CPU_ZERO(&one);
    CPU_SET(number, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
}

static double own_time(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void set_date_until_over(void *unused) {
    (void)unused;
    stay_on_a_processor();
    while (!count_of(&preferred.is_over)) RLTimerSetNextFireDate(preferred.timer, 1e9);
}

static void set_date_preferred(void *unused) {
    (void)unused;
    stay_on_a_processor();
    struct sched_param parameters = {.sched_priority = 1};
    preferred.is_refused = sched_setscheduler(0, SCHED_FIFO, &parameters) != 0;
    for (int i = 0; i < 5000 && !preferred.is_refused && preferred.longest < 0.5; i++) {
        struct timespec moment = {0, 20000 + i % 64 * 100};
        nanosleep(&moment, NULL);
        double start = own_time();
        RLTimerSetNextFireDate(preferred.timer, 2e9);
        if (own_time() - start > preferred.longest) preferred.longest = own_time() - start;
    }
    __atomic_store_n(&preferred.is_over, 1, __ATOMIC_SEQ_CST);
}

RL_TEST(a_real_time_thread_does_not_spin, "S-TMR-36 S-THR-1",
        "A real-time thread that meets another one of its processor at a timer which is in no loop lets it run") {
    preferred.timer = RLTimerCreate(FAR_FUTURE, 0, 0, 0, NULL, NULL);
    Thread *other = thread_start(set_date_until_over, NULL);
    thread_join(thread_start(set_date_preferred, NULL));
    thread_join(other);
    /* It needs a permission. One that spun would do so until the kernel lets others run after all, after 0.95 s; and a virtual
     * processor that has to stand back for a tenth of a second is charged to the thread. */
    if (!preferred.is_refused) ck_assert_double_lt(preferred.longest, 0.5);
    RLRelease(preferred.timer);
}
