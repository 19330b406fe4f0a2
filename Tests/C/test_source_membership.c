/* SPDX-License-Identifier: MIT */
/* Custom sources in modes and loops: members, schedule and cancel, and what keeps what alive. */
#include "support.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

/* Members */

static RLSourceRef twin_of(RLSourceRef source) {
    RLSourceContext context = {0};
    RLSourceGetContext(source, &context);
    RLSourceRef twin = RLSourceCreate(RLSourceGetOrder(source), &context);
    ck_assert(RLEqual(twin, source));
    return twin;
}

RL_TEST(an_equal_source_is_not_added, "S-SRC-7",
        "Adding a source equal to a member schedules nothing, and its signals are never seen") {
    static Probe probe = {.name = "s", .traced = true};
    RLSourceRef member = add_source(&probe, kRLDefaultMode), twin = twin_of(member);
    RLAddSource(probe.loop, twin, kRLDefaultMode);
    expect_trace("+s:kCFRunLoopDefaultMode");
    RLSourceSignal(twin);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_trace("");
    ck_assert(RLSourceIsSignalled(twin));
    RLSourceSignal(member);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("s");
    RLRelease(twin);
}

RL_TEST(an_equal_source_stands_for_the_member, "S-SRC-8",
        "Contains is true for a source equal to a member, and Remove of it removes the member") {
    static Probe probe = {.name = "s", .traced = true, .counted = true};
    RLSourceRef member = add_source(&probe, kRLDefaultMode), twin = twin_of(member);
    ck_assert(RLContainsSource(probe.loop, twin, kRLDefaultMode));
    RLRetain(member);
    RLRemoveSource(probe.loop, twin, kRLDefaultMode);
    ck_assert(!RLContainsSource(probe.loop, member, kRLDefaultMode));
    ck_assert(!RLContainsSource(probe.loop, twin, kRLDefaultMode));
    expect_trace("+s:kCFRunLoopDefaultMode -s:kCFRunLoopDefaultMode");
    RLSourceSignal(member);
    expect_run(kRLDefaultMode, 0, true, Finished);
    RLRelease(twin);
    RLRelease(member);
    ck_assert_int_eq(probe.releases, 2);
}

RL_TEST(adding_again_is_one_membership, "S-SRC-18 S-SRC-19 S-MODE-21",
        "A second Add to the mode schedules nothing, and one Remove ends the membership") {
    static Probe probe = {0};
    RLSourceRef source = add_source(&probe, kRLDefaultMode);
    RLRetain(source);
    RLAddSource(probe.loop, source, kRLDefaultMode);
    ck_assert_int_eq(probe.schedules, 1);
    RLRemoveSource(probe.loop, source, kRLDefaultMode);
    RLRemoveSource(probe.loop, source, kRLDefaultMode);
    RLRemoveSource(probe.loop, source, "never made");
    ck_assert_int_eq(probe.cancels, 1);
    ck_assert(!RLContainsSource(probe.loop, source, kRLDefaultMode));
    RLRelease(source);
}

static Gate leave = GATE_INITIALIZER;
static void wait_to_leave(LoopThread *self) {
    (void)self;
    gate_wait(&leave);
}

RL_TEST(invalidation_leaves_every_mode_of_every_loop, "S-SRC-9 S-SRC-10",
        "Invalidation takes a source out of all modes of all loops, with one cancel for each") {
    static Probe probe = {.name = "s"};
    LoopThread other = {0};
    RLRunLoopRef loop = RLGetCurrent();
    loop_thread_start(&other, wait_to_leave, NULL);
    RLSourceRef source = probe_source(&probe, 0);
    RLAddCommonMode(loop, "common");
    RLAddSource(loop, source, kRLCommonModes);
    RLAddSource(loop, source, "own");
    RLAddSource(other.loop, source, kRLDefaultMode);
    RLAddSource(other.loop, source, "theirs");
    ck_assert_int_eq(probe.schedules, 5);
    RLSourceInvalidate(source);
    ck_assert_int_eq(probe.cancels, 5);
    ck_assert(!RLContainsSource(loop, source, kRLDefaultMode));
    ck_assert(!RLContainsSource(loop, source, "common"));
    ck_assert(!RLContainsSource(loop, source, "own"));
    ck_assert(!RLContainsSource(loop, source, kRLCommonModes));
    ck_assert(!RLContainsSource(other.loop, source, kRLDefaultMode));
    ck_assert(!RLContainsSource(other.loop, source, "theirs"));
    RLAddCommonMode(loop, "later");
    RLSourceInvalidate(source);
    ck_assert_int_eq(probe.schedules, 5);
    ck_assert_int_eq(probe.cancels, 5);
    gate_open(&leave);
    thread_join(other.thread);
    RLRelease(source);
}

