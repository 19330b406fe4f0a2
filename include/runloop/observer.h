/* RLObserverRef: callbacks at the stages of a run. */
#ifndef RUNLOOP_OBSERVER_H
#define RUNLOOP_OBSERVER_H

#include "loop.h"

RL_HEADER_BEGIN

typedef struct RLObserverContext {
    RLIndex version;
    void *RL_NULLABLE info;
    const void *RL_NULLABLE (*RL_NULLABLE retain)(const void *RL_NULLABLE info);
    void (*RL_NULLABLE release)(const void *RL_NULLABLE info);
    char *RL_NULLABLE (*RL_NULLABLE copyDescription)(const void *RL_NULLABLE info);
} RLObserverContext;

typedef void (*RLObserverCallBack)(RLObserverRef RL_NULLABLE o, RLActivity activity, void *RL_NULLABLE info);

RL_EXPORT RLTypeID RLObserverGetTypeID(void);

RL_EXPORT RLObserverRef RL_NULLABLE RLObserverCreate(RLOptionFlags activities, bool repeats, RLIndex order,
                                                     RLObserverCallBack RL_NULLABLE callout,
                                                     RLObserverContext *RL_NULLABLE context) RL_WARN_UNUSED_RESULT;

RL_EXPORT RLOptionFlags RLObserverGetActivities(RLObserverRef RL_NULLABLE o);

RL_EXPORT bool RLObserverDoesRepeat(RLObserverRef RL_NULLABLE o);

RL_EXPORT RLIndex RLObserverGetOrder(RLObserverRef RL_NULLABLE o);

RL_EXPORT void RLObserverInvalidate(RLObserverRef RL_NULLABLE o);

RL_EXPORT bool RLObserverIsValid(RLObserverRef RL_NULLABLE o);

RL_EXPORT void RLObserverGetContext(RLObserverRef RL_NULLABLE o, RLObserverContext *RL_NULLABLE context);

RL_EXPORT bool RLContainsObserver(RLRunLoopRef RL_NULLABLE rl, RLObserverRef RL_NULLABLE o, RLMode RL_NULLABLE mode);

RL_EXPORT void RLAddObserver(RLRunLoopRef RL_NULLABLE rl, RLObserverRef RL_NULLABLE o, RLMode RL_NULLABLE mode);

RL_EXPORT void RLRemoveObserver(RLRunLoopRef RL_NULLABLE rl, RLObserverRef RL_NULLABLE o, RLMode RL_NULLABLE mode);

RL_HEADER_END

#endif
