/* SPDX-License-Identifier: MIT */
/* Scenarios of section 9: timers that fire, in batches, on their grid, and what callbacks may do. */
#include "scenario.h"

SCENARIO(timer_batch_invalidated, "S-TMR-23 S-TMR-24",
         "In a batch, a timer invalidated or postponed by an earlier one does not fire.") {
    keep(D);
    RLTimerRef b = timer("b", 0.02, 0, NULL), c = timer("c", 0.03, 0, NULL),
               d = timer("d", 0.04, 0, NULL);
    RLTimerRef a = timer("a", 0.01, 0, ^{
        RLTimerInvalidate(b);
        RLTimerSetNextFireDate(c, in(FAR));
    });
    RLAddTimer(loop, a, D);
    RLAddTimer(loop, b, D);
    RLAddTimer(loop, c, D);
    RLAddTimer(loop, d, D);
    take(0.1);
    run(D, 0, false);
}

SCENARIO(timer_batch_removed, "S-TMR-25",
         "In a batch, a timer removed from its last mode does not fire; one still in another mode does.") {
    keep(D);
    RLTimerRef b = timer("b", 0.02, 0, NULL), c = timer("c", 0.03, 0, NULL);
    RLTimerRef a = timer("a", 0.01, 0, ^{
        RLRemoveTimer(loop, b, D);
        RLRemoveTimer(loop, c, D);
    });
    RLAddTimer(loop, a, D);
    RLAddTimer(loop, b, D);
    RLAddTimer(loop, c, D);
    RLAddTimer(loop, c, "m");
    take(0.1);
    run(D, 0, false);
}

SCENARIO(timer_batch_added, "S-TMR-26",
         "A due timer added in a batch fires in the next pass; one removed and added back keeps its turn.") {
    keep(D);
    RLTimerRef b = timer("b", 0.02, 0, NULL), c = timer("c", 0.03, 0, NULL);
    RLTimerRef a = timer("a", 0.01, 0, ^{
        RLAddTimer(loop, c, D);
        RLRemoveTimer(loop, b, D);
        RLAddTimer(loop, b, D);
    });
    RLAddTimer(loop, a, D);
    RLAddTimer(loop, b, D);
    take(0.1);
    run(D, 0, false);
    say("next");
    run(D, 0, false);
}

SCENARIO(timer_batch_due_anew, "S-TMR-23 S-PASS-9",
         "A member of a batch that an earlier one makes due anew, by a past date, keeps its turn.") {
    keep(D);
    RLTimerRef b = timer("b", 0.02, 0, NULL), c = timer("c", 0.03, 0, NULL);
    RLTimerRef a = timer("a", 0.01, 0, ^{
        RLTimerSetNextFireDate(b, -1);
    });
    RLAddTimer(loop, a, D);
    RLAddTimer(loop, b, D);
    RLAddTimer(loop, c, D);
    take(0.1);
    run(D, 0, false);
    say("next");
    run(D, 0, false);
}

SCENARIO(timer_batch_nested_order, "S-TMR-21 S-TMR-23 S-TMR-26",
         "In a nested run the rest of a batch fires by instants, with what has become due.") {
    keep(D);
    RLTimerRef b = timer("b", 0.02, 0, NULL), c = timer("c", 0.03, 0, NULL),
               d = timer("d", 0.04, 0, NULL), e = timer("e", 0.15, 0, NULL);
    RLTimerRef a = timer("a", 0.01, 0, ^{
        take(0.15);
        RLRemoveTimer(loop, c, D);
        RLTimerSetNextFireDate(c, -1);
        RLAddTimer(loop, c, D);
        RLTimerSetNextFireDate(b, -1);
        run(D, 0, false);
        say("back");
    });
    RLAddTimer(loop, a, D);
    RLAddTimer(loop, b, D);
    RLAddTimer(loop, c, D);
    RLAddTimer(loop, d, D);
    RLAddTimer(loop, e, D);
    take(0.1);
    run(D, 0, false);
    say("next");
    run(D, 0, false);
}

