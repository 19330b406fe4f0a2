/* SPDX-License-Identifier: MIT */
/*
 * RLTimerRef: callbacks at a date, once or repeatedly.
 *
 * A timer has a date and, if it repeats, an interval. The date is converted to an instant of the
 * monotonic clock when the timer is made or its date is set; setting the system's clock later does
 * not move the timer. The monotonic clock stops while the system is suspended. A past date means
 * now. RLTimerCreateWithClock makes timers that follow the system's clock when it is set, and timers
 * whose time goes on during a suspension.
 * A timer is never early: it fires at its instant, or as soon after it as its loop is free and runs
 * one of the timer's modes. All due timers fire in one pass, ordered by instant. A waiting loop
 * wakes by itself when a timer is due.
 * The grid: a repeating timer fires at start + k * interval. A loop that was too busy does not
 * catch up on missed fires: the timer fires once, then returns to the grid. Drift does not
 * accumulate.
 * The tolerance is how long after its date an idle loop may fire the timer, in order to wake up
 * less often. It does not shift the grid.
 * A timer is in one loop at a time, in any number of its modes, and fires once per instant. It does
 * not fire again while its callback runs, not even in a nested run.
 * Lifetime: RLTimerCreate calls the context's retain. RLAddTimer makes the loop retain the timer.
 * RLTimerInvalidate, the fire of a one-shot timer, or the last release invalidates it and calls the
 * context's release.
 * Rules: Docs/semantics.md, section 9.
 */
#ifndef RUNLOOP_TIMER_H
#define RUNLOOP_TIMER_H

#include "base.h"

RL_HEADER_BEGIN

/**
 * The data of a timer; copied by RLTimerCreate. Every function may be NULL.
 *
 * version: 0. info: passed to the callback; if there is a retain, its result takes info's place.
 * retain: once when the timer is made, and once before each fire, on that thread.
 * release: once for each retain: after each fire, and in RLTimerInvalidate, after the fire of a
 *     one-shot, or at the last release of the timer, on the thread that does so. If another thread
 *     invalidates the timer while it fires, the loop's thread calls release after the callback.
 * copyDescription: on RLCopyDescription only; returns a malloc'ed string, freed by the library.
 * CF: CFRunLoopTimerContext. Since 0.1.
 */
typedef struct RLTimerContext {
    RLIndex version;
    void *RL_NULLABLE info;
    const void *RL_NULLABLE (*RL_NULLABLE retain)(const void *RL_NULLABLE info);
    void (*RL_NULLABLE release)(const void *RL_NULLABLE info);
    char *RL_NULLABLE (*RL_NULLABLE copyDescription)(const void *RL_NULLABLE info);
} RLTimerContext;

/**
 * What a timer calls, on the loop's thread, with no lock held.
 *
 * t: the timer, which stays alive during the call. info: that of its context. Until the callback
 * returns, the timer, even a one-shot, is a member of its modes, and its next fire date is the one
 * being served.
 * CF: CFRunLoopTimerCallBack. Since 0.1.
 */
typedef void (*RLTimerCallBack)(RLTimerRef RL_NULLABLE t, void *RL_NULLABLE info);

/**
 * Returns the type id of timers, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopTimerGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLTimerGetTypeID(void);

/**
 * Makes a timer that is valid and in no loop; add it with RLAddTimer.
 *
 * fireDate: the first date. Past or -infinity: due at once. Above 4039289856 (also +infinity):
 *     stored as that. NaN: never fires.
 * interval: seconds between fires; 0 or less: a one-shot. Below 1 ns it counts as 1 ns, above
 *     504911232 (16 years) as that; NaN is an error. flags, order: no effect; pass 0.
 * callout: NULL: fires with no other effect than its own state. context: copied; NULL: info NULL.
 * Returns: the timer; NULL if interval is NaN.
 * Threads: any. Ownership: the caller's to release; when release runs: RLTimerContext.
 * Reentrancy: call-outs too; calls retain. CF: CFRunLoopTimerCreate. Since 0.1.
 */
RL_EXPORT RLTimerRef RL_NULLABLE RLTimerCreate(RLAbsoluteTime fireDate, RLTimeInterval interval, RLOptionFlags flags,
                                               RLIndex order, RLTimerCallBack RL_NULLABLE callout,
                                               RLTimerContext *RL_NULLABLE context) RL_WARN_UNUSED_RESULT;

/**
 * The clock of a timer.
 *
 * kRLTimerClockMonotonic: the clock of RLTimerCreate. It stops while the machine is suspended, and
 *     setting the system's clock does not move the timer.
 * kRLTimerClockBoot: it goes on while the machine is suspended; setting the system's clock does not
 *     move the timer.
 * kRLTimerClockWall: the date as the system shows it; the timer follows it wherever it is set.
 * CF: none. Since 0.2.
 */