RL_TEST(an_invalid_source_is_not_added, "S-SRC-13",
        "Adding an invalid source, to a mode or to the common modes, schedules nothing") {
    static Probe probe = {0};
    RLSourceRef source = probe_source(&probe, 0);
    RLSourceInvalidate(source);
    RLAddSource(probe.loop, source, kRLDefaultMode);
    RLAddSource(probe.loop, source, kRLCommonModes);
    ck_assert_int_eq(probe.schedules, 0);
    ck_assert(!RLContainsSource(probe.loop, source, kRLDefaultMode));
    ck_assert(!RLContainsSource(probe.loop, source, kRLCommonModes));
    expect_run(kRLDefaultMode, 0, false, Finished);
    RLRelease(source);
}

/* Life */

static void end_at_once(LoopThread *self) { RLRetain(self->loop); }

static RLRunLoopRef loop_without_thread(void) {
    LoopThread other = {0};
    loop_thread_start(&other, end_at_once, NULL);
    thread_join(other.thread);
    return other.loop;
}

RL_TEST(a_source_and_a_dead_loop_keep_each_other, "S-SRC-15",
        "A source added to a loop without a thread lives with it until the source is invalidated") {
    static Probe probe = {.counted = true};
    RLRunLoopRef dead = loop_without_thread();
    RLSourceRef source = probe_source(&probe, 0);
    RLAddSource(dead, source, kRLDefaultMode);
    RLRelease(source);
    RLRelease(dead);
    ck_assert_int_eq(probe.releases, 0);
    ck_assert(RLSourceIsValid(source));
    ck_assert(RLContainsSource(dead, source, kRLDefaultMode));
    RLSourceInvalidate(source);
    ck_assert_int_eq(probe.cancels, 1);
    ck_assert_int_eq(probe.releases, 1);
}

RL_TEST(removal_parts_a_source_and_a_dead_loop, "S-SRC-15",
        "A source added to a loop without a thread lives with it until the source is removed") {
    static Probe probe = {.counted = true};
    RLRunLoopRef dead = loop_without_thread();
    RLSourceRef source = probe_source(&probe, 0);
    RLAddSource(dead, source, kRLDefaultMode);
    RLRelease(source);
    RLRelease(dead);
    ck_assert_int_eq(probe.releases, 0);
    RLRemoveSource(dead, source, kRLDefaultMode);
    ck_assert_int_eq(probe.cancels, 1);
    ck_assert_int_eq(probe.releases, 1);
}

static void invalidate_self(Probe *self) {
    trace("before");
    RLSourceInvalidate(self->source);
    trace("after");
    ck_assert(!RLSourceIsValid(self->source));
}

RL_TEST(a_source_may_invalidate_itself, "S-SRC-16",
        "Invalidating in the own perform is allowed; the cancel runs inside the call") {
    static Probe probe = {.name = "s", .traced = true, .counted = true, .action = invalidate_self};
    RLSourceSignal(add_source(&probe, kRLDefaultMode));
    trace_take();
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("s before -s:kCFRunLoopDefaultMode after");
    ck_assert_int_eq(probe.releases, 1);
}

static Gate performing = GATE_INITIALIZER, invalidated = GATE_INITIALIZER;
static void wait_for_invalidation(Probe *self) {
    gate_open(&performing);
    gate_wait(&invalidated);
    ck_assert(!RLSourceIsValid(self->source));
    trace("finished");
}
static void invalidate_while_performing(void *source) {
    gate_wait(&performing);
    RLSourceInvalidate(source);
    gate_open(&invalidated);
}

