/* SPDX-License-Identifier: MIT */
/* Scenarios of section 2: modes, the common modes, membership; and of section 1: the loop itself. */
#include "scenario.h"

SCENARIO(loop_is_one_per_thread, "S-LOOP-1 S-LOOP-2 S-LOOP-3 S-LOOP-5",
         "A thread has one loop, another than the main one, with one mode and not running.") {
    yes("same", RLGetCurrent() == loop);
    yes("main", RLGetMain() == loop);
    __block RLRunLoopRef other;
    elsewhere(^{ other = RLGetCurrent(); });
    yes("other", other != loop);
    yes("waiting", RLIsWaiting(loop));
    say_modes();
    say("%s", mode_word(RLCopyCurrentMode(loop)));
}

SCENARIO(loop_end_cancels_sources, "S-LOOP-7 S-LOOP-8",
         "The end of the thread cancels its sources; they stay valid and signalled.") {
    __block RLSourceRef inner;
    elsewhere(^{
        loop = RLGetCurrent();
        inner = source_with("i", SCHEDULED, 0, NULL);
        RLAddSource(loop, inner, D);
        RLSourceSignal(inner);
    });
    loop = RLGetCurrent();
    yes("valid", RLSourceIsValid(inner));
    yes("signalled", RLSourceIsSignalled(inner));
    RLAddSource(loop, inner, D);
    run(D, 0, true);
}

SCENARIO(loop_end_detaches_timers_and_observers, "S-LOOP-9",
         "The end of the thread frees timers and observers for another loop, with no callback.") {
    __block RLTimerRef t;
    __block RLObserverRef o;
    elsewhere(^{
        t = timer_with("t", COUNTED, -1, 0, NULL);
        o = observer_with("o", COUNTED, kRLEntry, true, 0, NULL);
        RLAddTimer(RLGetCurrent(), t, D);
        RLAddObserver(RLGetCurrent(), o, D);
    });
    yes("t", RLTimerIsValid(t));
    yes("o", RLObserverIsValid(o));
    RLAddTimer(loop, t, D);
    RLAddObserver(loop, o, D);
    run(D, 0, false);
}

SCENARIO(loop_end_releases_blocks, "S-LOOP-10",
         "A queued block is released without being run when the thread ends.") {
    elsewhere(^{
        loop = RLGetCurrent();
        perform_counted("block", D, NULL);
    });
    say("joined");
}

SCENARIO(mode_names_compare_by_content, "S-MODE-1", "A mode is known by the text of its name.") {
    char name[] = "m", same[] = "m";
    RLSourceRef s = source("s", NULL);
    RLAddSource(loop, s, name);
    yes("contains", RLContainsSource(loop, s, same));
    RLSourceSignal(s);
    run(same, 0, true);
    RLRemoveSource(loop, s, same);
    yes("contains", RLContainsSource(loop, s, name));
}

DIFFERS(mode_pseudo_by_content, "S-MODE-1", "A text equal to the pseudo-mode's name names it too.",
        "default=no common=no copy=yes [common,default]",
        "default=yes common=yes copy=yes [default]") {
    char copy[] = "kCFRunLoopCommonModes";
    RLSourceRef s = source("s", NULL);
    RLAddSource(loop, s, copy);
    yes("default", RLContainsSource(loop, s, D));
    yes("common", RLContainsSource(loop, s, COMMON));
    yes("copy", RLContainsSource(loop, s, copy));
    say_modes();
}

SCENARIO(mode_is_made_by_add, "S-MODE-2 S-MODE-6", "Every Add* makes the mode it names.") {
    say_modes();
    RLAddSource(loop, source("s", NULL), "a");
    say_modes();
    RLAddTimer(loop, timer("t", FAR, 0, NULL), "b");
    say_modes();
    RLAddObserver(loop, observer("o", kRLEntry, 0, NULL), "c");
    say_modes();
}

SCENARIO(mode_is_made_by_perform, "S-MODE-2 S-BLK-12", "Queueing a block makes the mode it names.") {
    perform("block", "a", NULL);
    say_modes();
}

SCENARIO(mode_is_not_made_by_asking, "S-MODE-3", "Run, Contains, Remove and queries make no mode.") {
    RLSourceRef s = source("s", NULL);
    RLTimerRef t = timer("t", FAR, 0, NULL);
    RLObserverRef o = observer("o", kRLEntry, 0, NULL);
    run("a", 0, false);
    yes("s", RLContainsSource(loop, s, "b"));
    yes("t", RLContainsTimer(loop, t, "c"));
    yes("o", RLContainsObserver(loop, o, "d"));
    RLRemoveSource(loop, s, "e");
    RLRemoveTimer(loop, t, "f");
    RLRemoveObserver(loop, o, "g");
    say("%g", RLGetNextTimerFireDate(loop, "h"));
    say_modes();
}

