/* SPDX-License-Identifier: MIT */
/* Who owns what, and when an object dies. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

RL_TEST(create_gives_a_reference_and_get_does_not, "S-REF-1",
        "What Create returned dies by one Release, what Get returned needs none") {
    static Probe source = {.counted = true}, port = {.counted = true};
    static Probe timer = {.counted = true}, observer = {.counted = true};
    RLRelease(probe_source(&source, 0));
    RLRelease(probe_port(&port, -1));
    RLRelease(probe_timer(&timer, 0, 0));
    RLRelease(probe_observer(&observer, 0, true, 0));
    ck_assert_int_eq(source.releases, 1);
    ck_assert_int_eq(port.releases, 1);
    ck_assert_int_eq(timer.releases, 1);
    ck_assert_int_eq(observer.releases, 1);
    RLIndex before = RLGetRetainCount(RLGetCurrent());
    for (int i = 0; i < 100; i++) (void)RLGetCurrent();
    for (int i = 0; i < 100; i++) (void)RLGetMain();
    ck_assert_int_eq(RLGetRetainCount(RLGetCurrent()), before);
}

RL_TEST(copies_are_the_caller_s, "S-REF-1 S-MODE-6",
        "What a Copy function returned stays as it is until the caller frees it") {
    RLRunLoopRef loop = RLGetCurrent();
    keep_alive(loop, "one");
    RLIndex count;
    char **modes = RLCopyAllModes(loop, &count);
    ck_assert_ptr_null(modes[count]);
    keep_alive(loop, "two");
    for (RLIndex i = 0; i < count; i++) ck_assert_str_ne(modes[i], "two");
    memset(modes[0], 'x', strlen(modes[0]));
    free(modes);
    ck_assert(RLContainsObserver(loop, NULL, "one") == false);
    char **again = RLCopyAllModes(loop, NULL);
    int ones = 0;
    for (int i = 0; again[i]; i++) ones += strcmp(again[i], "one") == 0;
    ck_assert_int_eq(ones, 1);
    free(again);
}

static void end_all(Probe *self) {
    RLSourceInvalidate(((Probe *)self->data)->source);
    RLStop(self->loop);
}

RL_TEST(an_added_item_may_be_released, "S-REF-2 S-SRC-15 S-TMR-19",
        "A loop keeps an item alive whose creator released it as soon as it was added") {
    static Probe source = {.name = "s", .counted = true}, timer = {.name = "t", .counted = true};
    static Probe observer = {.name = "o", .counted = true};
    static Probe port = {.name = "p", .counted = true, .action = end_all, .data = &source};
    int fd = make_eventfd();
    add_source(&source, kRLDefaultMode);
    add_timer(&timer, date_in(0.02), 0, kRLDefaultMode);
    add_observer(&observer, kRLExit, kRLDefaultMode);
    add_port(&port, fd, kRLDefaultMode);
    ck_assert_int_eq(source.releases + timer.releases + observer.releases + port.releases, 0);
    RLSourceSignal(source.source);
    while (timer.calls == 0) expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    eventfd_signal(fd);
    expect_run(kRLDefaultMode, 60, false, Stopped);
    ck_assert_int_eq(trace_count("s"), 1);
    ck_assert_int_eq(trace_count("t"), 1);
    ck_assert_int_eq(trace_count("p"), 1);
    ck_assert_int_ge(trace_count("o"), 1);
    ck_assert_int_eq(source.releases, 1);
}

/* S-REF-3 */

enum { threads = 4, rounds = 20000 };
static RLTypeRef shared[4];
static void retain_and_release(void *argument) {
    (void)argument;
    for (int i = 0; i < rounds; i++) {
        RLTypeRef object = shared[i % 4];
        ck_assert_ptr_eq(RLRetain(object), object);
        RLRelease(object);
    }
}

RL_TEST(references_are_counted_across_threads, "S-REF-3 S-REF-5",
        "Retains and releases of many threads leave every object with the count it had") {
    static Probe source = {.counted = true}, timer = {.counted = true};
    Thread *started[threads];
    RLIndex before[4];
    shared[0] = probe_source(&source, 0);
    shared[1] = probe_timer(&timer, FAR_FUTURE, 0);
    shared[2] = RLGetCurrent();
    shared[3] = RLDataCreate("data", 4);
    for (int i = 0; i < 4; i++) before[i] = RLGetRetainCount(shared[i]);
    for (int i = 0; i < threads; i++) started[i] = thread_start(retain_and_release, NULL);
    for (int i = 0; i < threads; i++) thread_join(started[i]);
    for (int i = 0; i < 4; i++) ck_assert_int_eq(RLGetRetainCount(shared[i]), before[i]);
    ck_assert_int_eq(source.releases + timer.releases, 0);
    RLRelease(shared[0]);
    RLRelease(shared[1]);
    RLRelease(shared[3]);
    ck_assert_int_eq(source.releases, 1);
    ck_assert_int_eq(timer.releases, 1);
}

