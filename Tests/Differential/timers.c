/* SPDX-License-Identifier: MIT */
/* Scenarios of section 9: timers as objects, their dates, contexts and membership. */
#include "scenario.h"

static void fire(RLTimerRef t, void *info) {
    (void)t;
    say("%s", info ? (const char *)info : "(none)");
}

/* A one-shot timer with a date of its own. */
static RLTimerRef dated(const char *name, RLAbsoluteTime date) {
    RLTimerContext c = {0, (void *)name, NULL, NULL, NULL};
    return RLTimerCreate(date, 0, 0, 0, fire, &c);
}

SCENARIO(timer_no_context, "S-TMR-1", "Without a context the info is NULL.") {
    RLAddTimer(loop, RLTimerCreate(in(-1), 0, 0, 0, fire, NULL), D);
    run(D, 0, false);
}

SCENARIO(timer_context, "S-TMR-1 S-TMR-42 S-TMR-43",
         "The context is retained at creation and released inside Invalidate; then its info is NULL.") {
    RLTimerRef t = timer_with("t", COUNTED, FAR, 5, NULL);
    RLAddTimer(loop, t, D);
    RLTimerContext c = {0, NULL, NULL, NULL, NULL};
    RLTimerGetContext(t, &c);
    yes("info", c.info != NULL);
    RLTimerInvalidate(t);
    say("invalid");
    RLTimerInvalidate(t);
    RLTimerGetContext(t, &c);
    yes("info", c.info != NULL);
    yes("retain", c.retain != NULL);
    yes("member", RLContainsTimer(loop, t, D));
    say("%g %g %ld", RLTimerGetNextFireDate(t), RLTimerGetInterval(t), RLTimerGetOrder(t));
    yes("repeats", RLTimerDoesRepeat(t));
    yes("valid", RLTimerIsValid(t));
    RLRelease(t);
}

SCENARIO(timer_interval, "S-TMR-2 S-TMR-5", "What intervals are reported, and which repeat.") {
    double intervals[] = {-1, 0, 0.5, 1e12, INFINITY};
    for (int i = 0; i < 5; i++) {
        RLTimerRef t = timer("t", FAR, intervals[i], NULL);
        say("%g", RLTimerGetInterval(t));
        yes("repeats", RLTimerDoesRepeat(t));
    }
}

SCENARIO(timer_dates, "S-TMR-6 S-TMR-7", "What dates are reported: at most the limit, past ones as given.") {
    double dates[] = {INFINITY, 1e300, 4039289856.0, 0, -5, 1, -INFINITY, -1e300};
    for (int i = 0; i < 8; i++)
        say("%.1f", RLTimerGetNextFireDate(dated("t", dates[i])));
}

SCENARIO(timer_past_dates_are_due, "S-TMR-7", "Any past date, minus infinity included, is due at once.") {
    double dates[] = {-INFINITY, -1e300, 0, 1};
    for (int i = 0; i < 4; i++) {
        RLAddTimer(loop, dated("t", dates[i]), D);
        run(D, 0, false);
    }
}

SCENARIO(timer_far_dates_do_not_fire, "S-TMR-6 S-TMR-8", "Infinite and NaN dates do not fire.") {
    observe("", D);
    RLAddTimer(loop, dated("infinite", INFINITY), D);
    RLTimerRef t = dated("nan", NAN);
    yes("nan", isnan(RLTimerGetNextFireDate(t)));
    RLAddTimer(loop, t, D);
    run(D, 1, false);
}

SCENARIO(timer_order_and_flags, "S-TMR-11", "flags and order have no effect; the order is reported.") {
    RLTimerRef a = RLTimerCreate(in(-1), 0, 7, 9, fire, NULL);
    RLTimerContext c = {0, "b", NULL, NULL, NULL};
    RLTimerRef b = RLTimerCreate(in(-1), 0, 0, -9, fire, &c);
    RLAddTimer(loop, b, D);
    RLAddTimer(loop, a, D);
    say("%ld %ld", RLTimerGetOrder(a), RLTimerGetOrder(b));
    run(D, 0, false);
}

SCENARIO(timer_no_callback, "S-TMR-12", "A timer with no callback fires with no effect but its state.") {
    observe("", D);
    RLTimerRef t = timer_with(NULL, SILENT, -1, 0, NULL);
    RLAddTimer(loop, t, D);
    run(D, 1, true);
    yes("valid", RLTimerIsValid(t));
}

SCENARIO(timer_several_modes, "S-TMR-15", "A timer in two modes fires in the one that runs.") {
    RLTimerRef t = timer("t", -1, 1000, NULL);
    RLAddTimer(loop, t, "a");
    RLAddTimer(loop, t, "b");
    run("b", 0, false);
    run("a", 0, false);
}