SCENARIO(mode_common_unknown, "S-MODE-4",
         "AddCommonMode makes the mode only where there are common items for it.") {
    RLAddCommonMode(loop, "a");
    say_modes();
    RLAddSource(loop, source("s", NULL), COMMON);
    RLAddCommonMode(loop, "b");
    say_modes();
}

SCENARIO(mode_common_never_made_is_missing, "S-RUN-4 S-MODE-4",
         "A common mode that was never made is missing, even while a block waits for it.") {
    RLAddCommonMode(loop, "a");
    perform("block", COMMON, NULL);
    run("a", 0, false);
    run(D, 0, false);
}

SCENARIO(mode_stays_when_emptied, "S-MODE-5", "A mode that lost its last item stays.") {
    RLSourceRef s = source("s", NULL);
    RLAddSource(loop, s, "a");
    RLRemoveSource(loop, s, "a");
    say_modes();
    run("a", 0, false);
}

DIFFERS(mode_pseudo_is_not_listed, "S-MODE-7 S-BLK-12",
        "A block queued for the pseudo-mode does not make a mode of that name.", "[common,default]",
        "[default]") {
    perform("block", COMMON, NULL);
    say_modes();
}

SCENARIO(mode_current, "S-MODE-8 S-MODE-9",
         "The current mode is the innermost run's, from Entry to Exit; any thread may ask.") {
    void (^ask)(void) = ^{ say("%s", mode_word(RLCopyCurrentMode(loop))); };
    RLAddObserver(loop, observer("E", kRLEntry, 0, ask), "outer");
    RLAddObserver(loop, observer("X", kRLExit, 0, ask), "outer");
    RLAddObserver(loop, observer("E", kRLEntry, 0, ask), "inner");
    RLAddObserver(loop, observer("X", kRLExit, 0, ask), "inner");
    RLSourceRef s = source("s", ^{
        ask();
        run("inner", 0, false);
        ask();
        elsewhere(ask);
    });
    RLAddSource(loop, s, "outer");
    RLSourceSignal(s);
    keep("inner");
    ask();
    run("outer", 0, false);
    ask();
}

SCENARIO(mode_empty_name, "S-MODE-10", "The empty string names an ordinary mode.") {
    observe("", "");
    keep("");
    say_modes();
    run("", 0, false);
}

SCENARIO(mode_default_is_common, "S-MODE-11 S-MODE-14 S-SRC-20",
         "What is added under the pseudo-mode is in the default mode, and in every common mode.") {
    RLSourceRef s = source_with("s", SCHEDULED, 0, NULL);
    RLAddSource(loop, s, COMMON);
    yes("default", RLContainsSource(loop, s, D));
    RLAddCommonMode(loop, "m");
    RLAddCommonMode(loop, "m");
    RLAddCommonMode(loop, D);
    yes("m", RLContainsSource(loop, s, "m"));
    RLRemoveSource(loop, s, D);
    RLRemoveSource(loop, s, "m");
}

SCENARIO(mode_common_joins_current_items, "S-MODE-12",
         "A new common mode gets the current common items of all three kinds.") {
    RLSourceRef s = source_with("s", SCHEDULED, 0, NULL);
    RLTimerRef t = timer("t", FAR, 0, NULL);
    RLObserverRef o = observer("o", kRLEntry, 0, NULL);
    RLAddSource(loop, s, COMMON);
    RLAddTimer(loop, t, COMMON);
    RLAddObserver(loop, o, COMMON);
    RLAddCommonMode(loop, "m");
    yes("s", RLContainsSource(loop, s, "m"));
    yes("t", RLContainsTimer(loop, t, "m"));
    yes("o", RLContainsObserver(loop, o, "m"));
    RLRemoveSource(loop, s, D);
    RLRemoveSource(loop, s, "m");
}