RL_TEST(invalidation_does_not_wait_for_the_perform, "S-SRC-17",
        "Another thread's Invalidate returns while the perform runs, which finishes normally") {
    static Probe probe = {.name = "s", .counted = true, .action = wait_for_invalidation};
    RLSourceSignal(add_source(&probe, kRLDefaultMode));
    RLRetain(probe.source);
    Thread *thread = thread_start(invalidate_while_performing, probe.source);
    expect_run(kRLDefaultMode, 60, false, Finished);
    thread_join(thread);
    expect_trace("s finished");
    ck_assert_int_eq(probe.releases, 0);
    RLRelease(probe.source);
    ck_assert_int_eq(probe.releases, 1);
}

/* schedule and cancel */

typedef struct Hooked {
    RLSourceRef source;
    RLRunLoopRef loop;
    pthread_t thread;
    int schedules, cancels;
    bool member, valid;
    void (*hook)(struct Hooked *self);
} Hooked;

static void note(Hooked *self, RLRunLoopRef loop, RLMode mode) {
    self->loop = loop;
    self->thread = pthread_self();
    self->member = self->source && RLContainsSource(loop, self->source, mode);
    self->valid = self->source && RLSourceIsValid(self->source);
    ck_assert_str_ne(mode, kRLCommonModes);
    trace("%s", mode);
    if (self->hook) self->hook(self);
}
static void hooked_schedule(void *info, RLRunLoopRef loop, RLMode mode) {
    trace("+");
    note(info, loop, mode);
    __atomic_add_fetch(&((Hooked *)info)->schedules, 1, __ATOMIC_SEQ_CST);
}
static void hooked_cancel(void *info, RLRunLoopRef loop, RLMode mode) {
    trace("-");
    note(info, loop, mode);
    __atomic_add_fetch(&((Hooked *)info)->cancels, 1, __ATOMIC_SEQ_CST);
}
static RLSourceRef hooked_source(Hooked *hooked) {
    RLSourceContext context = {0};
    context.info = hooked;
    context.schedule = hooked_schedule;
    context.cancel = hooked_cancel;
    hooked->source = RLSourceCreate(0, &context);
    return hooked->source;
}

RL_TEST(schedule_finds_a_member_and_cancel_none, "S-SRC-18 S-SRC-19 S-SRC-22",
        "The source is a member inside schedule and none inside cancel, where it is valid after "
        "Remove and invalid after Invalidate") {
    static Hooked hooked;
    RLRunLoopRef loop = RLGetCurrent();
    RLSourceRef source = hooked_source(&hooked);
    RLAddSource(loop, source, "m");
    ck_assert(hooked.member && hooked.valid);
    ck_assert_ptr_eq(hooked.loop, loop);
    RLRemoveSource(loop, source, "m");
    ck_assert(!hooked.member && hooked.valid);
    ck_assert_ptr_eq(hooked.loop, loop);
    RLAddSource(loop, source, "m");
    RLSourceInvalidate(source);
    ck_assert(!hooked.member && !hooked.valid);
    expect_trace("+ m - m + m - m");
    RLRelease(source);
}

RL_TEST(schedule_gets_the_real_mode_names, "S-SRC-20 S-SRC-18 S-SRC-19",
        "The pseudo-mode is never named to schedule or cancel, but each common mode is once") {
    static Hooked hooked;
    RLRunLoopRef loop = RLGetCurrent();
    RLSourceRef source = hooked_source(&hooked);
    RLAddCommonMode(loop, "extra");
    RLAddSource(loop, source, kRLCommonModes);
    ck_assert_int_eq(hooked.schedules, 2);
    ck_assert_int_eq(trace_count("extra"), 1);
    ck_assert_int_eq(trace_count(kRLDefaultMode), 1);
    RLAddCommonMode(loop, "late");
    ck_assert_int_eq(hooked.schedules, 3);
    ck_assert_int_eq(trace_count("late"), 1);
    trace_take();
    RLRemoveSource(loop, source, kRLCommonModes);
    ck_assert_int_eq(hooked.cancels, 3);
    ck_assert_int_eq(trace_count("extra"), 1);
    ck_assert_int_eq(trace_count("late"), 1);
    ck_assert_int_eq(trace_count(kRLDefaultMode), 1);
    RLRelease(source);
}

static Gate calls_made = GATE_INITIALIZER;
static void exit_when_calls_were_made(LoopThread *self) {
    (void)self;
    gate_wait(&calls_made);
}