SCENARIO(timer_removal, "S-TMR-17 S-TMR-18", "Removal keeps a timer valid; an invalid one is not added.") {
    RLTimerRef t = timer("t", -1, 0, NULL);
    RLRemoveTimer(loop, t, D);
    RLAddTimer(loop, t, D);
    RLRemoveTimer(loop, t, D);
    yes("valid", RLTimerIsValid(t));
    run(D, 0, false);
    RLTimerInvalidate(t);
    RLAddTimer(loop, t, D);
    yes("member", RLContainsTimer(loop, t, D));
    run(D, 0, false);
}

SCENARIO(timer_last_removal_releases, "S-TMR-19 S-TMR-48",
         "The removal of the last mode drops the loop's reference, and with it the context.") {
    RLTimerRef t = timer_with("t", COUNTED, FAR, 0, NULL);
    RLAddTimer(loop, t, D);
    RLAddTimer(loop, t, "m");
    RLRelease(t);
    RLRemoveTimer(loop, t, D);
    say("first");
    RLRemoveTimer(loop, t, "m");
    say("last");
    RLRelease(timer_with("u", COUNTED, FAR, 0, NULL));
}

SCENARIO(timer_past_dates_in_order_of_creation, "S-TMR-22",
         "Timers with past dates fire in the order of their creation or last setting.") {
    RLTimerRef a = timer("a", -1, 0, NULL), b = timer("b", -100, 0, NULL), c = timer("c", -10, 0, NULL);
    RLAddTimer(loop, c, D);
    RLAddTimer(loop, b, D);
    RLAddTimer(loop, a, D);
    RLTimerSetNextFireDate(a, in(-1000));
    run(D, 0, false);
}

SCENARIO(timer_set_date, "S-TMR-36 S-TMR-37",
         "SetNextFireDate works in no loop and in one, and does nothing on an invalid timer.") {
    RLTimerRef t = timer("t", FAR, 0, NULL);
    RLTimerSetNextFireDate(t, -5);
    say("%.1f", RLTimerGetNextFireDate(t));
    RLAddTimer(loop, t, D);
    RLTimerSetNextFireDate(t, in(FAR));
    run(D, 0, false);
    RLTimerSetNextFireDate(t, -7);
    run(D, 0, false);
    RLTimerSetNextFireDate(t, -9);
    say("%.1f", RLTimerGetNextFireDate(t));
}

SCENARIO(timer_handler, "S-TMR-49", "The block form fires its block and is handed its timer.") {
    __block RLTimerRef t = RLTimerCreateWithHandler(in(-1), 0, 0, 0, ^(RLTimerRef fired) {
        say("block");
        yes("same", fired == t);
    });
    RLAddTimer(loop, t, D);
    run(D, 0, false);
    RLTimerRef none = RLTimerCreateWithHandler(in(-1), 0, 0, 0, NULL);
    RLAddTimer(loop, none, D);
    run(D, 0, false);
    yes("valid", RLTimerIsValid(none));
}

DIFFERS(timer_tolerance, "S-TMR-50 S-TMR-51 S-TMR-52",
        "The tolerance is stored; CoreFoundation on Linux ignores it.", "0 0 0 0 0 0", "0 2 5 50 0 0") {
    RLTimerRef once = timer("t", FAR, 0, NULL), repeating = timer("t", FAR, 10, NULL);
    say("%g", RLTimerGetTolerance(once));
    RLTimerSetTolerance(repeating, 2);
    say("%g", RLTimerGetTolerance(repeating));
    RLTimerSetTolerance(repeating, 50);
    say("%g", RLTimerGetTolerance(repeating));
    RLTimerSetTolerance(once, 50);
    say("%g", RLTimerGetTolerance(once));
    RLTimerSetTolerance(once, -1);
    say("%g", RLTimerGetTolerance(once));
    RLTimerSetTolerance(repeating, -1);
    say("%g", RLTimerGetTolerance(repeating));
}

SCENARIO(timer_next_date_of_mode, "S-TMR-55",
         "The next fire date of a mode is that of its earliest timer, or 0.") {
    say("%g", RLGetNextTimerFireDate(loop, D));
    keep(D);
    say("%g", RLGetNextTimerFireDate(loop, D));
    RLAbsoluteTime now = in(0);
    RLTimerRef a = dated("t", now + 2000),
               b = dated("t", now + 1000);
    RLAddTimer(loop, a, D);
    say("%g", RLGetNextTimerFireDate(loop, D) - now);
    RLAddTimer(loop, b, D);
    say("%g", RLGetNextTimerFireDate(loop, D) - now);
    RLTimerSetNextFireDate(b, now + 3000);
    say("%g", RLGetNextTimerFireDate(loop, D) - now);
    RLTimerInvalidate(a);
    say("%g", RLGetNextTimerFireDate(loop, D) - now);
    say("%g", RLGetNextTimerFireDate(loop, "missing"));
    RLRemoveTimer(loop, b, D);
    RLAddTimer(loop, b, COMMON);
    say("%g", RLGetNextTimerFireDate(loop, COMMON));
}