RL_ENUM(int32_t, RLTimerClock) {
    kRLTimerClockMonotonic = 0,
    kRLTimerClockBoot = 1,
    kRLTimerClockWall = 2
};

/**
 * Makes a timer by the monotonic, the boot or the wall clock.
 *
 * A timer by the wall clock is due as soon as that clock shows the timer's date or a later date, and
 * never before; if it repeats, its dates are fireDate + k * interval, also if fireDate is past. If the
 * clock is set back, dates for which the timer has fired do not come again. A timer by the boot clock
 * whose time came during a suspension is due when the machine resumes. RLTimerSetNextFireDate and
 * RLTimerSetNextFireDelay use the same clock.
 * clock: an RLTimerClock. fireDate, interval, callout, context: as for RLTimerCreate; with every
 *     clock the date is a date of RLAbsoluteTimeGetCurrent.
 * Returns: the timer; NULL if interval is NaN or there is no such clock.
 * Errors: without a descriptor or a thread to wait for changes of the clocks, one line is logged, and
 *     changes are noticed late.
 * Threads: any. The first timer by the boot or wall clock makes a thread of the library, which sleeps
 *     until a clock is set and calls no function of the program but the log handler.
 * Ownership, Reentrancy: as for RLTimerCreate; may call the log handler. CF: none. Since 0.2.
 */
RL_EXPORT RLTimerRef RL_NULLABLE RLTimerCreateWithClock(RLTimerClock clock, RLAbsoluteTime fireDate, RLTimeInterval interval,
                                                        RLTimerCallBack RL_NULLABLE callout,
                                                        RLTimerContext *RL_NULLABLE context) RL_WARN_UNUSED_RESULT;

/**
 * Returns the clock of a timer.
 *
 * Returns: the clock it was made with, also for an invalid timer; kRLTimerClockMonotonic for timers of
 *     RLTimerCreate and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT RLTimerClock RLTimerGetClock(RLTimerRef RL_NULLABLE t);

/**
 * Returns the date at which a timer is to fire next.
 *
 * Returns: the date as it was set, even if it is past; in the timer's callback, the date being
 * served, unless a new one was set in the callback; 0 for NULL and invalid timers.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopTimerGetNextFireDate. Since 0.1.
 */
RL_EXPORT RLAbsoluteTime RLTimerGetNextFireDate(RLTimerRef RL_NULLABLE t);

/**
 * Moves a timer to another date, where a repeating timer begins a new grid.
 *
 * t: a valid timer, in a loop or not; NULL and invalid timers do nothing.
 * fireDate: as for RLTimerCreate. In a repeating timer's own callback it replaces the next date; a
 *     past one fires again in the next pass. In a one-shot's own callback it has no effect.
 *     Compute it from RLAbsoluteTimeGetCurrent: a date from another clock that is set within a
 *     millisecond after the system's clock was set may still be read by the old time. In one pass
 *     some of the dates that follow sixteen set in quick succession may be read as if they had been
 *     set with those: by the old time, and one that has passed since as one to come (S-TMR-9).
 * Threads: any; a waiting loop takes the date into account at once, without RLWakeUp. The call is
 *     much cheaper than a new timer; on another thread too it makes no system call while the loop
 *     sleeps, unless the date comes before the end of its wait or the mode has observers.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopTimerSetNextFireDate. Since 0.1.
 */
RL_EXPORT void RLTimerSetNextFireDate(RLTimerRef RL_NULLABLE t, RLAbsoluteTime fireDate);

/**
 * Moves a timer to some seconds from now.
 *
 * t: a valid timer, in a loop or not; NULL and invalid timers do nothing.
 * seconds: by the clock of the timer's loop, to the nanosecond; setting the system's clock has no
 *     effect on the delay, except that a timer by the wall clock follows it. 0 or less: due at once. NaN: never
 *     fires. More than 504911232 counts as that.
 * The rest is as for RLTimerSetNextFireDate: callbacks, grid, threads.
 * Threads: any; a waiting loop takes it into account at once. Reentrancy: call-outs too; calls no
 * call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT void RLTimerSetNextFireDelay(RLTimerRef RL_NULLABLE t, RLTimeInterval seconds);

/**
 * Makes a one-shot timer stay valid after it has fired, so that it can be set again, or undoes that.
 *
 * t: a one-shot; NULL, invalid and repeating timers do nothing.
 * reusable: true: after a callback that set no date the timer is still a member of its modes, and
 *     its date is NaN: it does not fire until it gets another date. A date that the callback sets
 *     stays. The timer keeps its modes from being empty, as any timer does, until it is removed.
 * Threads: any; in its callback too. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT void RLTimerSetReusable(RLTimerRef RL_NULLABLE t, bool reusable);

/**
 * Returns the seconds between a timer's fires.
 *
 * Returns: the interval, also of an invalid timer; 0 for a one-shot and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopTimerGetInterval. Since 0.1.
 */
RL_EXPORT RLTimeInterval RLTimerGetInterval(RLTimerRef RL_NULLABLE t);