RL_TEST(schedule_runs_on_the_calling_thread, "S-SRC-21",
        "Add, AddCommonMode, Remove and Invalidate call back on the calling thread, not the "
        "loop's") {
    static Hooked hooked;
    LoopThread other = {0};
    loop_thread_start(&other, exit_when_calls_were_made, NULL);
    pthread_t self = pthread_self(), nobody;
    memset(&nobody, 0, sizeof nobody);
    RLSourceRef source = hooked_source(&hooked);
    RLAddSource(other.loop, source, kRLCommonModes);
    ck_assert(pthread_equal(hooked.thread, self));
    hooked.thread = nobody;
    RLAddCommonMode(other.loop, "extra");
    ck_assert(pthread_equal(hooked.thread, self));
    hooked.thread = nobody;
    RLRemoveSource(other.loop, source, "extra");
    ck_assert(pthread_equal(hooked.thread, self));
    hooked.thread = nobody;
    RLSourceInvalidate(source);
    ck_assert(pthread_equal(hooked.thread, self));
    gate_open(&calls_made);
    thread_join(other.thread);
    RLRelease(source);
}

static pthread_t ending;
static void note_thread_and_end(LoopThread *self) {
    (void)self;
    gate_wait(&calls_made);
    ending = pthread_self();
}

RL_TEST(thread_exit_cancels_on_the_exiting_thread, "S-SRC-21 S-LOOP-7",
        "The end of the loop's thread calls cancel on that thread") {
    static Hooked hooked;
    LoopThread other = {0};
    loop_thread_start(&other, note_thread_and_end, NULL);
    RLSourceRef source = hooked_source(&hooked);
    RLAddSource(other.loop, source, kRLDefaultMode);
    gate_open(&calls_made);
    thread_join(other.thread);
    ck_assert_int_eq(hooked.cancels, 1);
    ck_assert(pthread_equal(hooked.thread, ending));
    ck_assert(RLSourceIsValid(source));
    RLRelease(source);
}

static void use_loop(void *argument) {
    Hooked *hooked = argument;
    RLRunLoopRef loop = hooked->loop;
    char **modes = RLCopyAllModes(loop, NULL);
    free(modes);
    RLSourceRef source = keep_alive(loop, "used by another thread");
    RLContainsSource(loop, hooked->source, kRLCommonModes);
    RLRemoveSource(loop, source, "used by another thread");
    RLWakeUp(loop);
}
static void wait_for_a_thread_that_uses_the_loop(Hooked *self) {
    thread_join(thread_start(use_loop, self));
}

RL_TEST(schedule_may_wait_for_another_user_of_the_loop, "S-SRC-23 S-THR-3",
        "No lock is held while schedule or cancel waits for a thread that uses the same loop") {
    static Hooked hooked = {.hook = wait_for_a_thread_that_uses_the_loop};
    RLRunLoopRef loop = RLGetCurrent();
    RLSourceRef source = hooked_source(&hooked);
    RLAddSource(loop, source, "m");
    RLRemoveSource(loop, source, "m");
    RLAddSource(loop, source, kRLCommonModes);
    RLAddCommonMode(loop, "extra");
    RLRemoveSource(loop, source, kRLCommonModes);
    RLAddSource(loop, source, kRLCommonModes);
    RLSourceInvalidate(source);
    ck_assert_int_eq(hooked.schedules, 5);
    ck_assert_int_eq(hooked.cancels, 5);
    RLRelease(source);
}

RL_TEST(thread_exit_cancels_without_a_lock, "S-SRC-23 S-THR-3 S-LOOP-7",
        "The cancel at thread exit may wait for another thread that uses the same loop") {
    static Hooked hooked = {.hook = NULL};
    LoopThread other = {0};
    loop_thread_start(&other, note_thread_and_end, NULL);
    RLSourceRef source = hooked_source(&hooked);
    RLAddSource(other.loop, source, kRLDefaultMode);
    hooked.hook = wait_for_a_thread_that_uses_the_loop;
    gate_open(&calls_made);
    thread_join(other.thread);
    ck_assert_int_eq(hooked.cancels, 1);
    RLRelease(source);
}

