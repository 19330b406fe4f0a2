/* SPDX-License-Identifier: MIT */
/* What calls do with NULL, odd structs, odd names and odd booleans. */
#include "support.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int released;
static void count_release(void *info) {
    (void)info;
    released++;
}
static void never(void *info) {
    (void)info;
    ck_abort_msg("performed");
}

RL_TEST(base_calls_take_null, "S-ARG-1",
        "Retain, release, equality, hash, type and description of NULL have their fixed answers") {
    RLRunLoopRef loop = RLGetCurrent();
    ck_assert_ptr_null(RLRetain(NULL));
    RLRelease(NULL);
    ck_assert_int_eq(RLGetRetainCount(NULL), 0);
    ck_assert(RLEqual(NULL, NULL));
    ck_assert(!RLEqual(loop, NULL) && !RLEqual(NULL, loop));
    ck_assert_uint_eq(RLHash(NULL), 0);
    ck_assert_uint_eq(RLGetTypeIDOf(NULL), 0);
    ck_assert_ptr_null(RLCopyDescription(NULL));
}

RL_TEST(loop_calls_take_null, "S-ARG-1",
        "A NULL loop is asked in vain and told in vain; the count of its modes becomes 0") {
    RLIndex count = 77;
    ck_assert_ptr_null(RLCopyCurrentMode(NULL));
    ck_assert_ptr_null(RLCopyAllModes(NULL, &count));
    ck_assert_int_eq(count, 0);
    ck_assert_ptr_null(RLCopyAllModes(NULL, NULL));
    RLAddCommonMode(NULL, "mode");
    RLAddCommonMode(NULL, NULL);
    ck_assert_double_eq(RLGetNextTimerFireDate(NULL, kRLDefaultMode), 0);
    ck_assert_double_eq(RLGetNextTimerFireDate(NULL, NULL), 0);
    ck_assert(!RLIsWaiting(NULL));
    RLWakeUp(NULL);
    RLStop(NULL);
    RLSetSpinLimit(NULL, 0.001);
    RLPerformFunction(NULL, kRLDefaultMode, never, NULL, count_release);
    ck_assert_int_eq(released, 1);
    RLMode modes[] = {kRLDefaultMode};
    RLPerformFunctionInModes(NULL, modes, 1, never, NULL, count_release);
    ck_assert_int_eq(released, 2);
}

RL_TEST(perform_calls_take_null, "S-ARG-1 S-ARG-2 S-BLK-14 S-BLK-18",
        "A request without mode, modes or function is released before the call returns") {
    RLRunLoopRef loop = RLGetCurrent();
    RLMode modes[] = {NULL, NULL};
    keep_alive(loop, kRLDefaultMode);
    RLPerformFunction(loop, NULL, never, NULL, count_release);
    RLPerformFunction(loop, kRLDefaultMode, NULL, NULL, count_release);
    RLPerformFunctionInModes(loop, NULL, 5, never, NULL, count_release);
    RLPerformFunctionInModes(loop, modes, 0, never, NULL, count_release);
    RLPerformFunctionInModes(loop, modes, -3, never, NULL, count_release);
    RLPerformFunctionInModes(loop, modes, LONG_MIN, never, NULL, count_release);
    ck_assert_int_eq(released, 6);
    RLPerformFunction(loop, NULL, NULL, NULL, NULL);
    RLPerformFunction(NULL, NULL, NULL, NULL, NULL);
    RLPerformFunctionInModes(NULL, NULL, 0, NULL, NULL, NULL);
    RLPerformFunctionInModes(loop, modes, 2, never, NULL, NULL);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
}

RL_TEST(source_calls_take_null, "S-ARG-1 S-ARG-2",
        "Calls without source, loop or mode do nothing and answer false or 0") {
    static Probe probe = {.name = "s"};
    RLRunLoopRef loop = RLGetCurrent();
    RLSourceRef source = probe_source(&probe, 0);
    RLSourceContext context = {0};
    ck_assert_int_eq(RLSourceGetOrder(NULL), 0);
    RLSourceInvalidate(NULL);
    ck_assert(!RLSourceIsValid(NULL));
    RLSourceGetContext(NULL, &context);
    RLSourceGetContext(NULL, NULL);
    RLSourceGetContext(source, NULL);
    RLSourceSignal(NULL);
    ck_assert(!RLSourceIsSignalled(NULL));
    RLAddSource(NULL, source, kRLDefaultMode);
    RLAddSource(loop, NULL, kRLDefaultMode);
    RLAddSource(loop, NULL, kRLCommonModes);
    RLAddSource(loop, source, NULL);
    ck_assert(!RLContainsSource(NULL, source, kRLDefaultMode));
    ck_assert(!RLContainsSource(loop, NULL, kRLDefaultMode));
    ck_assert(!RLContainsSource(loop, NULL, kRLCommonModes));
    RLAddSource(loop, source, kRLDefaultMode);
    ck_assert(!RLContainsSource(loop, source, NULL));
    RLRemoveSource(NULL, source, kRLDefaultMode);
    RLRemoveSource(loop, NULL, kRLDefaultMode);
    RLRemoveSource(loop, NULL, kRLCommonModes);
    RLRemoveSource(loop, source, NULL);
    ck_assert(RLContainsSource(loop, source, kRLDefaultMode));
    ck_assert_int_eq(probe.schedules, 1);
    ck_assert_int_eq(probe.cancels, 0);
    RLRelease(source);
}

