/* Block forms of the calls that take a function; inline, so that the library needs no block runtime. */
#ifndef RUNLOOP_BLOCKS_H
#define RUNLOOP_BLOCKS_H

#include "observer.h"
#include "perform.h"
#include "timer.h"

#if defined(__BLOCKS__)

RL_HEADER_BEGIN

/* The block runtime, which the program links (-lBlocksRuntime). */
extern void *RL_NULLABLE _Block_copy(const void *RL_NULLABLE block);
extern void _Block_release(const void *RL_NULLABLE block);

static inline const void *RL_NULLABLE RLBlockRetain_(const void *RL_NULLABLE block) { return _Block_copy(block); }

static inline void RLBlockRelease_(const void *RL_NULLABLE block) { _Block_release(block); }

static inline void RLBlockReleasePerformed_(void *RL_NULLABLE block) { _Block_release(block); }

static inline void RLBlockPerform_(void *RL_NULLABLE block) { ((void (^)(void))block)(); }

static inline void RLPerformBlock(RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode, void (^RL_NULLABLE block)(void)) {
    if (block) RLPerformFunction(rl, mode, RLBlockPerform_, _Block_copy((const void *)block), RLBlockReleasePerformed_);
}

static inline void RLPerformBlockInModes(RLRunLoopRef RL_NULLABLE rl, const RLMode RL_NULLABLE *RL_NULLABLE modes,
                                         RLIndex count, void (^RL_NULLABLE block)(void)) {
    if (block)
        RLPerformFunctionInModes(rl, modes, count, RLBlockPerform_, _Block_copy((const void *)block),
                                 RLBlockReleasePerformed_);
}

static inline void RLBlockObserve_(RLObserverRef RL_NULLABLE o, RLActivity activity, void *RL_NULLABLE block) {
    void *held = _Block_copy(block);
    ((void (^)(RLObserverRef, RLActivity))held)(o, activity);
    _Block_release(held);
}

static inline RLObserverRef RL_NULLABLE RLObserverCreateWithHandler(
    RLOptionFlags activities, bool repeats, RLIndex order,
    void (^RL_NULLABLE block)(RLObserverRef RL_NULLABLE o, RLActivity activity)) {
    RLObserverContext context = {0, (void *)block, RLBlockRetain_, RLBlockRelease_, NULL};
    return RLObserverCreate(activities, repeats, order, block ? RLBlockObserve_ : NULL, block ? &context : NULL);
}

static inline void RLBlockFire_(RLTimerRef RL_NULLABLE t, void *RL_NULLABLE block) {
    void *held = _Block_copy(block);
    ((void (^)(RLTimerRef))held)(t);
    _Block_release(held);
}

static inline RLTimerRef RL_NULLABLE RLTimerCreateWithHandler(RLAbsoluteTime fireDate, RLTimeInterval interval,
                                                              RLOptionFlags flags, RLIndex order,
                                                              void (^RL_NULLABLE block)(RLTimerRef RL_NULLABLE t)) {
    RLTimerContext context = {0, (void *)block, RLBlockRetain_, RLBlockRelease_, NULL};
    return RLTimerCreate(fireDate, interval, flags, order, block ? RLBlockFire_ : NULL, block ? &context : NULL);
}

RL_HEADER_END

#endif

#endif
