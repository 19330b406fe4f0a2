/* SPDX-License-Identifier: MIT */
/* Scenarios of section 8, custom sources: equality, validity, schedule and cancel, signals. */
#include "scenario.h"

SCENARIO(source_context, "S-SRC-1 S-SRC-11 S-SRC-14",
         "The context is retained at creation and released with the source, not at invalidation.") {
    RLSourceRef s = source_with("s", COUNTED, 0, NULL);
    RLAddSource(loop, s, D);
    RLSourceInvalidate(s);
    say("invalid");
    RLSourceContext c = {0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    RLSourceGetContext(s, &c);
    yes("info", c.info != NULL);
    yes("perform", c.perform != NULL);
    RLRelease(s);
    RLRelease(source_with("t", COUNTED, 0, NULL));
}

static const void *other_info(const void *info) { return (const char *)info + 1; }
static void say_info(void *info) { say("%s", (const char *)info); }

SCENARIO(source_retain_replaces_info, "S-SRC-1", "What retain returns becomes the info.") {
    static char text[] = "xinfo";
    RLSourceContext c = {0, text, other_info, NULL, NULL, NULL, NULL, NULL, NULL, say_info};
    RLSourceRef s = RLSourceCreate(0, &c);
    c.info = "changed";
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 0, false);
    RLSourceContext got = {0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    RLSourceGetContext(s, &got);
    say("%s", (const char *)got.info);
}

SCENARIO(source_order_is_kept, "S-SRC-4", "The order is the creation value, also when invalid.") {
    RLSourceRef s = source_with("s", PLAIN, -7, NULL);
    say("%ld", RLSourceGetOrder(s));
    RLSourceInvalidate(s);
    say("%ld", RLSourceGetOrder(s));
}

static void nothing(void *info) { (void)info; }
static bool always(const void *a, const void *b) {
    (void)a;
    (void)b;
    return true;
}
static bool never(const void *a, const void *b) {
    (void)a;
    (void)b;
    return false;
}
static RLHashCode seven(const void *info) {
    (void)info;
    return 7;
}

static RLSourceRef make(RLIndex order, void *info, bool (*equal)(const void *, const void *),
                        RLHashCode (*hash)(const void *), void (*performs)(void *)) {
    RLSourceContext c = {0, info, NULL, NULL, NULL, equal, hash, NULL, NULL, performs};
    return RLSourceCreate(order, &c);
}

SCENARIO(source_equality, "S-SRC-5 S-SRC-6",
         "Order, hash, equal, perform, version and validity decide, then equal or the info pointer.") {
    int a, b;
    yes("same-info", RLEqual(make(0, &a, NULL, NULL, nothing), make(0, &a, NULL, NULL, nothing)));
    yes("other-info", RLEqual(make(0, &a, NULL, NULL, nothing), make(0, &b, NULL, NULL, nothing)));
    yes("other-order", RLEqual(make(0, &a, NULL, NULL, nothing), make(1, &a, NULL, NULL, nothing)));
    yes("other-perform", RLEqual(make(0, &a, NULL, NULL, nothing), make(0, &a, NULL, NULL, NULL)));
    yes("other-hash", RLEqual(make(0, &a, NULL, NULL, nothing), make(0, &a, NULL, seven, nothing)));
    yes("always", RLEqual(make(0, &a, always, NULL, nothing), make(0, &b, always, NULL, nothing)));
    yes("never", RLEqual(make(0, &a, never, NULL, nothing), make(0, &a, never, NULL, nothing)));
    yes("mixed", RLEqual(make(0, &a, always, NULL, nothing), make(0, &a, NULL, NULL, nothing)));
    RLSourceRef s = make(0, &a, never, NULL, nothing);
    yes("itself", RLEqual(s, s));
    RLSourceRef invalid = make(0, &a, NULL, NULL, nothing);
    RLSourceInvalidate(invalid);
    yes("invalid", RLEqual(invalid, make(0, &a, NULL, NULL, nothing)));
    say("%lu", RLHash(make(0, &a, NULL, seven, nothing)));
    yes("pointer", RLHash(make(0, &a, NULL, NULL, nothing)) == (RLHashCode)(uintptr_t)&a);
}

SCENARIO(source_equal_is_one_member, "S-SRC-7 S-SRC-8",
         "A source equal to a member is not added; Contains and Remove take it for the member.") {
    RLSourceRef a = source_with("x", EQUATED | SCHEDULED, 0, NULL),
                b = source_with("x", EQUATED | SCHEDULED, 0, NULL);
    RLAddSource(loop, a, D);
    RLAddSource(loop, b, D);
    yes("b", RLContainsSource(loop, b, D));
    RLSourceSignal(b);
    run(D, 0, true);
    RLSourceSignal(a);
    run(D, 0, true);
    RLRemoveSource(loop, b, D);
    yes("a", RLContainsSource(loop, a, D));
}

SCENARIO(source_invalidate, "S-SRC-9 S-SRC-10 S-SRC-12 S-SRC-13 S-SRC-28",
         "Invalidation clears the signal and cancels every membership once; nothing revives it.") {
    RLSourceRef s = source_with("s", SCHEDULED, 0, NULL);
    RLAddSource(loop, s, COMMON);
    RLSourceSignal(s);
    RLSourceInvalidate(s);
    yes("valid", RLSourceIsValid(s));
    yes("signalled", RLSourceIsSignalled(s));
    yes("common", RLContainsSource(loop, s, COMMON));
    RLSourceInvalidate(s);
    RLSourceSignal(s);
    yes("signalled", RLSourceIsSignalled(s));
    RLAddSource(loop, s, D);
    RLAddSource(loop, s, COMMON);
    yes("default", RLContainsSource(loop, s, D));
    run(D, 0, false);
}

SCENARIO(source_invalidate_two_loops, "S-SRC-10 S-SRC-21",
         "Invalidation cancels the membership in each loop, on the calling thread.") {
    RLSourceRef s = source_with("s", SCHEDULED, 0, NULL);
    RLAddSource(loop, s, D);
    RLRunLoopRef mine = loop;
    elsewhere(^{
        RLRunLoopRef here = RLGetCurrent();
        RLAddSource(here, s, D);
        RLRemoveSource(mine, s, D);
        RLSourceInvalidate(s);
        say("end");
    });
}

SCENARIO(source_invalidate_in_perform, "S-SRC-16 S-RUN-9",
         "A source may invalidate itself in its perform; cancel runs inside the call.") {
    __block RLSourceRef s = source_with("s", SCHEDULED, 0, ^{
        RLSourceInvalidate(s);
        say("invalidated");
    });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 1, false);
}