static RLSourceRef kept_source;
static int times_put_back;
static void put_back(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)info;
    times_put_back++;
    RLAddSource(loop, kept_source, mode);
}
static void add_the_kept(void *unused) {
    (void)unused;
    RLAddSource(RLGetCurrent(), kept_source, kRLDefaultMode);
    RLAddSource(RLGetCurrent(), kept_source, "other");
}

RL_TEST(cancel_puts_its_source_back_at_the_end, "S-LOOP-7 S-LOOP-11", "The thread ends though each cancel of a source adds it again") {
    RLSourceContext context = {.cancel = put_back};
    kept_source = RLSourceCreate(0, &context);
    thread_join(thread_start(add_the_kept, NULL));
    ck_assert_int_ge(times_put_back, 2);
    /* Two modes, and the thousand rounds of S-LOOP-7. */
    ck_assert_int_le(times_put_back, 2000);
    RLRelease(kept_source);
}

static void put_back_and_end(void *info, RLRunLoopRef loop, RLMode mode) {
    put_back(info, loop, mode);
    pthread_exit(NULL);
}

RL_TEST(cancel_puts_its_source_back_and_ends_the_thread, "S-LOOP-7 S-LOOP-19",
        "The thread ends though each cancel of a source adds it again and ends the thread once more") {
    if (is_left_out_by_thread_sanitizer("it takes a thread that has ended more than once for gone")) return;
    RLSourceContext context = {.cancel = put_back_and_end};
    kept_source = RLSourceCreate(0, &context);
    thread_join(thread_start(add_the_kept, NULL));
    ck_assert_int_ge(times_put_back, 2);
    ck_assert_int_le(times_put_back, 2000);
    RLRelease(kept_source);
}

static char first_mode[32];
static void add_again_and_remove_from_one(void *loop) {
    RLAddSource(loop, kept_source, kRLCommonModes);
    RLRemoveSource(loop, kept_source, first_mode);
}
static void another_adds_again(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)info;
    if (times_put_back++ > 0) return;
    snprintf(first_mode, sizeof first_mode, "%s", mode);
    thread_join(thread_start(add_again_and_remove_from_one, loop));
}

RL_TEST(a_removal_from_one_mode_meets_one_from_the_common_modes, "S-MODE-16 S-MODE-18",
        "A removal from the common modes puts no source back into a mode from which another thread has removed it meanwhile") {
    RLRunLoopRef loop = RLGetCurrent();
    RLSourceContext context = {.cancel = another_adds_again};
    kept_source = RLSourceCreate(0, &context);
    RLAddCommonMode(loop, "also");
    RLAddSource(loop, kept_source, kRLCommonModes);
    RLRemoveSource(loop, kept_source, kRLCommonModes);
    ck_assert(RLContainsSource(loop, kept_source, kRLCommonModes));
    ck_assert(!RLContainsSource(loop, kept_source, first_mode));
    ck_assert(RLContainsSource(loop, kept_source, strcmp(first_mode, "also") == 0 ? kRLDefaultMode : "also"));
    RLSourceInvalidate(kept_source);
    RLRelease(kept_source);
}

static Gate one_is_removed, is_added_again;
static bool all_equal(const void *one, const void *other) {
    (void)one, (void)other;
    return true;
}
static RLHashCode same_hash(const void *info) {
    (void)info;
    return 1;
}
static RLSourceRef equal_one;
static int equal_releases[2];
static void count_equal_release(const void *info) { equal_releases[(intptr_t)info]++; }
static void end_this_thread(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)info, (void)loop, (void)mode;
    pthread_exit(NULL);
}
static void remove_what_is_equal(void *unused) {
    (void)unused;
    RLRunLoopRef loop = RLGetCurrent();
    RLSourceContext context = {.info = (void *)1, .equal = all_equal, .hash = same_hash, .cancel = end_this_thread, .release = count_equal_release};
    equal_one = RLSourceCreate(0, &context);
    RLAddSource(loop, equal_one, "also");
    context.info = (void *)0;
    kept_source = RLSourceCreate(0, &context);
    RLAddSource(loop, kept_source, kRLCommonModes);
    RLAddCommonMode(loop, "also");
    RLRemoveSource(loop, kept_source, kRLCommonModes);
}