static pthread_t released_on;
static void note_thread(const void *info) {
    (void)info;
    released_on = pthread_self();
}
static pthread_t releasing;
static void release_there(void *source) {
    releasing = pthread_self();
    RLRelease(source);
}

RL_TEST(the_last_release_calls_back_on_its_thread, "S-REF-3",
        "The release of the context runs on the thread that dropped the last reference") {
    RLSourceContext context = {.release = note_thread};
    RLSourceRef source = RLSourceCreate(0, &context);
    thread_join(thread_start(release_there, source));
    ck_assert(pthread_equal(released_on, releasing));
    ck_assert(!pthread_equal(released_on, pthread_self()));
}

/* S-REF-4 */

static void remove_self(Probe *self) {
    if (self->source) RLRemoveSource(self->loop, self->source, kRLDefaultMode);
    if (self->timer) RLRemoveTimer(self->loop, self->timer, kRLDefaultMode);
    if (self->observer) RLRemoveObserver(self->loop, self->observer, kRLDefaultMode);
    ck_assert_int_eq(self->releases, self->value);
    trace("removed");
}

RL_TEST(a_source_removed_in_its_perform_lives_through_it, "S-REF-4",
        "A source that its perform removes, with no other reference, dies after the perform") {
    static Probe probe = {.name = "s", .counted = true, .action = remove_self};
    RLSourceSignal(add_source(&probe, kRLDefaultMode));
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("s removed");
    ck_assert_int_eq(probe.releases, 1);
}

RL_TEST(a_port_source_removed_in_its_perform_lives_through_it, "S-REF-4",
        "A port source that its perform removes, with no other reference, dies after the perform") {
    static Probe probe = {.name = "p", .counted = true, .action = remove_self};
    int fd = make_eventfd();
    eventfd_signal(fd);
    add_port(&probe, fd, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("p removed");
    ck_assert_int_eq(probe.releases, 1);
}

RL_TEST(a_timer_removed_in_its_callback_lives_through_it, "S-REF-4",
        "A timer that its callback removes, with no other reference, dies after the callback") {
    static Probe probe = {.name = "t", .counted = true, .action = remove_self};
    add_timer(&probe, 0, 1000, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("t removed");
    ck_assert_int_eq(probe.releases, probe.retains);
    ck_assert_int_eq(probe.retains, 2);
}

RL_TEST(an_observer_removed_in_its_callback_lives_through_it, "S-REF-4",
        "An observer that its callback removes, with no other reference, dies after the callback") {
    static Probe probe = {.name = "o", .counted = true, .action = remove_self};
    add_observer(&probe, kRLAllActivities, kRLDefaultMode);
    keep_alive(probe.loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("o removed");
    ck_assert_int_eq(probe.releases, 1);
}

static void remove_next(Probe *self) {
    Probe *next = self->data;
    RLRemoveSource(self->loop, next->source, kRLDefaultMode);
    ck_assert_int_eq(next->releases, 0);
}

RL_TEST(a_removed_member_of_the_batch_lives_to_its_end, "S-REF-4 S-SRC-33",
        "A member that the batch still has to perform lives although nobody else refers to it") {
    static Probe second = {.name = "b", .counted = true};
    static Probe first = {.name = "a", .counted = true, .action = remove_next, .data = &second};
    RLSourceSignal(add_source(&first, kRLDefaultMode));
    RLSourceSignal(add_source(&second, kRLDefaultMode));
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a b");
    ck_assert_int_eq(second.releases, 1);
    ck_assert_int_eq(first.releases, 0);
}

static void check_counts(RLTypeRef object) {
    RLIndex before = RLGetRetainCount(object);
    ck_assert_int_ge(before, 1);
    for (int i = 1; i <= 5; i++) {
        ck_assert_ptr_eq(RLRetain(object), object);
        ck_assert_int_eq(RLGetRetainCount(object), before + i);
    }
    for (int i = 4; i >= 0; i--) {
        RLRelease(object);
        ck_assert_int_eq(RLGetRetainCount(object), before + i);
    }
}

RL_TEST(the_count_follows_retain_and_release, "S-REF-5",
        "Each retain adds one to the count of an object of any type and each release takes one") {
    static Probe source = {0}, timer = {0}, observer = {0};
    check_counts(RLGetCurrent());
    check_counts(RLGetMain());
    check_counts(probe_source(&source, 0));
    check_counts(probe_timer(&timer, 0, 0));
    check_counts(probe_observer(&observer, 0, true, 0));
    RLDataRef data = RLDataCreate("x", 1);
    check_counts(data);
    RLAddSource(RLGetCurrent(), source.source, kRLDefaultMode);
    check_counts(source.source);
    RLSourceInvalidate(source.source);
    check_counts(source.source);
    RLRelease(source.source);
    RLRelease(timer.timer);
    RLRelease(observer.observer);
    RLRelease(data);
}
