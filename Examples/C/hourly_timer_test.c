/* SPDX-License-Identifier: MIT */
/*
 * hourly-timer-test: a program that works once an hour, and its test, which takes no time.
 *
 * The tested half adds its timer with dates from RLAbsoluteTimeGetCurrent and knows nothing of the
 * test. The test gives the loop a clock of its own and moves it.
 */
#include <runloop/runloop.h>
#include <math.h>
#include <stdio.h>

/* What is tested: a report every hour, with a reminder ten minutes after each that nobody read. */

static int reports, reminders;
static RLTimerRef reminder;

static void remind(RLTimerRef timer, void *info) {
    (void)timer;
    (void)info;
    reminders++;
}

static void report(RLTimerRef timer, void *info) {
    (void)timer;
    (void)info;
    reports++;
    RLTimerSetNextFireDelay(reminder, 600);
}

static void report_is_read(void) { RLTimerSetNextFireDelay(reminder, INFINITY); }

static void start(RLRunLoopRef loop) {
    RLTimerRef hourly = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 3600, 3600, 0, 0, report, NULL);
    reminder = RLTimerCreate(INFINITY, 0, 0, 0, remind, NULL);
    RLTimerSetReusable(reminder, true);
    RLAddTimer(loop, hourly, kRLDefaultMode);
    RLAddTimer(loop, reminder, kRLDefaultMode);
    RLRelease(hourly);
}

/* The test. */

static void expect(const char *when, int wanted_reports, int wanted_reminders) {
    printf("%s: %d reports, %d reminders, %s\n", when, reports, reminders,
           reports == wanted_reports && reminders == wanted_reminders ? "as expected" : "WRONG");
}

int main(void) {
    RLClockRef clock = RLClockCreateManual();
    RLAbsoluteTime begin = RLClockGetTime(clock);
    RLSetClock(RLGetCurrent(), clock);
    start(RLGetCurrent());

    RLClockAdvance(clock, 3599);
    expect("before the hour", 0, 0);
    RLClockAdvance(clock, 1);
    expect("after an hour", 1, 0);
    RLClockAdvance(clock, 600);
    expect("ten minutes later", 1, 1);
    RLClockAdvance(clock, 3000);
    report_is_read();
    RLClockAdvance(clock, 600);
    expect("when the second is read", 2, 1);
    RLClockAdvance(clock, 24 * 3600);
    expect("a day later", 26, 25);

    printf("%.2f hours were tested\n", (RLClockGetTime(clock) - begin) / 3600);
    RLRelease(reminder);
    RLRelease(clock);
    return 0;
}