SCENARIO(timer_batch_nested_due_anew, "S-TMR-21 S-TMR-23 S-TMR-26",
         "In a nested batch what an outer one left and what came later keep their turns, whatever a callback does to one of them.") {
    keep(D);
    for (int what = 0; what < 4; what++) {
        RLTimerRef left = timer("left", 0.03, 0, NULL), later = timer("later", 0.04, 0, NULL), last = timer("last", 0.05, 0, NULL);
        RLTimerRef first = timer("first", 0.02, 0, ^{
            RLTimerRef changed = what < 2 ? later : last;
            if (what % 2 == 0) {
                RLTimerSetNextFireDate(changed, -1);
            } else {
                RLRemoveTimer(loop, changed, D);
                RLAddTimer(loop, changed, D);
            }
        });
        RLTimerRef outer = timer("outer", 0.01, 0, ^{
            RLAddTimer(loop, first, D);
            RLAddTimer(loop, later, D);
            run(D, 0, false);
            say("back");
        });
        RLAddTimer(loop, outer, D);
        RLAddTimer(loop, left, D);
        RLAddTimer(loop, last, D);
        take(0.1);
        run(D, 0, false);
    }
}

SCENARIO(timer_batch_nested_removed, "S-TMR-23 S-TMR-25",
         "What a nested batch has taken over has its turn there, though it was removed from the mode, if it is in another one.") {
    keep(D);
    RLTimerRef c = timer("c", 0.03, 0, NULL), d = timer("d", 0.04, 0, NULL);
    RLTimerRef b = timer("b", 0.02, 0, ^{ RLRemoveTimer(loop, c, D); });
    RLTimerRef a = timer("a", 0.01, 0, ^{
        run(D, 0, false);
        say("back");
    });
    RLAddTimer(loop, a, D);
    RLAddTimer(loop, b, D);
    RLAddTimer(loop, c, D);
    RLAddTimer(loop, c, "m");
    RLAddTimer(loop, d, D);
    take(0.1);
    run(D, 0, false);
}

SCENARIO(timer_on_the_stack, "S-TMR-27 S-NEST-3 S-NEST-4 S-RUN-3",
         "A firing timer fires in no nested run, yet keeps the mode from being empty.") {
    observe("", D);
    __block int n = 0;
    RLTimerRef u = timer("u", -1, 0.01, ^{
        if (n++) return;
        take(0.05);
        run(D, 0.05, false);
        RLStop(loop);
    });
    RLAddTimer(loop, u, D);
    run(D, 100, false);
}

SCENARIO(timer_one_shot_during_callback, "S-TMR-28 S-TMR-34",
         "A one-shot is valid and a member in its callback, and invalid after it.") {
    __block RLTimerRef t = timer("t", -1, 0, ^{
        yes("valid", RLTimerIsValid(t));
        yes("member", RLContainsTimer(loop, t, D));
        yes("dated", RLTimerGetNextFireDate(t) != 0);
    });
    RLAddTimer(loop, t, D);
    run(D, 0, false);
    yes("valid", RLTimerIsValid(t));
    yes("member", RLContainsTimer(loop, t, D));
    say("%g", RLTimerGetNextFireDate(t));
}

SCENARIO(timer_late_fires_once, "S-TMR-29 S-TMR-30",
         "A timer late by several intervals fires once and goes back to its grid.") {
    keep(D);
    RLAbsoluteTime start = in(0.05);
    RLTimerRef u = timer("u", 0.01, 0.01, NULL);
    RLTimerSetNextFireDate(u, start);
    RLAddTimer(loop, u, D);
    take(0.2);
    run(D, 0, false);
    double steps = (RLTimerGetNextFireDate(u) - start) / 0.01;
    yes("grid", fabs(steps - round(steps)) < 0.01);
    yes("later", steps > 14);
}

SCENARIO(timer_past_grid_starts_at_creation, "S-TMR-31",
         "The grid of a timer with a past date starts at its creation.") {
    RLAbsoluteTime before = in(0);
    RLTimerRef t = timer("t", -12345.25, 1000, NULL);
    RLAbsoluteTime after = in(0);
    RLAddTimer(loop, t, D);
    run(D, 0, false);
    RLAbsoluteTime next = RLTimerGetNextFireDate(t);
    yes("grid", next >= before + 1000 - 0.01 && next <= after + 1000 + 0.01);
}

SCENARIO(timer_no_drift, "S-TMR-33", "After n fires the date is start + n intervals.") {
    __block int n = 0;
    RLAbsoluteTime start = in(0.01);
    RLTimerRef t = timer(NULL, 0, 0.01, ^{
        if (++n == 5) RLStop(loop);
    });
    RLTimerSetNextFireDate(t, start);
    RLAddTimer(loop, t, D);
    run(D, 100, false);
    double steps = (RLTimerGetNextFireDate(t) - start) / 0.01;
    yes("grid", fabs(steps - round(steps)) < 0.01);
    yes("count", steps > 4.5);
}

