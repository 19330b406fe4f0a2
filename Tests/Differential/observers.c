/* SPDX-License-Identifier: MIT */
/* Scenarios of sections 10 and 11: observers and nested runs. */
#include "scenario.h"

static void note(RLObserverRef o, RLActivity activity, void *info) {
    (void)o;
    say("%s%lu", info ? (const char *)info : "", (unsigned long)activity);
}

SCENARIO(observer_activities, "S-OBS-1 S-OBS-13",
         "One activity per call, of those asked for; a mask of no activity is never called.") {
    RLOptionFlags masks[] = {0, 1UL << 3, 1UL << 8, kRLEntry | kRLExit, ~0UL};
    for (int i = 0; i < 5; i++) RLAddObserver(loop, RLObserverCreate(masks[i], true, 0, note, NULL), D);
    keep(D);
    run(D, 0, false);
}

SCENARIO(observer_order, "S-OBS-2", "Observers are called in ascending order, equal ones as added.") {
    RLIndex orders[] = {3, -1, 3, 0, -1, 100, -100};
    const char *names[] = {"3a", "-1a", "3b", "0", "-1b", "100", "-100"};
    for (int i = 0; i < 7; i++) RLAddObserver(loop, observer(names[i], kRLEntry, orders[i], NULL), D);
    keep(D);
    run(D, 0, false);
}

SCENARIO(observer_order_after_re_adding, "S-OBS-2", "A removed and re-added observer comes last of its order.") {
    RLObserverRef a = observer("a", kRLEntry, 0, NULL), b = observer("b", kRLEntry, 0, NULL);
    RLAddObserver(loop, a, D);
    RLAddObserver(loop, b, D);
    RLRemoveObserver(loop, a, D);
    RLAddObserver(loop, a, D);
    keep(D);
    run(D, 0, false);
}

SCENARIO(observer_added_during_notification, "S-OBS-3 S-OBS-4",
         "An observer added during a notification is not called for it.") {
    keep(D);
    RLObserverRef late = observer("late", kRLEntry | kRLBeforeTimers, 5, NULL);
    RLAddObserver(loop, observer("a", kRLEntry, 0, ^{ RLAddObserver(loop, late, D); }), D);
    run(D, 0, false);
}

SCENARIO(observer_removed_during_notification, "S-OBS-5",
         "An observer removed by an earlier one of the same notification is still called.") {
    keep(D);
    RLObserverRef b = observer("b", kRLEntry | kRLBeforeTimers, 1, NULL);
    RLAddObserver(loop, observer("a", kRLEntry, 0, ^{ RLRemoveObserver(loop, b, D); }), D);
    RLAddObserver(loop, b, D);
    run(D, 0, false);
}

SCENARIO(observer_invalidated_during_notification, "S-OBS-6",
         "An observer invalidated by an earlier one of the same notification is not called.") {
    keep(D);
    RLObserverRef b = observer("b", kRLEntry | kRLBeforeTimers, 1, NULL);
    RLAddObserver(loop, observer("a", kRLEntry, 0, ^{ RLObserverInvalidate(b); }), D);
    RLAddObserver(loop, b, D);
    run(D, 0, false);
}

SCENARIO(observer_one_shot, "S-OBS-7",
         "A one-shot is called once, for the first of its activities; valid in the call, not after.") {
    keep(D);
    __block RLObserverRef o = observer_with("o", COUNTED, kRLBeforeTimers | kRLBeforeSources, false, 0, ^{
        yes("valid", RLObserverIsValid(o));
        yes("member", RLContainsObserver(loop, o, D));
    });
    RLAddObserver(loop, o, D);
    observe("", D);
    run(D, 0, false);
    yes("valid", RLObserverIsValid(o));
    yes("member", RLContainsObserver(loop, o, D));
}

SCENARIO(observer_on_the_stack, "S-OBS-8 S-OBS-9 S-NEST-3",
         "An observer on the stack is called for nothing; others are called in nested runs.") {
    keep(D);
    observe("", D);
    RLAddObserver(loop, observer("o", kRLBeforeTimers | kRLExit, -1, ^{
        say("[");
        run(D, 0, false);
        say("]");
    }), D);
    run(D, 0, false);
}

SCENARIO(observer_one_shot_with_nested_run, "S-OBS-7 S-OBS-8",
         "A one-shot that runs the loop in its callback is not called again.") {
    keep(D);
    RLAddObserver(loop, observer_with("o", PLAIN, kRLEntry, false, 0, ^{ run(D, 0, false); }), D);
    run(D, 0, false);
    run(D, 0, false);
}

SCENARIO(observer_does_not_keep_the_mode, "S-OBS-12", "Observers alone leave a mode empty.") {
    observe("", D);
    run(D, 1, false);
}

