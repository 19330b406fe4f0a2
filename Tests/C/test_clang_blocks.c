/* SPDX-License-Identifier: MIT */
/* The block forms of blocks.h (section 7); built by a compiler that knows blocks. */
#define _GNU_SOURCE
#include "support.h"

#include <malloc.h>
#include <pthread.h>

RL_TEST(block_is_copied_and_not_run_inline, "S-BLK-1",
        "RLPerformBlock copies the block, so that it outlives its scope, and runs nothing inline") {
    RLRunLoopRef loop = RLGetCurrent();
    for (int i = 0; i < 3; i++) {
        char letter = (char)('a' + i);
        RLPerformBlock(loop, kRLDefaultMode, ^{ trace("%c", letter); });
    }
    expect_trace("");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a b c");
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static void queue_a_block(void *loop) {
    RLPerformBlock(loop, kRLDefaultMode, ^{ trace("later"); });
    trace("queued");
}

RL_TEST(block_queued_inside_a_run, "S-BLK-1 S-BLK-9",
        "A block queued inside a callback of the loop is not run inline either") {
    RLRunLoopRef loop = RLGetCurrent();
    RLPerformFunction(loop, kRLDefaultMode, queue_a_block, loop, NULL);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("queued later");
}

RL_TEST(null_block, "S-BLK-14", "A NULL block, with or without a list of modes, is ignored") {
    RLRunLoopRef loop = RLGetCurrent();
    const RLMode modes[] = {kRLDefaultMode};
    RLPerformBlock(loop, kRLDefaultMode, NULL);
    RLPerformBlockInModes(loop, modes, 1, NULL);
    RLPerformBlock(NULL, NULL, NULL);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(block_in_ignored_requests, "S-BLK-13 S-BLK-14 S-BLK-18",
        "A block for a NULL loop or mode, or for no modes, is not run") {
    RLRunLoopRef loop = RLGetCurrent();
    const RLMode modes[] = {kRLDefaultMode};
    void (^block)(void) = ^{ trace("wrong %p", (void *)loop); };
    keep_alive(loop, kRLDefaultMode);
    RLPerformBlock(NULL, kRLDefaultMode, block);
    RLPerformBlock(loop, NULL, block);
    RLPerformBlockInModes(loop, modes, 0, block);
    RLPerformBlockInModes(loop, NULL, 1, block);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("");
}

RL_TEST(block_in_several_modes, "S-BLK-4 S-BLK-5",
        "A block queued for several modes runs once, in the first of them that runs") {
    RLRunLoopRef loop = RLGetCurrent();
    static const RLMode modes[] = {"x", "y"};
    RLPerformBlockInModes(loop, modes, 2, ^{ trace("block"); });
    expect_run("y", 0, false, TimedOut);
    expect_trace("block");
    expect_run("x", 0, false, Finished);
}

static size_t bytes_in_use(void) { return mallinfo2().uordblks; }
static void end_in_timer(void) {
    struct { char bytes[4000]; } kept = {{0}};
    RLTimerRef timer = RLTimerCreateWithHandler(RLAbsoluteTimeGetCurrent(), 0, 0, 0, ^(RLTimerRef t) {
        (void)t;
        if (kept.bytes[0] == 0) pthread_exit(NULL);
    });
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRelease(timer);
    RLRunInMode(kRLDefaultMode, 60, false);
}
static void end_in_observer(void) {
    struct { char bytes[4000]; } kept = {{0}};
    RLObserverRef observer = RLObserverCreateWithHandler(kRLEntry, true, 0, ^(RLObserverRef o, RLActivity activity) {
        (void)o, (void)activity;
        if (kept.bytes[0] == 0) pthread_exit(NULL);
    });
    RLAddObserver(RLGetCurrent(), observer, kRLDefaultMode);
    RLRelease(observer);
    RLPerformBlock(RLGetCurrent(), kRLDefaultMode, ^{});
    RLRunInMode(kRLDefaultMode, 60, false);
}
static void *end_by_block(void *end) {
    ((void (*)(void))end)();
    return end;
}

RL_TEST(a_block_that_ends_the_thread_is_released, "S-LOOP-19 S-TMR-49 S-OBS-20",
        "The block of a timer or observer that ends its thread is released, with what it keeps") {
    void (*const ends[])(void) = {end_in_timer, end_in_observer};
    for (int i = 0; i < 2; i++) {
        size_t before = 0;
        for (int round = 0; round < 60; round++) {
            pthread_t thread;
            ck_assert_int_eq(pthread_create(&thread, NULL, end_by_block, (void *)ends[i]), 0);
            pthread_join(thread, NULL);
            if (round == 9) before = bytes_in_use();
        }
        ck_assert_uint_lt(bytes_in_use(), before + 50 * 2000);
    }
}