SCENARIO(timer_date_while_firing, "S-TMR-34", "In the callback the date is the one being served.") {
    RLAbsoluteTime date = in(0.02);
    __block RLTimerRef t = timer("t", 0, 1000, ^{
        yes("served", fabs(RLTimerGetNextFireDate(t) - date) < 0.001);
        RLTimerSetNextFireDate(t, date + 500);
        yes("set", fabs(RLTimerGetNextFireDate(t) - date - 500) < 0.001);
    });
    RLTimerSetNextFireDate(t, date);
    RLAddTimer(loop, t, D);
    take(0.05);
    run(D, 0, false);
    yes("kept", fabs(RLTimerGetNextFireDate(t) - date - 500) < 0.001);
}

SCENARIO(timer_removes_itself, "S-TMR-35",
         "A repeating timer that removes itself stays valid, and fires at once when added back late.") {
    __block RLTimerRef t = timer("t", -1, 0.05, ^{ RLRemoveTimer(loop, t, D); });
    RLAddTimer(loop, t, D);
    run(D, 0, false);
    yes("valid", RLTimerIsValid(t));
    yes("member", RLContainsTimer(loop, t, D));
    take(0.1);
    RLAddTimer(loop, t, D);
    run(D, 0, false);
}

SCENARIO(timer_set_date_in_repeating_callback, "S-TMR-38 S-TMR-39",
         "A date set in a repeating timer's callback replaces the re-arm; a past one fires again.") {
    observe("", D);
    __block int n = 0;
    __block RLTimerRef t = timer("t", -1, 1000, ^{
        if (++n < 3) RLTimerSetNextFireDate(t, in(-5));
        else RLStop(loop);
    });
    RLAddTimer(loop, t, D);
    run(D, 100, false);
    RLAbsoluteTime now = in(0), next = RLTimerGetNextFireDate(t);
    yes("interval", next > now + 900 && next < now + 1001);
}

DIFFERS(timer_set_date_in_callback_other_mode, "S-TMR-38 S-TMR-15 S-MODE-23",
        "A past date set in the callback holds for each mode; CoreFoundation re-arms the running one.",
        "t =TimedOut =TimedOut t =TimedOut", "t =TimedOut t =TimedOut =TimedOut") {
    __block int n = 0;
    __block RLTimerRef t = timer("t", -1, 1000, ^{
        if (++n == 1) RLTimerSetNextFireDate(t, in(-1));
    });
    RLAddTimer(loop, t, "a");
    RLAddTimer(loop, t, "b");
    RLAddTimer(loop, timer("far", FAR, 0, NULL), "b");
    run("a", 0, false);
    run("b", 1, false);
    run("a", 0, false);
}

SCENARIO(timer_set_date_in_one_shot_callback, "S-TMR-40",
         "A date set in a one-shot's callback has no effect.") {
    keep(D);
    __block RLTimerRef t = timer("t", -1, 0, ^{ RLTimerSetNextFireDate(t, in(-5)); });
    RLAddTimer(loop, t, D);
    run(D, 0, false);
    run(D, 0, false);
    yes("valid", RLTimerIsValid(t));
}

SCENARIO(timer_bracket, "S-TMR-44",
         "Each fire is bracketed by retain and release; a one-shot's invalidation release is before.") {
    RLTimerRef t = timer_with("t", COUNTED, -1, 0, NULL);
    RLAddTimer(loop, t, D);
    run(D, 0, false);
    RLTimerRef u = timer_with("u", COUNTED, -1, 1000, NULL);
    RLAddTimer(loop, u, D);
    run(D, 0, false);
    say("invalidate");
    RLTimerInvalidate(u);
}

SCENARIO(timer_invalidate_in_callback, "S-TMR-45 S-TMR-44",
         "Invalidating inside the callback releases the context inside the call.") {
    __block RLTimerRef t = timer_with("t", COUNTED, -1, 1000, ^{
        RLTimerInvalidate(t);
        say("invalidated");
    });
    RLAddTimer(loop, t, D);
    run(D, 1, false);
}

SCENARIO(timer_invalidate_from_another_thread, "S-TMR-46",
         "Invalidating from another thread during the callback returns; the timer is not re-armed.") {
    __block RLTimerRef t = timer("t", -1, 0.01, ^{
        elsewhere(^{ RLTimerInvalidate(t); });
        say("goes-on");
    });
    RLAddTimer(loop, t, D);
    run(D, 1, false);
}

SCENARIO(timer_removal_does_not_wake, "S-TMR-47 S-RUN-7",
         "Invalidating the only timer from another thread does not wake the loop.") {
    observe("", D);
    RLTimerRef t = timer("t", FAR, 0, NULL);
    RLAddTimer(loop, t, D);
    when_waiting(^{
        RLTimerInvalidate(t);
        take(0.1);
        yes("waiting", RLIsWaiting(loop));
        RLWakeUp(loop);
    });
    run(D, 100, false);
}

