/* RLRunLoopRef: the loop of a thread, its modes, and running it. */
#ifndef RUNLOOP_LOOP_H
#define RUNLOOP_LOOP_H

#include "base.h"

RL_HEADER_BEGIN

RL_EXPORT const char *const RL_NONNULL kRLDefaultMode;
RL_EXPORT const char *const RL_NONNULL kRLCommonModes;

RL_ENUM(int32_t, RLRunResult) {
    kRLRunFinished = 1,
    kRLRunStopped = 2,
    kRLRunTimedOut = 3,
    kRLRunHandledSource = 4
};

RL_OPTIONS(RLOptionFlags, RLActivity) {
    kRLEntry = 1UL << 0,
    kRLBeforeTimers = 1UL << 1,
    kRLBeforeSources = 1UL << 2,
    kRLBeforeWaiting = 1UL << 5,
    kRLAfterWaiting = 1UL << 6,
    kRLExit = 1UL << 7,
    kRLAllActivities = 0x0FFFFFFFUL
};

RL_EXPORT RLTypeID RLGetTypeID(void);

RL_EXPORT RLRunLoopRef RL_NONNULL RLGetCurrent(void);

RL_EXPORT RLRunLoopRef RL_NONNULL RLGetMain(void);

RL_EXPORT char *RL_NULLABLE RLCopyCurrentMode(RLRunLoopRef RL_NULLABLE rl) RL_WARN_UNUSED_RESULT;

RL_EXPORT char *RL_NULLABLE *RL_NULLABLE RLCopyAllModes(RLRunLoopRef RL_NULLABLE rl, RLIndex *RL_NULLABLE count)
    RL_WARN_UNUSED_RESULT;

RL_EXPORT void RLAddCommonMode(RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode);

RL_EXPORT RLAbsoluteTime RLGetNextTimerFireDate(RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode);

RL_EXPORT void RLRun(void);

RL_EXPORT RLRunResult RLRunInMode(RLMode RL_NULLABLE mode, RLTimeInterval seconds, bool returnAfterSourceHandled);

RL_EXPORT bool RLIsWaiting(RLRunLoopRef RL_NULLABLE rl);

RL_EXPORT void RLWakeUp(RLRunLoopRef RL_NULLABLE rl);

RL_EXPORT void RLStop(RLRunLoopRef RL_NULLABLE rl);

RL_EXPORT void RLSetSpinLimit(RLRunLoopRef RL_NULLABLE rl, RLTimeInterval seconds);

RL_HEADER_END

#endif