RL_TEST(observer_calls_take_null, "S-ARG-1 S-ARG-2",
        "Calls without observer, loop or mode do nothing and answer false or 0") {
    static Probe probe = {.name = "o"};
    RLRunLoopRef loop = RLGetCurrent();
    RLObserverRef observer = probe_observer(&probe, kRLEntry, true, 0);
    RLObserverContext context = {0};
    ck_assert_uint_eq(RLObserverGetActivities(NULL), 0);
    ck_assert(!RLObserverDoesRepeat(NULL));
    ck_assert_int_eq(RLObserverGetOrder(NULL), 0);
    RLObserverInvalidate(NULL);
    ck_assert(!RLObserverIsValid(NULL));
    RLObserverGetContext(NULL, &context);
    RLObserverGetContext(NULL, NULL);
    RLObserverGetContext(observer, NULL);
    RLAddObserver(NULL, observer, kRLDefaultMode);
    RLAddObserver(loop, NULL, kRLDefaultMode);
    RLAddObserver(loop, NULL, kRLCommonModes);
    RLAddObserver(loop, observer, NULL);
    ck_assert(!RLContainsObserver(NULL, observer, kRLDefaultMode));
    ck_assert(!RLContainsObserver(loop, NULL, kRLDefaultMode));
    RLAddObserver(loop, observer, kRLDefaultMode);
    ck_assert(!RLContainsObserver(loop, observer, NULL));
    RLRemoveObserver(NULL, observer, kRLDefaultMode);
    RLRemoveObserver(loop, NULL, kRLDefaultMode);
    RLRemoveObserver(loop, NULL, kRLCommonModes);
    RLRemoveObserver(loop, observer, NULL);
    ck_assert(RLContainsObserver(loop, observer, kRLDefaultMode));
    RLRelease(observer);
}

RL_TEST(timer_calls_take_null, "S-ARG-1 S-ARG-2",
        "Calls without timer, loop or mode do nothing and answer false or 0") {
    static Probe probe = {.name = "t"};
    RLRunLoopRef loop = RLGetCurrent();
    RLTimerRef timer = probe_timer(&probe, FAR_FUTURE, 0);
    RLTimerContext context = {0};
    ck_assert_double_eq(RLTimerGetNextFireDate(NULL), 0);
    RLTimerSetNextFireDate(NULL, 5);
    ck_assert_double_eq(RLTimerGetInterval(NULL), 0);
    ck_assert(!RLTimerDoesRepeat(NULL));
    ck_assert_int_eq(RLTimerGetOrder(NULL), 0);
    RLTimerInvalidate(NULL);
    ck_assert(!RLTimerIsValid(NULL));
    RLTimerGetContext(NULL, &context);
    RLTimerGetContext(NULL, NULL);
    RLTimerGetContext(timer, NULL);
    ck_assert_double_eq(RLTimerGetTolerance(NULL), 0);
    RLTimerSetTolerance(NULL, 5);
    RLAddTimer(NULL, timer, kRLDefaultMode);
    RLAddTimer(loop, NULL, kRLDefaultMode);
    RLAddTimer(loop, NULL, kRLCommonModes);
    RLAddTimer(loop, timer, NULL);
    ck_assert(!RLContainsTimer(NULL, timer, kRLDefaultMode));
    ck_assert(!RLContainsTimer(loop, NULL, kRLDefaultMode));
    RLAddTimer(loop, timer, kRLDefaultMode);
    ck_assert(!RLContainsTimer(loop, timer, NULL));
    RLRemoveTimer(NULL, timer, kRLDefaultMode);
    RLRemoveTimer(loop, NULL, kRLDefaultMode);
    RLRemoveTimer(loop, NULL, kRLCommonModes);
    RLRemoveTimer(loop, timer, NULL);
    ck_assert(RLContainsTimer(loop, timer, kRLDefaultMode));
    RLRelease(timer);
}