SCENARIO(mode_common_again_restores_nothing, "S-MODE-13 S-MODE-18",
         "AddCommonMode of a common mode does not bring back an item removed from it; Add* does.") {
    RLSourceRef s = source_with("s", SCHEDULED, 0, NULL);
    RLAddSource(loop, s, COMMON);
    RLRemoveSource(loop, s, D);
    RLAddCommonMode(loop, D);
    yes("default", RLContainsSource(loop, s, D));
    yes("common", RLContainsSource(loop, s, COMMON));
    RLAddSource(loop, s, COMMON);
    yes("default", RLContainsSource(loop, s, D));
    RLRemoveSource(loop, s, D);
}

SCENARIO(mode_contains_common, "S-MODE-15",
         "Being in every common mode one by one does not make a common item.") {
    RLSourceRef s = source("s", NULL);
    RLAddSource(loop, s, D);
    yes("common", RLContainsSource(loop, s, COMMON));
    RLAddSource(loop, s, COMMON);
    yes("common", RLContainsSource(loop, s, COMMON));
    RLTimerRef t = timer("t", FAR, 0, NULL);
    RLAddTimer(loop, t, D);
    yes("t", RLContainsTimer(loop, t, COMMON));
    RLObserverRef o = observer("o", kRLEntry, 0, NULL);
    RLAddObserver(loop, o, D);
    yes("o", RLContainsObserver(loop, o, COMMON));
}

SCENARIO(mode_remove_common_item, "S-MODE-16",
         "Removal from the pseudo-mode ends every membership in common modes, also individual ones.") {
    RLSourceRef s = source_with("s", SCHEDULED, 0, NULL);
    RLAddSource(loop, s, D);
    RLAddSource(loop, s, "other");
    RLAddSource(loop, s, COMMON);
    RLRemoveSource(loop, s, COMMON);
    yes("default", RLContainsSource(loop, s, D));
    yes("other", RLContainsSource(loop, s, "other"));
    RLRemoveSource(loop, s, "other");
}

SCENARIO(mode_remove_no_common_item, "S-MODE-17",
         "Removal from the pseudo-mode of what is no common item does nothing.") {
    RLSourceRef s = source_with("s", SCHEDULED, 0, NULL);
    RLAddSource(loop, s, D);
    RLRemoveSource(loop, s, COMMON);
    yes("default", RLContainsSource(loop, s, D));
    RLTimerRef t = timer("t", FAR, 0, NULL);
    RLAddTimer(loop, t, D);
    RLRemoveTimer(loop, t, COMMON);
    yes("t", RLContainsTimer(loop, t, D));
    RLObserverRef o = observer("o", kRLEntry, 0, NULL);
    RLAddObserver(loop, o, D);
    RLRemoveObserver(loop, o, COMMON);
    yes("o", RLContainsObserver(loop, o, D));
}

SCENARIO(mode_running_pseudo, "S-MODE-19", "Running the pseudo-mode is Finished at once.") {
    observe("", COMMON);
    keep(COMMON);
    run(COMMON, 0, false);
    run(D, 0, false);
}

DIFFERS(mode_pseudo_in_common_set, "S-MODE-20",
        "The pseudo-mode cannot join the common modes. CoreFoundation recurses until it dies.",
        "added !signal", "added default=yes [default]") {
    RLAddCommonMode(loop, COMMON);
    say("added");
    RLSourceRef s = source("s", NULL);
    RLAddSource(loop, s, COMMON);
    yes("default", RLContainsSource(loop, s, D));
    say_modes();
}

SCENARIO(mode_add_twice, "S-MODE-21 S-OBS-11",
         "Adding an item to a mode it is in does nothing; one removal ends the membership.") {
    RLSourceRef s = source_with("s", SCHEDULED, 0, NULL);
    RLAddSource(loop, s, D);
    RLAddSource(loop, s, D);
    RLRemoveSource(loop, s, D);
    yes("s", RLContainsSource(loop, s, D));
    RLTimerRef t = timer("t", FAR, 0, NULL);
    RLAddTimer(loop, t, D);
    RLAddTimer(loop, t, D);
    RLRemoveTimer(loop, t, D);
    yes("t", RLContainsTimer(loop, t, D));
    RLObserverRef o = observer("o", kRLEntry, 0, NULL);
    RLAddObserver(loop, o, D);
    RLAddObserver(loop, o, COMMON);
    RLRemoveObserver(loop, o, D);
    yes("o", RLContainsObserver(loop, o, D));
    run(D, 0, false);
}