/**
 * Tells whether a timer fires more than once.
 *
 * Returns: true if its interval is above 0, also of an invalid timer; false for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopTimerDoesRepeat. Since 0.1.
 */
RL_EXPORT bool RLTimerDoesRepeat(RLTimerRef RL_NULLABLE t);

/**
 * Returns the order of a timer, which has no effect.
 *
 * Returns: the order, also of an invalid timer; 0 for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopTimerGetOrder. Since 0.1.
 */
RL_EXPORT RLIndex RLTimerGetOrder(RLTimerRef RL_NULLABLE t);

/**
 * Invalidates a timer for good: it leaves every mode and does not fire again.
 *
 * t: any timer; NULL and a timer that is invalid already do nothing.
 * Threads: any. The call does not wait for a callback that runs on another thread, and does not end
 * the loop's wait.
 * Ownership: the loop drops its reference; the context is released inside the call or, if the
 * loop's thread is about to call the callback, by that thread after the callback.
 * Reentrancy: call-outs too, its own callback included; calls release.
 * CF: CFRunLoopTimerInvalidate. Since 0.1.
 */
RL_EXPORT void RLTimerInvalidate(RLTimerRef RL_NULLABLE t);

/**
 * Tells whether a timer can still fire.
 *
 * Returns: true until RLTimerInvalidate or until a one-shot's callback has returned; then false,
 * and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopTimerIsValid. Since 0.1.
 */
RL_EXPORT bool RLTimerIsValid(RLTimerRef RL_NULLABLE t);

/**
 * Copies a timer's context into the caller's struct.
 *
 * t: any timer; for an invalid one, info is NULL and the functions are unchanged. NULL: nothing.
 * context: set its version to 0 before the call; NULL does nothing.
 * Threads: any. Ownership: info is borrowed; nothing is retained for the caller.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopTimerGetContext. Since 0.1.
 */
RL_EXPORT void RLTimerGetContext(RLTimerRef RL_NULLABLE t, RLTimerContext *RL_NULLABLE context);

/**
 * Returns a timer's tolerance in seconds.
 *
 * Returns: the stored value; 0 if none was set, and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopTimerGetTolerance, which is always 0 on Linux. Since 0.1.
 */
RL_EXPORT RLTimeInterval RLTimerGetTolerance(RLTimerRef RL_NULLABLE t);

/**
 * Allows an idle loop to fire a timer up to some seconds after its date, never before it.
 *
 * t: any timer; NULL does nothing.
 * tolerance: seconds; negative values and NaN count as 0. A repeating timer stores at most half its
 *     interval.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopTimerSetTolerance, which has no effect on Linux. Since 0.1.
 */
RL_EXPORT void RLTimerSetTolerance(RLTimerRef RL_NULLABLE t, RLTimeInterval tolerance);

/**
 * Tells whether a mode holds a timer.
 *
 * rl, t, mode: NULL, or a mode that does not exist, gives false; the call makes no mode.
 * Returns: true for a member; with kRLCommonModes, true exactly for common items.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopContainsTimer. Since 0.1.
 */
RL_EXPORT bool RLContainsTimer(RLRunLoopRef RL_NULLABLE rl, RLTimerRef RL_NULLABLE t, RLMode RL_NULLABLE mode);

/**
 * Adds a timer to a mode of a loop or, with kRLCommonModes, to all common modes.
 *
 * rl, t, mode: the call does nothing for NULL, for an invalid timer, and for a timer that is in the
 *     mode already or belongs to another loop. The mode is made if it does not exist.
 * Threads: any; a waiting loop takes the date into account without RLWakeUp. A timer that is
 * added while timers fire, and is due, fires in the next pass, unless it was removed from the mode
 * earlier in the same batch: then it keeps its turn.
 * Ownership: the loop retains t until it is removed or invalid.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopAddTimer. Since 0.1.
 */
RL_EXPORT void RLAddTimer(RLRunLoopRef RL_NULLABLE rl, RLTimerRef RL_NULLABLE t, RLMode RL_NULLABLE mode);

/**
 * Removes a timer from a mode; it stays valid, and once it is in no mode any loop may take it.
 *
 * rl, t, mode: the call does nothing for NULL and for a timer that is not in the mode. With
 *     kRLCommonModes it removes a common item from every common mode, and does nothing to other
 *     timers. A common item stays one, and stays with its loop, until it is removed under that
 *     name.
 * Threads: any; it does not wake the loop.
 * Ownership: the loop drops its reference with the last mode, which may free t and so call release.
 * Reentrancy: call-outs too, its own callback included; may call release.
 * CF: CFRunLoopRemoveTimer. Since 0.1.
 */
RL_EXPORT void RLRemoveTimer(RLRunLoopRef RL_NULLABLE rl, RLTimerRef RL_NULLABLE t, RLMode RL_NULLABLE mode);

RL_HEADER_END

#endif
