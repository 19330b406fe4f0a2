/* SPDX-License-Identifier: MIT */
/*
 * RLClockRef: a clock that the program moves, for loops in place of the system's.
 *
 * A test gives it to a loop, and a timer that is due in an hour fires as soon as the test has moved
 * the clock by an hour, at exactly the date it was set for:
 *
 *     RLClockRef clock = RLClockCreateManual();
 *     RLSetClock(RLGetCurrent(), clock);
 *     start_what_is_tested();           // adds timers, with dates from RLAbsoluteTimeGetCurrent
 *     RLClockAdvance(clock, 3600);      // returns when all that was due on the way is done
 *
 * A loop's clock applies to its timers, with their tolerances; the deadlines of its runs; delayed
 * requests (RLPerformAfterDelay); waits that run it (RLConditionWaitInMode, RLLockInMode, requests
 * to ports); and, on its thread, to RLAbsoluteTimeGetCurrent. Descriptors, kernel events and waits
 * that run no loop use the system's clock.
 * The time is the same for everything that happens at one instant. When nothing is left to do at
 * that instant it moves on to the next instant at which the loop has something to do, until it has
 * reached the time to which the program has moved the clock. So a repeating timer fires once for
 * each of its dates on the way, in order with all others, however far the clock is moved at once.
 * Dates are rounded to the nearest microsecond, so that a timer set to 0.1 s is due when the clock
 * has moved by 0.1 s.
 * Several loops may share a clock. Each moves on independently: the order of what two threads do is
 * not promised.
 * fork: the child has copies of the parent's clocks, which are independent from then on.
 * Rules: Docs/semantics.md, section 41.
 */
#ifndef RUNLOOP_CLOCK_H
#define RUNLOOP_CLOCK_H

#include "base.h"

RL_HEADER_BEGIN

/**
 * Returns the type id of clocks, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT RLTypeID RLClockGetTypeID(void);

/**
 * Makes a clock that shows the present time, in whole microseconds, and stands still.
 *
 * Returns: the clock, never NULL.
 * Threads: any. Ownership: the caller's to release; loops that have it retain it.
 * Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT RLClockRef RL_NONNULL RLClockCreateManual(void) RL_WARN_UNUSED_RESULT;

/**
 * Sets the clock that a loop uses.
 *
 * rl: the calling thread's loop. clock: NULL for the system's clock, which every loop has initially.
 * Returns: true. False, and nothing has changed, for NULL or another thread's loop, while the loop
 *     runs, and while a timer or a delayed request is in one of its modes or one of its common
 *     items.
 * Threads: the loop's. Ownership: the loop retains the clock until it gets another one or its
 * thread ends. Reentrancy: not in callbacks of the loop, during which it runs; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT bool RLSetClock(RLRunLoopRef RL_NULLABLE rl, RLClockRef RL_NULLABLE clock);

/**
 * Returns the clock of a loop.
 *
 * Returns: the clock that RLSetClock gave it; NULL for the system's and for NULL.
 * Threads: any. Ownership: borrowed; while the loop has it, retain it to keep it.
 * Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT RLClockRef RL_NULLABLE RLGetClock(RLRunLoopRef RL_NULLABLE rl);

/**
 * Returns the date that a clock shows.
 *
 * clock: NULL for the system's.
 * Returns: the date to which the clock was moved. A loop that has not reached it yet has an earlier
 *     date, which RLAbsoluteTimeGetCurrent returns on its thread, also between runs; its delays and
 *     the deadlines of its runs count from there.
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT RLAbsoluteTime RLClockGetTime(RLClockRef RL_NULLABLE clock);

/**
 * Moves a clock forward, and returns when its loops have done what was due on the way.
 *
 * clock: NULL does nothing. seconds: above 504911232 (16 years) they count as that; NaN, 0 and less
 *     move nothing, and what is already due is done.
 * The calling thread's loop, if it has the clock and is not running, is run in kRLDefaultMode until
 * it has come to where this thread has moved the clock, again after a stop, and then for as long as
 * there is something to do at that time: it is left after 1000 passes there, or runs without
 * progress. Other loops that run are notified; the call returns when all of them wait at one moment
 * or have stopped running. If the clock is automatic it may have gone on since. Moves of other
 * threads during the call do not draw it out. A descriptor that becomes ready meanwhile may be
 * reported later.
 * In a callback of one of its loops the clock is moved, and that loop follows when the callback has
 * returned.
 * A clock goes no further than 126 years after the start of the machine.
 * Threads: any. A callback of another loop that waits for the calling thread waits for ever, and so
 * does this call. But of two callbacks that move the clock at once, so that the calls overlap, neither
 * call waits for the other callback, which may wait for this one's thread once its call has returned.
 * Reentrancy: call-outs too; calls all kinds of call-outs of the own loop.
 * CF: none. Since 0.2.
 */
RL_EXPORT void RLClockAdvance(RLClockRef RL_NULLABLE clock, RLTimeInterval seconds);

/**
 * Moves a clock to the next instant at which one of its loops has something to do, like
 * RLClockAdvance.
 *
 * That is the instant at which the wait of a running loop would end: the date of a timer of its
 * mode, or the deadline of its run; for the calling thread's loop, if it is not running, the date of
 * a timer in kRLDefaultMode; in a callback of it, the first of those instants that the clock has not
 * reached. A timer counts with its next date alone: not if the clock has reached that date.
 * Returns: false if there is no such instant, and for NULL.
 * Threads: any; see RLClockAdvance. Reentrancy: as RLClockAdvance. CF: none. Since 0.2.
 */
RL_EXPORT bool RLClockAdvanceToNext(RLClockRef RL_NULLABLE clock);

/**
 * Makes a clock move by itself, or not.
 *
 * automatic: true: when all loops that run with the clock wait, none with a descriptor that is
 *     ready, the clock moves to the next instant at which one of them has something to do. The
 *     waits of foreign runs do not move it. A new clock is not automatic.
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT void RLClockSetAutomatic(RLClockRef RL_NULLABLE clock, bool automatic);

/**
 * Sets the date that a clock shows, forward or back, as when an administrator sets the system's.
 *
 * date: dates are read by the new time from now on; timers that are set keep their instants, except
 *     timers by the wall clock (RLTimerCreateWithClock), which have their new instants on return. NaN
 *     does nothing; it is rounded to the nearest microsecond, and a date before 1970 counts as 1970.
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT void RLClockSetWallTime(RLClockRef RL_NULLABLE clock, RLAbsoluteTime date);

/**
 * Simulates a suspension of the machine: the date moves on, the clock by which timers are due does
 * not.
 *
 * seconds: by which each timer that is set fires later, measured by the date, except timers by the
 *     wall or boot clock (RLTimerCreateWithClock), which do not. NaN, 0 and less do nothing, nor does
 *     a suspension that begins after the year 2129 or makes it more than 126 years in all.
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT void RLClockSuspend(RLClockRef RL_NULLABLE clock, RLTimeInterval seconds);

RL_HEADER_END

#endif
