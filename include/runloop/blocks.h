/* SPDX-License-Identifier: MIT */
/*
 * Block forms of the calls that take a function.
 *
 * They exist where the compiler has blocks (clang -fblocks); elsewhere this header is empty. They
 * are inline functions over the function forms, so the library itself needs no block runtime; a
 * program that calls them links one: -lBlocksRuntime, or libdispatch's.
 * Each function copies its block, so a block on the stack may be passed. The copy is released when
 * the function form calls release: for a performed block right after it has run, for a timer or an
 * observer when it becomes invalid. A block is kept alive during each of its calls, so it may
 * invalidate its own timer or observer.
 * Arguments and threads: as for the function form.
 * Functions whose names end in an underscore are internal.
 * Rules: Docs/semantics.md, section 7.
 */
#ifndef RUNLOOP_BLOCKS_H
#define RUNLOOP_BLOCKS_H

#include "observer.h"
#include "perform.h"
#include "timer.h"

#if defined(__BLOCKS__)

#include <pthread.h>

RL_HEADER_BEGIN

/* The block runtime, which the program links (-lBlocksRuntime). */
extern void *RL_NULLABLE _Block_copy(const void *RL_NULLABLE block);
extern void _Block_release(const void *RL_NULLABLE block);

/* Copies a block for a context's retain. */
static inline const void *RL_NULLABLE RLBlockRetain_(const void *RL_NULLABLE block) { return _Block_copy(block); }

/* Releases the copy for a context's release. */
static inline void RLBlockRelease_(const void *RL_NULLABLE block) { _Block_release(block); }

/* Releases the copy of a performed block. */
static inline void RLBlockReleasePerformed_(void *RL_NULLABLE block) { _Block_release(block); }

/* Calls a performed block. */
static inline void RLBlockPerform_(void *RL_NULLABLE block) { ((void (^)(void))block)(); }

/**
 * Queues a block for a mode of a loop and returns; the call itself never runs the block.
 *
 * rl, mode: as for RLPerformFunction. block: NULL does nothing.
 * Threads: any; call RLWakeUp after it for a loop that may wait. Ownership: the copy is released
 * after it ran, when the loop is freed, or at once if it can never run.
 * Reentrancy: call-outs too; copying may retain what the block captures.
 * CF: CFRunLoopPerformBlock with a string for mode. Since 0.1.
 */
static inline void RLPerformBlock(RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode, void (^RL_NULLABLE block)(void)) {
    if (block) RLPerformFunction(rl, mode, RLBlockPerform_, _Block_copy((const void *)block), RLBlockReleasePerformed_);
}

/**
 * Queues a block for several modes of a loop; it runs once, in whichever of them runs first.
 *
 * rl, modes, count: as for RLPerformFunctionInModes. block: NULL does nothing.
 * Threads: any; call RLWakeUp after it for a loop that may wait. Ownership: as for RLPerformBlock.
 * Reentrancy: call-outs too; copying may retain what the block captures.
 * CF: CFRunLoopPerformBlock with an array for mode. Since 0.1.
 */
static inline void RLPerformBlockInModes(RLRunLoopRef RL_NULLABLE rl, const RLMode RL_NULLABLE *RL_NULLABLE modes,
                                         RLIndex count, void (^RL_NULLABLE block)(void)) {
    if (block)
        RLPerformFunctionInModes(rl, modes, count, RLBlockPerform_, _Block_copy((const void *)block),
                                 RLBlockReleasePerformed_);
}

/* Calls an observer's block, and keeps it alive meanwhile; it may end the thread. */
static inline void RLBlockObserve_(RLObserverRef RL_NULLABLE o, RLActivity activity, void *RL_NULLABLE block) {
    void *held = _Block_copy(block);
    pthread_cleanup_push(RLBlockReleasePerformed_, held);
    ((void (^)(RLObserverRef, RLActivity))held)(o, activity);
    pthread_cleanup_pop(1);
}

/**
 * Makes an observer that calls a block.
 *
 * activities, repeats, order: as for RLObserverCreate. block: NULL: like a NULL callout.
 * Returns: the observer. Threads: any. Ownership: the caller's to release; the block is copied here
 * and released when the observer becomes invalid.
 * Reentrancy: call-outs too; copying may retain what the block captures.
 * CF: CFRunLoopObserverCreateWithHandler without the allocator. Since 0.1.
 */
static inline RLObserverRef RL_NULLABLE RLObserverCreateWithHandler(
    RLOptionFlags activities, bool repeats, RLIndex order,
    void (^RL_NULLABLE block)(RLObserverRef RL_NULLABLE o, RLActivity activity)) {
    RLObserverContext context = {0, (void *)block, RLBlockRetain_, RLBlockRelease_, NULL};
    return RLObserverCreate(activities, repeats, order, block ? RLBlockObserve_ : NULL, block ? &context : NULL);
}

/* Calls a timer's block, which the call's own retain keeps alive. */
static inline void RLBlockFire_(RLTimerRef RL_NULLABLE t, void *RL_NULLABLE block) {
    ((void (^)(RLTimerRef))block)(t);
}

/**
 * Makes a timer that calls a block.
 *
 * fireDate, interval, flags, order: as for RLTimerCreate. block: NULL: like a NULL callout.
 * Returns: the timer; NULL if interval is NaN. Threads: any. Ownership: the caller's to release;
 * the block is copied here and released when the timer becomes invalid.
 * Reentrancy: call-outs too; copying may retain what the block captures.
 * CF: CFRunLoopTimerCreateWithHandler without the allocator. Since 0.1.
 */
static inline RLTimerRef RL_NULLABLE RLTimerCreateWithHandler(RLAbsoluteTime fireDate, RLTimeInterval interval,
                                                              RLOptionFlags flags, RLIndex order,
                                                              void (^RL_NULLABLE block)(RLTimerRef RL_NULLABLE t)) {
    RLTimerContext context = {0, (void *)block, RLBlockRetain_, RLBlockRelease_, NULL};
    return RLTimerCreate(fireDate, interval, flags, order, block ? RLBlockFire_ : NULL, block ? &context : NULL);
}

RL_HEADER_END

#endif

#endif