SCENARIO(mode_retains_items, "S-MODE-22 S-REF-2",
         "A mode keeps its items alive after their creator released them.") {
    RLSourceRef s = source_with("s", COUNTED, 0, NULL);
    RLTimerRef t = timer_with("t", COUNTED, FAR, 0, NULL);
    RLObserverRef o = observer_with("o", COUNTED, kRLEntry, true, 0, NULL);
    RLAddSource(loop, s, D);
    RLAddTimer(loop, t, D);
    RLAddObserver(loop, o, D);
    RLRelease(s);
    RLRelease(t);
    RLRelease(o);
    run(D, 0, false);
    say("remove");
    RLRemoveSource(loop, s, D);
    RLRemoveTimer(loop, t, D);
    RLRemoveObserver(loop, o, D);
}

SCENARIO(mode_common_set_retains_items, "S-MODE-22",
         "The common items are kept alive by themselves, also in no mode at all.") {
    RLSourceRef s = source_with("s", COUNTED, 0, NULL);
    RLObserverRef o = observer_with("o", COUNTED, kRLEntry, true, 0, NULL);
    RLAddSource(loop, s, COMMON);
    RLAddObserver(loop, o, COMMON);
    RLRelease(s);
    RLRelease(o);
    RLRemoveSource(loop, s, D);
    RLRemoveObserver(loop, o, D);
    say("removed");
    /* CoreFoundation uses the item after its release if this removal drops the last reference. */
    RLRetain(s);
    RLRetain(o);
    RLRemoveSource(loop, s, COMMON);
    RLRemoveObserver(loop, o, COMMON);
    say("release");
    RLRelease(s);
    RLRelease(o);
}

SCENARIO(mode_holds_events, "S-MODE-23 S-SRC-41",
         "Events of items outside the running mode are held until their mode runs.") {
    RLSourceRef s = source("s", NULL);
    RLSourceRef p = port("p", event(1), NULL);
    RLTimerRef t = timer("t", -1, 0, NULL);
    RLAddSource(loop, s, "a");
    RLAddSource(loop, p, "b");
    RLAddTimer(loop, t, "c");
    keep("c");
    RLSourceSignal(s);
    keep(D);
    run(D, 1, false);
    run("a", 0, true);
    run("b", 0, true);
    run("c", 0, true);
}

SCENARIO(mode_many_modes_and_loops, "S-MODE-25 S-SRC-30 S-TMR-13 S-TMR-16 S-OBS-10",
         "A source may be in two loops; a timer and an observer in one, until they are removed.") {
    RLSourceRef s = source("s", NULL);
    RLTimerRef t = timer("t", FAR, 0, NULL);
    RLObserverRef o = observer("o", kRLEntry, 0, NULL);
    RLAddSource(loop, s, D);
    RLAddTimer(loop, t, D);
    RLAddObserver(loop, o, D);
    elsewhere(^{
        RLRunLoopRef here = RLGetCurrent();
        RLAddSource(here, s, D);
        RLAddTimer(here, t, D);
        RLAddObserver(here, o, D);
        yes("s", RLContainsSource(here, s, D));
        yes("t", RLContainsTimer(here, t, D));
        yes("o", RLContainsObserver(here, o, D));
        RLRemoveTimer(loop, t, D);
        RLRemoveObserver(loop, o, D);
        RLAddTimer(here, t, D);
        RLAddObserver(here, o, D);
        yes("t", RLContainsTimer(here, t, D));
        yes("o", RLContainsObserver(here, o, D));
        RLSourceSignal(s);
        run(D, 0, true);
    });
    yes("signalled", RLSourceIsSignalled(s));
    yes("t", RLContainsTimer(loop, t, D));
}

DIFFERS(mode_common_item_in_no_mode, "S-MODE-26 S-TMR-14 S-OBS-10",
        "A timer or observer that is a common item belongs to its loop, in whatever modes.",
        "t=no o=yes other-t=yes other-o=yes", "t=yes o=yes other-t=no other-o=no") {
    RLTimerRef t = timer("t", FAR, 0, NULL);
    RLObserverRef o = observer("o", kRLEntry, 0, NULL);
    RLAddTimer(loop, t, COMMON);
    RLAddObserver(loop, o, COMMON);
    RLRemoveTimer(loop, t, D);
    RLRemoveObserver(loop, o, D);
    yes("t", RLContainsTimer(loop, t, COMMON));
    yes("o", RLContainsObserver(loop, o, COMMON));
    elsewhere(^{
        RLRunLoopRef here = RLGetCurrent();
        RLAddTimer(here, t, D);
        RLAddObserver(here, o, D);
        yes("other-t", RLContainsTimer(here, t, D));
        yes("other-o", RLContainsObserver(here, o, D));
    });
}