SCENARIO(source_invalidate_from_another_thread, "S-SRC-17 S-SRC-21",
         "Invalidating from another thread during perform returns; the perform finishes.") {
    __block RLSourceRef s = source_with("s", SCHEDULED, 0, ^{
        elsewhere(^{ RLSourceInvalidate(s); });
        say("goes-on");
        RLSourceSignal(s);
    });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 1, false);
}

SCENARIO(source_release_in_perform, "S-SRC-16 S-THR-5 S-REF-4",
         "A source released and removed in its perform lives until the perform returned.") {
    __block RLSourceRef s = source_with("s", COUNTED, 0, ^{
        RLRelease(s);
        RLRemoveSource(loop, s, D);
        say("removed");
    });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 0, false);
}

static void asking_schedule(void *info, RLRunLoopRef rl, RLMode mode) {
    RLSourceRef s = *(RLSourceRef *)info;
    say("+%s", mode_word(mode));
    yes("member", RLContainsSource(rl, s, mode));
}
static void asking_cancel(void *info, RLRunLoopRef rl, RLMode mode) {
    RLSourceRef s = *(RLSourceRef *)info;
    say("-%s", mode_word(mode));
    yes("member", RLContainsSource(rl, s, mode));
    yes("valid", RLSourceIsValid(s));
}

SCENARIO(source_schedule_and_cancel, "S-SRC-18 S-SRC-19 S-SRC-22",
         "Inside schedule the source is a member; inside cancel it is not, and valid after Remove.") {
    static RLSourceRef s;
    RLSourceContext c = {0, &s, NULL, NULL, NULL, NULL, NULL, asking_schedule, asking_cancel, nothing};
    s = RLSourceCreate(0, &c);
    RLAddSource(loop, s, D);
    RLRemoveSource(loop, s, D);
    RLAddSource(loop, s, "m");
    RLSourceInvalidate(s);
}