SCENARIO(observer_no_callback, "S-OBS-14", "With no callback nothing is called; a one-shot ends all the same.") {
    keep(D);
    RLObserverRef once = observer_with("once", SILENT, kRLBeforeTimers, false, 0, NULL),
                  other = observer_with("other", SILENT, kRLAfterWaiting, false, 0, NULL);
    RLAddObserver(loop, once, D);
    RLAddObserver(loop, other, D);
    run(D, 0, false);
    yes("once", RLObserverIsValid(once));
    yes("other", RLObserverIsValid(other));
}

SCENARIO(observer_context, "S-OBS-15 S-OBS-16 S-OBS-18",
         "Context: retained at creation, released inside Invalidate, then NULL; the rest stays.") {
    RLObserverRef o = observer_with("o", COUNTED, kRLEntry | kRLExit, true, -4, NULL);
    RLAddObserver(loop, o, D);
    keep(D);
    run(D, 0, false);
    RLObserverInvalidate(o);
    say("invalid");
    RLObserverInvalidate(o);
    RLObserverContext c = {0, NULL, NULL, NULL, NULL};
    RLObserverGetContext(o, &c);
    yes("info", c.info != NULL);
    yes("retain", c.retain != NULL);
    say("%lu %ld", RLObserverGetActivities(o), RLObserverGetOrder(o));
    yes("repeats", RLObserverDoesRepeat(o));
    yes("valid", RLObserverIsValid(o));
    RLRelease(o);
    RLRelease(observer_with("p", COUNTED, kRLEntry, true, 0, NULL));
}

SCENARIO(observer_no_context, "S-OBS-15", "Without a context the info is NULL.") {
    keep(D);
    RLAddObserver(loop, RLObserverCreate(kRLEntry, true, 0, note, NULL), D);
    run(D, 0, false);
}

SCENARIO(observer_mask_is_kept, "S-OBS-18", "The activities are reported as given at creation.") {
    say("%lx", RLObserverGetActivities(RLObserverCreate(0xFFFFFFFFFUL, true, 0, note, NULL)));
    say("%lx", RLObserverGetActivities(RLObserverCreate(0, true, 0, note, NULL)));
    say("%lx", RLObserverGetActivities(RLObserverCreate(kRLAllActivities, true, 0, note, NULL)));
}

SCENARIO(observer_invalid_is_not_added, "S-OBS-17", "An invalid observer is not added.") {
    RLObserverRef o = observer("o", kRLEntry, 0, NULL);
    RLObserverInvalidate(o);
    RLAddObserver(loop, o, D);
    RLAddObserver(loop, o, COMMON);
    yes("default", RLContainsObserver(loop, o, D));
    yes("common", RLContainsObserver(loop, o, COMMON));
}

SCENARIO(observer_invalidate_leaves_all_modes, "S-OBS-16",
         "Invalidation takes the observer out of all modes and the common items.") {
    RLObserverRef o = observer("o", kRLEntry, 0, NULL);
    RLAddObserver(loop, o, COMMON);
    RLAddObserver(loop, o, "m");
    RLObserverInvalidate(o);
    yes("default", RLContainsObserver(loop, o, D));
    yes("m", RLContainsObserver(loop, o, "m"));
    yes("common", RLContainsObserver(loop, o, COMMON));
}

SCENARIO(observer_changes_everything, "S-OBS-19",
         "An observer may add a source, queue a block, wake, and invalidate itself.") {
    keep(D);
    observe("", D);
    RLSourceRef s = source("s", NULL);
    RLSourceSignal(s);
    __block RLObserverRef o = observer_with("o", COUNTED, kRLBeforeTimers, true, 1, ^{
        RLAddSource(loop, s, D);
        perform("block", D, NULL);
        RLWakeUp(loop);
        RLObserverInvalidate(o);
        say("invalidated");
    });
    RLAddObserver(loop, o, D);
    run(D, 0, true);
}

SCENARIO(observer_handler, "S-OBS-20 S-OBS-14", "The block form calls its block with its observer.") {
    keep(D);
    __block RLObserverRef o =
        RLObserverCreateWithHandler(kRLEntry | kRLExit, true, 0, ^(RLObserverRef seen, RLActivity activity) {
            say("block%lu", (unsigned long)activity);
            yes("same", seen == o);
        });
    RLAddObserver(loop, o, D);
    RLObserverRef none = RLObserverCreateWithHandler(kRLEntry, false, 0, NULL);
    RLAddObserver(loop, none, D);
    run(D, 0, false);
    yes("valid", RLObserverIsValid(none));
}

SCENARIO(observer_of_another_mode, "S-OBS-2 S-MODE-23", "Only the running mode's observers are called.") {
    observe("m.", "m");
    observe("d.", D);
    keep(D);
    run(D, 0, false);
}

