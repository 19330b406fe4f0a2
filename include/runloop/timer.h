/* RLTimerRef: callbacks at a date, once or repeatedly. */
#ifndef RUNLOOP_TIMER_H
#define RUNLOOP_TIMER_H

#include "base.h"

RL_HEADER_BEGIN

typedef struct RLTimerContext {
    RLIndex version;
    void *RL_NULLABLE info;
    const void *RL_NULLABLE (*RL_NULLABLE retain)(const void *RL_NULLABLE info);
    void (*RL_NULLABLE release)(const void *RL_NULLABLE info);
    char *RL_NULLABLE (*RL_NULLABLE copyDescription)(const void *RL_NULLABLE info);
} RLTimerContext;

typedef void (*RLTimerCallBack)(RLTimerRef RL_NULLABLE t, void *RL_NULLABLE info);

RL_EXPORT RLTypeID RLTimerGetTypeID(void);

RL_EXPORT RLTimerRef RL_NULLABLE RLTimerCreate(RLAbsoluteTime fireDate, RLTimeInterval interval, RLOptionFlags flags,
                                               RLIndex order, RLTimerCallBack RL_NULLABLE callout,
                                               RLTimerContext *RL_NULLABLE context) RL_WARN_UNUSED_RESULT;

RL_EXPORT RLAbsoluteTime RLTimerGetNextFireDate(RLTimerRef RL_NULLABLE t);

RL_EXPORT void RLTimerSetNextFireDate(RLTimerRef RL_NULLABLE t, RLAbsoluteTime fireDate);

RL_EXPORT RLTimeInterval RLTimerGetInterval(RLTimerRef RL_NULLABLE t);

RL_EXPORT bool RLTimerDoesRepeat(RLTimerRef RL_NULLABLE t);

RL_EXPORT RLIndex RLTimerGetOrder(RLTimerRef RL_NULLABLE t);

RL_EXPORT void RLTimerInvalidate(RLTimerRef RL_NULLABLE t);

RL_EXPORT bool RLTimerIsValid(RLTimerRef RL_NULLABLE t);

RL_EXPORT void RLTimerGetContext(RLTimerRef RL_NULLABLE t, RLTimerContext *RL_NULLABLE context);

RL_EXPORT RLTimeInterval RLTimerGetTolerance(RLTimerRef RL_NULLABLE t);

RL_EXPORT void RLTimerSetTolerance(RLTimerRef RL_NULLABLE t, RLTimeInterval tolerance);

RL_EXPORT bool RLContainsTimer(RLRunLoopRef RL_NULLABLE rl, RLTimerRef RL_NULLABLE t, RLMode RL_NULLABLE mode);

RL_EXPORT void RLAddTimer(RLRunLoopRef RL_NULLABLE rl, RLTimerRef RL_NULLABLE t, RLMode RL_NULLABLE mode);

RL_EXPORT void RLRemoveTimer(RLRunLoopRef RL_NULLABLE rl, RLTimerRef RL_NULLABLE t, RLMode RL_NULLABLE mode);

RL_HEADER_END

#endif