SCENARIO(source_schedule_on_callers_thread, "S-SRC-21",
         "schedule and cancel run inside the call, on the caller's thread.") {
    RLSourceRef s = source_with("s", SCHEDULED, 0, NULL);
    elsewhere(^{
        say("add");
        RLAddSource(loop, s, D);
        say("added");
        RLRemoveSource(loop, s, D);
        say("removed");
    });
}

SCENARIO(source_signals_count_once, "S-SRC-25 S-SRC-38", "Signals before the perform count once.") {
    observe("", D);
    RLSourceRef s = source("s", NULL);
    RLAddSource(loop, s, D);
    yes("signalled", RLSourceIsSignalled(s));
    RLSourceSignal(s);
    RLSourceSignal(s);
    RLSourceSignal(s);
    yes("signalled", RLSourceIsSignalled(s));
    run(D, 1, false);
    yes("signalled", RLSourceIsSignalled(s));
}

SCENARIO(source_signal_survives_removal, "S-SRC-27",
         "A signal is kept before the source is added and after it is removed.") {
    RLSourceRef s = source("s", NULL);
    RLSourceSignal(s);
    RLAddSource(loop, s, D);
    RLRemoveSource(loop, s, D);
    yes("signalled", RLSourceIsSignalled(s));
    RLAddSource(loop, s, "m");
    run("m", 0, true);
}

SCENARIO(source_signal_in_perform, "S-SRC-29 S-PASS-7",
         "The flag is clear inside perform; a signal there performs again with no sleep.") {
    observe("", D);
    __block int n = 0;
    __block RLSourceRef s = source("s", ^{
        yes("signalled", RLSourceIsSignalled(s));
        if (++n < 3) RLSourceSignal(s);
    });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 1, false);
}

SCENARIO(source_batch_order, "S-SRC-31",
         "A batch is sorted by order; distinct orders, signalled and added in other ways.") {
    RLIndex orders[] = {5, -3, 0, 9, -8};
    const char *names[] = {"5", "-3", "0", "9", "-8"};
    RLSourceRef s[5];
    for (int i = 0; i < 5; i++) {
        s[i] = source_with(names[i], PLAIN, orders[i], NULL);
        RLAddSource(loop, s[i], D);
    }
    for (int i = 4; i >= 0; i--) RLSourceSignal(s[i]);
    run(D, 0, false);
}

SCENARIO(source_batch_equal_orders, "S-SRC-31",
         "Sources of equal order perform in the order they were first signalled in.") {
    RLSourceRef a = source("a", NULL), b = source("b", NULL), c = source("c", NULL),
                d = source("d", NULL);
    RLAddSource(loop, a, D);
    RLAddSource(loop, b, D);
    RLAddSource(loop, c, D);
    RLAddSource(loop, d, D);
    RLSourceRef order[] = {c, a, d, b};
    for (int i = 0; i < 4; i++) {
        RLSourceSignal(order[i]);
        take(0.002);
    }
    RLSourceSignal(c);
    run(D, 0, false);
}

SCENARIO(source_batch_signalled_before_added, "S-SRC-31 S-SRC-27",
         "The age of a signal counts also if the source was added, or added again, after it.") {
    RLSourceRef a = source("a", NULL), b = source("b", NULL), c = source("c", NULL);
    RLAddSource(loop, a, D);
    RLAddSource(loop, b, D);
    keep("other");
    RLSourceSignal(a);
    take(0.002);
    RLSourceSignal(c);
    take(0.002);
    RLSourceSignal(b);
    run("other", 0, false);
    RLAddSource(loop, c, D);
    RLRemoveSource(loop, a, D);
    RLAddSource(loop, a, D);
    run(D, 0, false);
}