RL_TEST(a_null_mode_is_no_mode, "S-ARG-2",
        "Running NULL returns Finished, NULL cannot become common, and no mode is made") {
    RLRunLoopRef loop = RLGetCurrent();
    RLIndex before = -1, after = -2;
    free(RLCopyAllModes(loop, &before));
    keep_alive(loop, NULL);
    expect_run(NULL, 60, false, Finished);
    expect_run(NULL, 0, true, Finished);
    RLAddCommonMode(loop, NULL);
    ck_assert_double_eq(RLGetNextTimerFireDate(loop, NULL), 0);
    free(RLCopyAllModes(loop, &after));
    ck_assert_int_eq(before, after);
}

/* S-ARG-4 */

static RLPort no_port(void *info) {
    (void)info;
    return -1;
}

RL_TEST(the_caller_s_version_says_what_fits, "S-ARG-4",
        "GetContext gives a port source's context to a struct of either size, a custom source's "
        "only to a version 0 struct; otherwise the version is all that is written") {
    static char info;
    RLSourceContext custom = {.info = &info, .perform = never};
    RLSourceContext1 port = {.version = 1, .info = &info, .getPort = no_port, .perform = never};
    RLSourceRef source = RLSourceCreate(0, &custom);
    RLSourceRef port_source = RLSourceCreate(0, (RLSourceContext *)&port);
    const RLIndex large[] = {0, 2, -1, 99};
    for (int i = 0; i < 4; i++) {
        RLSourceContext big;
        memset(&big, 0xEE, sizeof big);
        big.version = large[i];
        RLSourceGetContext(source, &big);
        ck_assert_int_eq(big.version, 0);
        ck_assert(big.info == &info && big.perform == never && big.schedule == NULL);
        memset(&big, 0xEE, sizeof big);
        big.version = large[i];
        RLSourceGetContext(port_source, &big);
        RLSourceContext1 *small = (RLSourceContext1 *)&big;
        ck_assert_int_eq(small->version, 1);
        ck_assert(small->info == &info && small->getPort == no_port && small->perform == never);
    }
    union {
        RLSourceContext1 small;
        unsigned char bytes[sizeof(RLSourceContext1) + sizeof(void *)];
    } space;
    memset(&space, 0xEE, sizeof space);
    space.small.version = 1;
    RLSourceGetContext(port_source, (RLSourceContext *)&space.small);
    ck_assert_int_eq(space.small.version, 1);
    ck_assert(space.small.getPort == no_port && space.small.perform == never);
    for (size_t i = sizeof(RLSourceContext1); i < sizeof space; i++)
        ck_assert_int_eq(space.bytes[i], 0xEE);
    memset(&space, 0xEE, sizeof space);
    space.small.version = 1;
    RLSourceGetContext(source, (RLSourceContext *)&space.small);
    ck_assert_int_eq(space.small.version, 0);
    for (size_t i = sizeof(RLIndex); i < sizeof space; i++) ck_assert_int_eq(space.bytes[i], 0xEE);
    RLRelease(source);
    RLRelease(port_source);
}

/* S-ARG-5 */

RL_TEST(mode_names_are_copied, "S-ARG-5",
        "The memory of a mode name may be used for something else after every call") {
    static Probe source = {.name = "s"}, function = {.name = "f"};
    RLRunLoopRef loop = RLGetCurrent();
    char name[] = "first";
    add_source(&source, name);
    probe_perform(&function, loop, name);
    RLAddCommonMode(loop, name);
    memcpy(name, "other", 5);
    ck_assert(RLContainsSource(loop, source.source, "first"));
    ck_assert(!RLContainsSource(loop, source.source, "other"));
    RLSourceSignal(source.source);
    expect_run(name, 0, true, Finished);
    expect_run("first", 0, true, HandledSource);
    expect_trace("f s");
}