RL_TEST(a_cancel_of_an_equal_source_ends_the_thread, "S-LOOP-19 S-SRC-8",
        "A removal from the common modes whose cancel, that of an equal source, ends the thread takes no reference but the loop's") {
    thread_join(thread_start(remove_what_is_equal, NULL));
    ck_assert(equal_releases[0] == 0 && equal_releases[1] == 0);
    RLRelease(kept_source);
    ck_assert_int_eq(equal_releases[0], 1);
    RLRelease(equal_one);
    ck_assert_int_eq(equal_releases[1], 1);
}

static void wait_in_cancel(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)info, (void)loop;
    if (strcmp(mode, "also") != 0) return;
    gate_open(&one_is_removed);
    gate_wait(&is_added_again);
}
static void add_again(void *loop) {
    gate_wait(&one_is_removed);
    RLAddSource(loop, kept_source, kRLCommonModes);
    gate_open(&is_added_again);
}

RL_TEST(an_add_meets_the_removal_from_the_common_modes, "S-MODE-14 S-MODE-16 S-MODE-18",
        "A source that is a common item again, because another thread adds it before its removal is over, is in each common mode, or an equal one is") {
    RLRunLoopRef loop = RLGetCurrent();
    RLSourceContext context = {.equal = all_equal, .hash = same_hash, .cancel = wait_in_cancel};
    kept_source = RLSourceCreate(0, &context);
    context.cancel = NULL;
    RLSourceRef equal = RLSourceCreate(0, &context);
    RLAddCommonMode(loop, "also");
    RLAddSource(loop, kept_source, kRLCommonModes);
    RLRemoveSource(loop, kept_source, kRLDefaultMode);
    RLAddSource(loop, equal, kRLDefaultMode);
    Thread *adder = thread_start(add_again, loop);
    RLRemoveSource(loop, kept_source, kRLCommonModes);
    thread_join(adder);
    ck_assert(RLContainsSource(loop, kept_source, kRLCommonModes));
    ck_assert(RLContainsSource(loop, kept_source, kRLDefaultMode));
    ck_assert(RLContainsSource(loop, kept_source, "also"));
    RLSourceInvalidate(kept_source);
    RLSourceInvalidate(equal);
    RLRelease(kept_source);
    RLRelease(equal);
}

static RLRunLoopRef loop_of_items;
static RLSourceRef former_item;
static void remove_former(void *unused) {
    (void)unused;
    RLRemoveSource(loop_of_items, former_item, kRLCommonModes);
}
/* What another thread does, once, while `schedule` or `cancel` is called. */
static void (*act_of_another)(void *unused);
static void let_another_act(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)info, (void)loop, (void)mode;
    void (*act)(void *unused) = act_of_another;
    act_of_another = NULL;
    if (act) thread_join(thread_start(act, NULL));
}

RL_TEST(an_add_beside_an_equal_item_that_is_removed, "S-MODE-14 S-MODE-16 S-MODE-18",
        "An Add to the common modes during which another thread takes the equal common item away makes the source the item") {
    loop_of_items = RLGetCurrent();
    RLSourceContext context = {.equal = all_equal, .hash = same_hash};
    former_item = RLSourceCreate(0, &context);
    act_of_another = remove_former;
    context.schedule = let_another_act;
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddCommonMode(loop_of_items, "also");
    RLAddSource(loop_of_items, former_item, kRLCommonModes);
    RLRemoveSource(loop_of_items, former_item, kRLDefaultMode);
    RLRemoveSource(loop_of_items, former_item, "also");
    RLAddSource(loop_of_items, source, kRLCommonModes);
    ck_assert(RLContainsSource(loop_of_items, source, kRLCommonModes));
    ck_assert(RLContainsSource(loop_of_items, source, kRLDefaultMode));
    ck_assert(RLContainsSource(loop_of_items, source, "also"));
    RLAddCommonMode(loop_of_items, "later");
    ck_assert(RLContainsSource(loop_of_items, source, "later"));
    RLSourceInvalidate(source);
    RLSourceInvalidate(former_item);
    RLRelease(source);
    RLRelease(former_item);
}

enum { MEMBERS = 100 };
static RLSourceRef members[MEMBERS];
static int cancels[MEMBERS];
static void come_back(void *info, RLRunLoopRef loop, RLMode mode) {
    cancels[(intptr_t)info]++;
    if ((intptr_t)info % 10 == 0) RLAddSource(loop, members[(intptr_t)info], mode);
}
static void add_members(void *unused) {
    (void)unused;
    for (intptr_t i = 0; i < MEMBERS; i++) {
        RLSourceContext context = {.info = (void *)i, .cancel = come_back};
        members[i] = RLSourceCreate(0, &context);
        RLAddSource(RLGetCurrent(), members[i], kRLDefaultMode);
    }
}