SCENARIO(source_batch_is_a_snapshot, "S-SRC-32",
         "A source signalled or added during the batch waits for the next pass.") {
    observe("", D);
    RLSourceRef b = source_with("b", PLAIN, 2, NULL), c = source_with("c", PLAIN, 3, NULL);
    RLSourceRef a = source_with("a", PLAIN, 1, ^{
        RLSourceSignal(b);
        RLSourceSignal(c);
        RLAddSource(loop, c, D);
    });
    RLAddSource(loop, a, D);
    RLAddSource(loop, b, D);
    RLSourceSignal(a);
    run(D, 1, false);
}

SCENARIO(source_batch_removed_member, "S-SRC-33 S-THR-6",
         "A batch member removed by an earlier callback still performs.") {
    RLSourceRef b = source_with("b", PLAIN, 2, NULL);
    RLSourceRef a = source_with("a", PLAIN, 1, ^{ RLRemoveSource(loop, b, D); });
    RLAddSource(loop, a, D);
    RLAddSource(loop, b, D);
    RLSourceSignal(a);
    RLSourceSignal(b);
    run(D, 0, false);
    run(D, 0, false);
}

SCENARIO(source_batch_invalid_member, "S-SRC-34",
         "A batch member invalidated by an earlier callback does not perform.") {
    RLSourceRef b = source_with("b", PLAIN, 2, NULL);
    RLSourceRef a = source_with("a", PLAIN, 1, ^{ RLSourceInvalidate(b); });
    RLAddSource(loop, a, D);
    RLAddSource(loop, b, D);
    RLSourceSignal(a);
    RLSourceSignal(b);
    run(D, 0, false);
}

SCENARIO(source_batch_performed_member, "S-SRC-35",
         "A batch member that a nested run performed does not perform again.") {
    RLSourceRef b = source_with("b", PLAIN, 2, NULL);
    RLSourceRef a = source_with("a", PLAIN, 1, ^{ run(D, 0, false); });
    RLAddSource(loop, a, D);
    RLAddSource(loop, b, D);
    RLSourceSignal(a);
    RLSourceSignal(b);
    run(D, 0, false);
}

SCENARIO(source_no_perform, "S-SRC-36", "A source with no perform counts as handled.") {
    observe("", D);
    RLSourceRef s = source_with("s", SILENT, 0, NULL);
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 1, true);
    yes("signalled", RLSourceIsSignalled(s));
}

SCENARIO(source_reentered, "S-SRC-37 S-NEST-3", "A nested run performs the same source again.") {
    __block int n = 0;
    __block RLSourceRef s = source("s", ^{
        if (++n < 3) {
            RLSourceSignal(s);
            run(D, 0, true);
        }
    });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 0, true);
}

SCENARIO(source_same_in_two_modes, "S-MODE-25 S-SRC-25",
         "A signal of a source in two modes is used up by the mode that runs first.") {
    RLSourceRef s = source("s", NULL);
    RLAddSource(loop, s, "a");
    RLAddSource(loop, s, "b");
    RLSourceSignal(s);
    run("b", 0, true);
    run("a", 0, true);
}

SCENARIO(source_added_in_perform, "S-SRC-18 S-SRC-32",
         "A signalled source added by a perform performs in the next pass.") {
    observe("", D);
    RLSourceRef b = source_with("b", SCHEDULED, 0, NULL);
    RLSourceSignal(b);
    RLSourceRef a = source("a", ^{ RLAddSource(loop, b, D); });
    RLAddSource(loop, a, D);
    RLSourceSignal(a);
    run(D, 1, false);
}

SCENARIO(source_removed_by_entry, "S-SRC-19", "A source removed before the batch does not perform.") {
    RLSourceRef s = source_with("s", SCHEDULED, 0, NULL);
    keep(D);
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    RLAddObserver(loop, observer("BS", kRLBeforeSources, 0, ^{ RLRemoveSource(loop, s, D); }), D);
    run(D, 0, false);
    yes("signalled", RLSourceIsSignalled(s));
}

SCENARIO(source_common_signal, "S-SRC-25 S-MODE-14", "A common source performs in each common mode.") {
    RLAddCommonMode(loop, "m");
    RLSourceRef s = source("s", NULL);
    RLAddSource(loop, s, COMMON);
    RLSourceSignal(s);
    run("m", 0, true);
    RLSourceSignal(s);
    run(D, 0, true);
}
