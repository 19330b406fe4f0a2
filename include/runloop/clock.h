/* SPDX-License-Identifier: MIT */
/*
 * RLClockRef: a clock that the program moves, for loops in place of the system's.
 *
 * A test gives it to a loop, and a timer that is due in an hour fires as soon as the test has moved
 * the clock by an hour, at the very date it was set for:
 *
 *     RLClockRef clock = RLClockCreateManual();
 *     RLSetClock(RLGetCurrent(), clock);
 *     start_what_is_tested();           // adds timers, with dates from RLAbsoluteTimeGetCurrent
 *     RLClockAdvance(clock, 3600);      // returns when all that was due on the way is done
 *
 * What goes by a loop's clock: its timers, with their tolerances; the time limits of its runs;
 * delayed requests (RLPerformAfterDelay); waits that run it (RLConditionWaitInMode, RLLockInMode,
 * requests to ports); and on its thread RLAbsoluteTimeGetCurrent. Descriptors, kernel events and
 * waits that run no loop go by the system's clock.
 * The time is the same for everything that happens at one instant. It goes on when nothing is left
 * to do at that instant: to the next instant at which the loop has something to do, until it has
 * come to where the program has moved the clock. So a repeating timer fires once for each of its
 * dates on the way, in order with all others, however far the clock is moved at once.
 * Dates are read to the nearest microsecond, so that 0.1 s set and 0.1 s moved meet.
 * Several loops may share a clock. Each goes its way by itself: the order of what two threads do is
 * not promised.
 * fork: the child has the clocks of the parent, each its own from then on.
 * Rules: Docs/semantics.md, section 41.
 */
#ifndef RUNLOOP_CLOCK_H
#define RUNLOOP_CLOCK_H

#include "base.h"

RL_HEADER_BEGIN

/**
 * Gives the type id of clocks, to compare with RLGetTypeIDOf.
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
 * Gives a loop a clock to go by.
 *
 * rl: the calling thread's loop. clock: NULL for the system's clock, which every loop has at first.
 * Returns: true. False, and nothing has changed, for NULL or another thread's loop, while the loop
 *     runs, and while a timer or a delayed request is in one of its modes.
 * Threads: the loop's. Ownership: the loop retains the clock until it gets another one or its
 * thread ends. Reentrancy: not in callbacks of the loop, which then runs; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT bool RLSetClock(RLRunLoopRef RL_NULLABLE rl, RLClockRef RL_NULLABLE clock);

/**
 * Gives the clock of a loop.
 *
 * Returns: the clock that RLSetClock gave it; NULL for the system's and for NULL.
 * Threads: any. Ownership: borrowed; while the loop has it, retain it to keep it.
 * Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT RLClockRef RL_NULLABLE RLGetClock(RLRunLoopRef RL_NULLABLE rl);

/**
 * Gives the date that a clock shows.
 *
 * clock: NULL for the system's.
 * Returns: the date to which the clock was moved. A loop that is on its way there has an earlier
 *     one, which RLAbsoluteTimeGetCurrent gives on its thread.
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT RLAbsoluteTime RLClockGetTime(RLClockRef RL_NULLABLE clock);

/**
 * Moves a clock forward, and returns when its loops have done what was due on the way.
 *
 * clock: NULL does nothing. seconds: above 504911232 (16 years) they count as that; NaN, 0 and less
 *     move nothing, and what is due already is done.
 * The calling thread's loop, if it has the clock and does not run, is run in kRLDefaultMode until
 * it has come to the clock's time, again after a stop, and then for as long as there is something
 * to do at that time: after 1000 passes there, or runs without progress, it is left at that. Other
 * loops that run are told; the call returns when each of them waits again or has stopped running.
 * In a callback of one of its loops the clock is moved, and that loop follows when the callback has
 * returned.
 * A clock goes no further than 126 years after the start of the machine.
 * Threads: any. A callback of another loop that waits for the calling thread waits for ever, and so
 * does this call; callbacks that move the clock at once do not wait for each other. Reentrancy: call-outs too; calls all kinds of call-outs of the own loop.
 * CF: none. Since 0.2.
 */
RL_EXPORT void RLClockAdvance(RLClockRef RL_NULLABLE clock, RLTimeInterval seconds);

/**
 * Moves a clock to the next instant at which one of its loops has something to do, like
 * RLClockAdvance.
 *
 * It is what the wait of a running loop would end with: a timer of its mode, or the end of its run;
 * of the calling thread's loop, if it does not run, a timer in kRLDefaultMode; in a callback of it
 * the first of those instants that the clock has not come to.
 * Returns: false if there is no such instant, and for NULL.
 * Threads: any; see RLClockAdvance. Reentrancy: as RLClockAdvance. CF: none. Since 0.2.
 */
RL_EXPORT bool RLClockAdvanceToNext(RLClockRef RL_NULLABLE clock);

/**
 * Lets the time of a clock go on by itself, or not.
 *
 * automatic: true: when all loops that run with the clock wait, none with a descriptor that is
 *     ready, the clock goes to the next instant at which one of them has something to do. It does
 *     not while a loop waits in a foreign run and nobody else moves it. Every clock is false first.
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT void RLClockSetAutomatic(RLClockRef RL_NULLABLE clock, bool automatic);

/**
 * Sets the date that a clock shows, forward or back, as when an administrator sets the system's.
 *
 * date: dates mean the new time from now on; timers that are set keep their instants. NaN does
 *     nothing; it is read to the nearest microsecond, and one before 1970 counts as that.
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT void RLClockSetWallTime(RLClockRef RL_NULLABLE clock, RLAbsoluteTime date);

/**
 * Plays a suspension of the machine: the date goes on, the clock by which timers are due does not.
 *
 * seconds: by which every timer that is set comes later, looked at by the date. NaN, 0 and less do
 *     nothing, nor does anything after the year 2129.
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT void RLClockSuspend(RLClockRef RL_NULLABLE clock, RLTimeInterval seconds);

RL_HEADER_END

#endif