RL_TEST(mode_names_are_bytes, "S-ARG-5 S-MODE-10",
        "Invalid UTF-8, an empty and a very long name are ordinary names, told apart by their "
        "bytes") {
    RLRunLoopRef loop = RLGetCurrent();
    char *longest = malloc(100001);
    memset(longest, 'x', 100000);
    longest[100000] = '\0';
    const char *const names[] = {"",         "\xff\xfe\x80", "\xc3", "\xc3\xa9",
                                 "e\xcc\x81", "a\nb\x01",      longest};
    enum { count = sizeof names / sizeof names[0] };
    RLSourceRef sources[count];
    for (int i = 0; i < count; i++) {
        RLSourceContext none = {.info = (void *)(intptr_t)i};
        sources[i] = RLSourceCreate(i, &none);
        RLAddSource(loop, sources[i], names[i]);
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            ck_assert_int_eq(RLContainsSource(loop, sources[i], names[j]), i == j);
    RLIndex listed;
    char **modes = RLCopyAllModes(loop, &listed);
    ck_assert_int_ge(listed, count);
    for (int i = 0; i < count; i++) {
        int found = 0;
        for (RLIndex j = 0; j < listed; j++) found += strcmp(modes[j], names[i]) == 0;
        ck_assert_int_eq(found, 1);
    }
    free(modes);
    longest[99999] = 'y';
    ck_assert(!RLContainsSource(loop, sources[count - 1], longest));
    for (int i = 0; i < count; i++) {
        RLSourceInvalidate(sources[i]);
        RLRelease(sources[i]);
    }
    free(longest);
}

/* S-ARG-6 */

static long long equal_answer;
static bool equal_by_answer(const void *a, const void *b) {
    (void)a;
    (void)b;
    return equal_answer;
}

RL_TEST(any_non_zero_boolean_is_true, "S-ARG-6",
        "Arguments and answers of any non-zero value count as true") {
    static Probe probe = {.name = "s"};
    const long long values[] = {1, 2, 0x80, 0x100, -1, 1LL << 40};
    add_source(&probe, kRLDefaultMode);
    for (int i = 0; i < 6; i++) {
        RLSourceSignal(probe.source);
        expect_run(kRLDefaultMode, 0, values[i], HandledSource);
        RLObserverRef observer = RLObserverCreate(kRLEntry, values[i], 0, NULL, NULL);
        ck_assert_int_eq(RLObserverDoesRepeat(observer), 1);
        RLRelease(observer);
        RLSourceContext one = {.info = &probe, .equal = equal_by_answer};
        RLSourceContext two = {.info = &equal_answer, .equal = equal_by_answer};
        RLSourceRef first = RLSourceCreate(0, &one), second = RLSourceCreate(0, &two);
        equal_answer = values[i];
        ck_assert_int_eq(RLEqual(first, second), 1);
        equal_answer = 0;
        ck_assert_int_eq(RLEqual(first, second), 0);
        RLRelease(first);
        RLRelease(second);
    }
}

/* S-ARG-7 */

RL_TEST(each_type_has_an_id, "S-ARG-7",
        "The type ids differ, stay the same, are not 0, and are told by every object") {
    RLTypeID ids[] = {RLGetTypeID(), RLSourceGetTypeID(), RLObserverGetTypeID(),
                      RLTimerGetTypeID(), RLDataGetTypeID()};
    Probe source = {0}, timer = {0}, observer = {0};
    RLTypeRef objects[] = {RLGetCurrent(), probe_source(&source, 0),
                           probe_observer(&observer, 0, true, 0), probe_timer(&timer, 0, 0),
                           RLDataCreate("", 0)};
    for (int i = 0; i < 5; i++) {
        ck_assert_uint_ne(ids[i], 0);
        ck_assert_uint_eq(RLGetTypeIDOf(objects[i]), ids[i]);
        for (int j = 0; j < i; j++) ck_assert_uint_ne(ids[i], ids[j]);
        if (i > 0) RLRelease(objects[i]);
    }
    ck_assert_uint_eq(RLGetTypeIDOf(RLGetMain()), ids[0]);
    ck_assert_uint_eq(RLGetTypeID(), ids[0]);
    ck_assert_uint_eq(RLSourceGetTypeID(), ids[1]);
    ck_assert_uint_eq(RLObserverGetTypeID(), ids[2]);
    ck_assert_uint_eq(RLTimerGetTypeID(), ids[3]);
    ck_assert_uint_eq(RLDataGetTypeID(), ids[4]);
}

RL_TEST(odd_tolerances_do_no_harm, "S-TMR-51",
        "NaN and infinite tolerances are survived, and the timer fires") {
    static Probe probe = {.name = "t"};
    add_timer(&probe, date_in(0.01), 0.01, kRLDefaultMode);
    RLTimerSetTolerance(probe.timer, NAN);
    ck_assert_double_ge(RLTimerGetTolerance(probe.timer), 0);
    ck_assert_double_le(RLTimerGetTolerance(probe.timer), 0.005);
    while (probe.calls < 2) expect_run(kRLDefaultMode, 0.01, false, TimedOut);
}