SCENARIO(observer_removed_later, "S-OBS-11 S-THR-6", "A removed observer is called no more, and stays valid.") {
    keep(D);
    __block RLObserverRef o = observer("o", kRLBeforeTimers | kRLBeforeSources, 0,
                                       ^{ RLRemoveObserver(loop, o, D); });
    RLAddObserver(loop, o, D);
    run(D, 0, false);
    yes("valid", RLObserverIsValid(o));
    RLAddObserver(loop, o, D);
    run(D, 0, false);
}

SCENARIO(observer_released_in_callback, "S-THR-5 S-OBS-5",
         "An observer that removes itself and loses its last reference lives until it returned.") {
    keep(D);
    __block RLObserverRef o = observer_with("o", COUNTED, kRLEntry, true, 0, ^{
        RLRelease(o);
        RLRemoveObserver(loop, o, D);
        say("removed");
    });
    RLAddObserver(loop, o, D);
    run(D, 0, false);
}

SCENARIO(nested_full_order, "S-NEST-1 S-MODE-9", "A nested run in a perform, with all notifications.") {
    observe("", D);
    observe("n.", "inner");
    keep("inner");
    RLSourceRef s = source("s", ^{ run("inner", 0.05, false); });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 0, false);
}

SCENARIO(nested_same_mode, "S-NEST-1", "A nested run in the same mode has its own Entry and Exit.") {
    observe("", D);
    RLSourceRef s = source("s", ^{ run(D, 0, false); });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 0, false);
}

SCENARIO(nested_results, "S-NEST-2", "A nested result goes to its own caller only.") {
    RLSourceRef in = source("in", NULL);
    RLAddSource(loop, in, "inner");
    RLSourceRef out = source("out", ^{
        RLSourceSignal(in);
        run("inner", 1, true);
        run("missing", 1, true);
    });
    RLAddSource(loop, out, D);
    RLSourceSignal(out);
    run(D, 0, false);
}

SCENARIO(nested_stop_then_outer_stop, "S-NEST-2 S-STOP-2", "Each run has its own stop.") {
    keep(D);
    RLSourceRef in = source("in", ^{ RLStop(loop); });
    RLAddSource(loop, in, "inner");
    RLTimerRef t = timer("t", -1, 0, ^{
        RLSourceSignal(in);
        run("inner", 100, false);
        RLStop(loop);
    });
    RLAddTimer(loop, t, D);
    run(D, 100, false);
}

SCENARIO(nested_in_every_callback, "S-NEST-1",
         "Observer, block, source, port and timer may each run the loop.") {
    keep("inner");
    Act nest = ^{ run("inner", 0, false); };
    RLAddObserver(loop, observer_with("o", PLAIN, kRLBeforeSources, false, 0, nest), D);
    perform("block", D, nest);
    RLSourceRef s = source("s", nest);
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    RLAddTimer(loop, timer("t", -1, 0, nest), D);
    run(D, 0, true);
    RLAddSource(loop, port("p", event(1), nest), D);
    run(D, 1, true);
}

SCENARIO(nested_only_the_firing_timer, "S-NEST-4", "A mode of the firing timer alone is waited in.") {
    __block RLTimerRef t = timer("t", -1, 0, ^{ run(D, 0.05, false); });
    RLAddTimer(loop, t, D);
    run(D, 1, false);
}

SCENARIO(nested_in_perform_leaves_a_poll, "S-NEST-5 S-PASS-5",
         "After a nested run in a v0 perform the outer pass goes on as a poll.") {
    observe("", D);
    keep("inner");
    RLSourceRef s = source("s", ^{ run("inner", 0, false); });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    RLAddTimer(loop, timer("t", -1, 0, NULL), D);
    run(D, 1, true);
}

SCENARIO(nested_deep, "S-NEST-1 S-SRC-37", "Runs may be nested as deep as the stack allows: fifty here.") {
    __block int depth = 0;
    __block RLSourceRef s = source(NULL, ^{
        if (++depth < 50) {
            RLSourceSignal(s);
            RLRunInMode(D, 1, true);
        }
    });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 1, true);
    say("%d", depth);
}

SCENARIO(nested_fires_outer_batch_timer, "S-NEST-3 S-TMR-23",
         "A nested run fires the due timers of the outer batch; they do not fire again.") {
    keep(D);
    RLTimerRef a = timer("a", 0.01, 0, ^{ run(D, 0, false); }), b = timer("b", 0.02, 0, NULL);
    RLAddTimer(loop, a, D);
    RLAddTimer(loop, b, D);
    take(0.1);
    run(D, 0, false);
}

SCENARIO(nested_signal_served_by_outer, "S-NEST-3 S-SRC-31",
         "A source signalled in a nested run of another mode performs in the outer run.") {
    RLSourceRef other = source_with("other", PLAIN, 2, NULL);
    RLAddSource(loop, other, D);
    RLSourceRef in = source("in", ^{ RLSourceSignal(other); });
    RLAddSource(loop, in, "inner");
    RLSourceRef s = source_with("s", PLAIN, 1, ^{
        RLSourceSignal(in);
        run("inner", 0, false);
    });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 1, false);
}
