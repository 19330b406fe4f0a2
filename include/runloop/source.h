/* RLSourceRef: custom (version 0) and port-based (version 1) sources. */
#ifndef RUNLOOP_SOURCE_H
#define RUNLOOP_SOURCE_H

#include "base.h"

RL_HEADER_BEGIN

typedef struct RLSourceContext {
    RLIndex version;
    void *RL_NULLABLE info;
    const void *RL_NULLABLE (*RL_NULLABLE retain)(const void *RL_NULLABLE info);
    void (*RL_NULLABLE release)(const void *RL_NULLABLE info);
    char *RL_NULLABLE (*RL_NULLABLE copyDescription)(const void *RL_NULLABLE info);
    bool (*RL_NULLABLE equal)(const void *RL_NULLABLE info1, const void *RL_NULLABLE info2);
    RLHashCode (*RL_NULLABLE hash)(const void *RL_NULLABLE info);
    void (*RL_NULLABLE schedule)(void *RL_NULLABLE info, RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode);
    void (*RL_NULLABLE cancel)(void *RL_NULLABLE info, RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode);
    void (*RL_NULLABLE perform)(void *RL_NULLABLE info);
} RLSourceContext;

typedef struct RLSourceContext1 {
    RLIndex version;
    void *RL_NULLABLE info;
    const void *RL_NULLABLE (*RL_NULLABLE retain)(const void *RL_NULLABLE info);
    void (*RL_NULLABLE release)(const void *RL_NULLABLE info);
    char *RL_NULLABLE (*RL_NULLABLE copyDescription)(const void *RL_NULLABLE info);
    bool (*RL_NULLABLE equal)(const void *RL_NULLABLE info1, const void *RL_NULLABLE info2);
    RLHashCode (*RL_NULLABLE hash)(const void *RL_NULLABLE info);
    RLPort (*RL_NULLABLE getPort)(void *RL_NULLABLE info);
    void (*RL_NULLABLE perform)(void *RL_NULLABLE info);
} RLSourceContext1;

RL_EXPORT RLTypeID RLSourceGetTypeID(void);

RL_EXPORT RLSourceRef RL_NULLABLE RLSourceCreate(RLIndex order, RLSourceContext *RL_NULLABLE context)
    RL_WARN_UNUSED_RESULT;

RL_EXPORT RLIndex RLSourceGetOrder(RLSourceRef RL_NULLABLE s);

RL_EXPORT void RLSourceInvalidate(RLSourceRef RL_NULLABLE s);

RL_EXPORT bool RLSourceIsValid(RLSourceRef RL_NULLABLE s);

RL_EXPORT void RLSourceGetContext(RLSourceRef RL_NULLABLE s, RLSourceContext *RL_NULLABLE context);

RL_EXPORT void RLSourceSignal(RLSourceRef RL_NULLABLE s);

RL_EXPORT bool RLSourceIsSignalled(RLSourceRef RL_NULLABLE s);

RL_EXPORT bool RLContainsSource(RLRunLoopRef RL_NULLABLE rl, RLSourceRef RL_NULLABLE s, RLMode RL_NULLABLE mode);

RL_EXPORT void RLAddSource(RLRunLoopRef RL_NULLABLE rl, RLSourceRef RL_NULLABLE s, RLMode RL_NULLABLE mode);

RL_EXPORT void RLRemoveSource(RLRunLoopRef RL_NULLABLE rl, RLSourceRef RL_NULLABLE s, RLMode RL_NULLABLE mode);

RL_HEADER_END

#endif