SCENARIO(timer_ends_the_wait, "S-TMR-20 S-PASS-16", "A timer ends the wait, not before its date.") {
    observe("", D);
    keep(D);
    RLAbsoluteTime date = in(0.1);
    RLTimerRef t = timer("t", 0, 0, ^{
        yes("due", in(0) >= date - 0.001);
        RLStop(loop);
    });
    RLTimerSetNextFireDate(t, date);
    RLAddTimer(loop, t, D);
    run(D, 100, false);
}

SCENARIO(timer_repeats, "S-TMR-29 S-RUN-15", "A repeating timer makes one pass for each fire.") {
    observe("", D);
    __block int n = 0;
    RLTimerRef t = timer("t", 0.02, 0.1, ^{
        if (++n == 3) RLStop(loop);
    });
    RLAddTimer(loop, t, D);
    run(D, 100, false);
}

SCENARIO(timer_added_by_timer, "S-TMR-26 S-PASS-9", "A due timer made by a timer fires a pass later.") {
    observe("", D);
    keep(D);
    RLAddTimer(loop, timer("t", -1, 0, ^{
                   RLAddTimer(loop, timer("u", -1, 0, ^{ RLStop(loop); }), D);
               }), D);
    run(D, 100, false);
}

SCENARIO(timer_held_by_other_mode, "S-MODE-23 S-TMR-30",
         "A timer overdue since another mode ran fires once when its mode runs.") {
    keep(D);
    RLTimerRef t = timer("t", 0.01, 0.03, NULL);
    RLAddTimer(loop, t, "m");
    run(D, 0.2, false);
    run("m", 0, false);
}

DIFFERS(timer_tiny_interval, "S-TMR-4",
        "An interval below a nanosecond is one nanosecond; CoreFoundation traps at the first re-arm.",
        "t !signal", "t =TimedOut valid=yes") {
    RLTimerRef t = timer("t", -1, 1e-12, NULL);
    RLAddTimer(loop, t, D);
    run(D, 0, false);
    yes("valid", RLTimerIsValid(t));
}

static RLTimerRef third_timer;

BOTH(timer_back_in_nested_batch, "S-TMR-26",
     "A member of an outer batch that is added back while the batch of a nested run is under way has its turn in the outer one.",
     "1 2 4 =TimedOut 3 =TimedOut") {
    keep(D);
    RLAddTimer(loop, timer("1", -1, 1000, ^{ RLRemoveTimer(loop, third_timer, D); }), D);
    RLAddTimer(loop, timer("2", -1, 1000, ^{ run(D, 0, false); }), D);
    third_timer = timer("3", -1, 1000, NULL);
    RLAddTimer(loop, third_timer, D);
    RLAddTimer(loop, timer("4", -1, 1000, ^{ RLAddTimer(loop, third_timer, D); }), D);
    take(0.001);
    run(D, 0, false);
}

DIFFERS(timer_put_off_and_due_again, "S-TMR-23",
        "A member that is put off and set due again has no turn any more, and fires in the next pass; in CoreFoundation it keeps it.",
        "1 2 3 =TimedOut =TimedOut", "1 2 =TimedOut 3 =TimedOut") {
    keep(D);
    RLAddTimer(loop, timer("1", -1, 1000, ^{ RLTimerSetNextFireDate(third_timer, in(FAR)); }), D);
    RLAddTimer(loop, timer("2", -1, 1000, ^{ RLTimerSetNextFireDate(third_timer, in(-1)); }), D);
    third_timer = timer("3", -1, 1000, NULL);
    RLAddTimer(loop, third_timer, D);
    take(0.001);
    run(D, 0, false);
    run(D, 0, false);
}

DIFFERS(timer_called_in_nested_batch_and_due_again, "S-TMR-23",
        "A member that a nested run has called has no turn in the outer batch any more, also if it is due again; in CoreFoundation it keeps it.",
        "1 3 =TimedOut 3 =TimedOut =TimedOut", "1 3 =TimedOut =TimedOut 3 =TimedOut") {
    keep(D);
    RLAddTimer(loop, timer("1", -1, 1000, ^{
                   run(D, 0, false);
                   RLTimerSetNextFireDate(third_timer, in(-1));
               }), D);
    third_timer = timer("3", -1, 1000, NULL);
    RLAddTimer(loop, third_timer, D);
    take(0.001);
    run(D, 0, false);
    run(D, 0, false);
}