RL_TEST(those_that_come_back_keep_no_others, "S-LOOP-7 S-LOOP-8", "At the end of a thread each source is cancelled, whichever others put themselves back") {
    thread_join(thread_start(add_members, NULL));
    for (int i = 0; i < MEMBERS; i++) {
        if (i % 10 == 0) ck_assert_int_ge(cancels[i], 2);
        else ck_assert_int_eq(cancels[i], 1);
        RLRelease(members[i]);
    }
}

static void add_the_next(void *info, RLRunLoopRef loop, RLMode mode) {
    intptr_t i = (intptr_t)info;
    cancels[i]++;
    if (i + 1 < MEMBERS) RLAddSource(loop, members[i + 1], mode);
}
static void begin_chain(void *unused) {
    (void)unused;
    for (intptr_t i = 0; i < MEMBERS; i++) {
        RLSourceContext context = {.info = (void *)i, .cancel = add_the_next};
        members[i] = RLSourceCreate(0, &context);
        cancels[i] = 0;
    }
    RLAddSource(RLGetCurrent(), members[0], kRLDefaultMode);
}

RL_TEST(a_cancel_adds_the_next, "S-LOOP-7", "At the end of a thread a source that the cancel of another has added is cancelled too, however many there are one after the other") {
    thread_join(thread_start(begin_chain, NULL));
    for (int i = 0; i < MEMBERS; i++) {
        ck_assert_int_eq(cancels[i], 1);
        RLRelease(members[i]);
    }
}

static RLSourceRef later_item;
static void add_later_item(void *unused) {
    (void)unused;
    RLAddSource(loop_of_items, later_item, kRLCommonModes);
}

RL_TEST(an_equal_item_that_comes_during_a_removal, "S-MODE-14 S-MODE-16 S-MODE-18",
        "A source that becomes the common item while another thread takes an equal one out of the common modes is in all of these") {
    loop_of_items = RLGetCurrent();
    RLSourceContext context = {.equal = all_equal, .hash = same_hash};
    later_item = RLSourceCreate(0, &context);
    act_of_another = add_later_item;
    context.cancel = let_another_act;
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddCommonMode(loop_of_items, "also");
    RLAddSource(loop_of_items, source, kRLCommonModes);
    RLRemoveSource(loop_of_items, source, kRLCommonModes);
    RLSourceInvalidate(source);
    ck_assert(RLContainsSource(loop_of_items, later_item, kRLCommonModes));
    ck_assert(RLContainsSource(loop_of_items, later_item, kRLDefaultMode));
    ck_assert(RLContainsSource(loop_of_items, later_item, "also"));
    RLSourceInvalidate(later_item);
    RLRelease(source);
    RLRelease(later_item);
}

static void end_the_thread(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)loop, (void)mode;
    cancels[(intptr_t)info]++;
    pthread_exit(NULL);
}
static void leave_members(void *unused) {
    (void)unused;
    for (intptr_t i = 0; i < 2; i++) {
        RLSourceContext context = {.info = (void *)i, .cancel = end_the_thread};
        members[i] = RLSourceCreate(0, &context);
        cancels[i] = 0;
        RLAddSource(RLGetCurrent(), members[i], kRLDefaultMode);
        RLAddSource(RLGetCurrent(), members[i], "also");
    }
    RLRemoveSource(RLGetCurrent(), members[0], "also");
}

RL_TEST(a_cancel_that_ends_an_ending_thread, "S-LOOP-7 S-LOOP-19", "A cancel at the end of a thread that calls pthread_exit keeps neither its source nor the loop, and all others are called") {
    if (is_left_out_by_thread_sanitizer("it takes a thread that has ended more than once for gone")) return;
    thread_join(thread_start(leave_members, NULL));
    /* Also where the first is one of a removal, which the end of the thread completes. */
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(cancels[i], 2);
        ck_assert_int_eq((int)RLGetRetainCount(members[i]), 1);
        RLRelease(members[i]);
    }
}
