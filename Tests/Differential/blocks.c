/* SPDX-License-Identifier: MIT */
/* Scenarios of section 7: queued functions and blocks. */
#include "scenario.h"

SCENARIO(block_is_queued, "S-BLK-1 S-BLK-2", "A block does not run inline and wakes nothing.") {
    perform("block", D, NULL);
    say("queued");
    run(D, 0, false);
    run(D, 0, false);
}

SCENARIO(block_form_copies, "S-BLK-1 S-BLK-14", "RLPerformBlock copies the block with what it captured.") {
    int value = 1;
    RLPerformBlock(loop, D, ^{ say("%d", value); });
    value = 2;
    RLPerformBlock(loop, D, ^{ say("%d", value); });
    RLPerformBlock(loop, D, NULL);
    run(D, 0, false);
}

SCENARIO(block_order, "S-BLK-3", "Eligible blocks run in queue order; others keep theirs.") {
    perform("1", "a", NULL);
    perform("2", "b", NULL);
    perform("3", "a", NULL);
    perform("4", "b", NULL);
    run("b", 0, false);
    run("a", 0, false);
}

SCENARIO(block_pseudo_mode, "S-BLK-4",
         "A block for the pseudo-mode runs in a mode that is common at that moment.") {
    keep("m");
    perform("block", COMMON, NULL);
    run("m", 0, false);
    RLAddCommonMode(loop, "m");
    run("m", 0, false);
    perform("block", COMMON, NULL);
    run(D, 0, false);
}

SCENARIO(block_several_modes, "S-BLK-5", "A block for several modes runs once.") {
    const RLMode modes[] = {"a", "b", D};
    keep("b");
    keep(D);
    RLPerformBlockInModes(loop, modes, 3, ^{ say("block"); });
    say_modes();
    run("b", 0, false);
    run(D, 0, false);
    run("a", 0, false);
}

SCENARIO(block_round_is_a_snapshot, "S-BLK-6 S-BLK-9",
         "A block queued by a block waits for the next round, that is after the wait.") {
    observe("", D);
    keep(D);
    perform("A", D, ^{
        perform("C", D, ^{ perform("next", D, NULL); });
    });
    run(D, 1, false);
    run(D, 0, false);
}

SCENARIO(block_round_B_needs_a_source, "S-BLK-7 S-BLK-9",
         "What a round-A block queues runs in round B if a source was handled.") {
    observe("", D);
    RLSourceRef s = source("s", NULL);
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    perform("A", D, ^{ perform("B", D, ^{ perform("C", D, NULL); }); });
    run(D, 0, false);
}

SCENARIO(block_rounds_with_events, "S-BLK-7", "Blocks queued by timers and ports run in round C.") {
    observe("", D);
    keep(D);
    RLAddTimer(loop, timer("t", -1, 0, ^{ perform("C", D, NULL); }), D);
    run(D, 1, false);
    RLAddSource(loop, port("p", event(1), ^{ perform("C", D, NULL); }), D);
    run(D, 1, false);
}

SCENARIO(block_from_observers, "S-BLK-7",
         "Blocks queued by the observers of a pass run in round A or C of it.") {
    observe("", D);
    keep(D);
    RLOptionFlags at[] = {kRLEntry, kRLBeforeTimers, kRLBeforeSources, kRLBeforeWaiting, kRLAfterWaiting,
                          kRLExit};
    const char *names[] = {"in-E", "in-BT", "in-BS", "in-BW", "in-AW", "in-X"};
    for (int i = 0; i < 6; i++) {
        const char *name = names[i];
        RLAddObserver(loop, observer_with(NULL, PLAIN, at[i], false, 1, ^{ perform(name, D, NULL); }), D);
    }
    run(D, 1, false);
    run(D, 0, false);
}

SCENARIO(block_keeps_mode_from_empty, "S-BLK-10", "A pending block alone keeps its modes from being empty.") {
    RLAddCommonMode(loop, "m");
    keep("m");
    perform("block", COMMON, NULL);
    run(D, 0, false);
    run(D, 0, false);
    perform("other", "a", NULL);
    run(D, 0, false);
    run("a", 0, false);
}

SCENARIO(block_empties_the_mode, "S-BLK-8 S-RUN-9",
         "After its only block the loop sleeps; a wake-up then ends the run.") {
    observe("", D);
    perform("block", D, NULL);
    when_waiting(^{ RLWakeUp(loop); });
    run(D, 100, false);
}

SCENARIO(block_is_no_source, "S-BLK-11", "With h, blocks do not end the run.") {
    observe("", D);
    keep(D);
    perform("block", D, NULL);
    run(D, 0, true);
    perform("block", D, NULL);
    run(D, 1, true);
}

SCENARIO(block_nested_does_not_see_the_round, "S-BLK-15 S-NEST-6",
         "A nested run sees no block of the outer round, not even as something in its mode.") {
    perform("1", D, ^{ run(D, 0, false); });
    perform("2", D, NULL);
    run(D, 0, false);
}

SCENARIO(block_nested_runs_its_own, "S-BLK-16",
         "A block queued in a block runs in its nested run, before the rest of the round.") {
    perform("1", D, ^{
        perform("inner", D, NULL);
        run(D, 0, false);
    });
    perform("2", D, NULL);
    run(D, 0, false);
}

SCENARIO(block_nested_in_another_mode, "S-BLK-15 S-BLK-16",
         "A nested run in another mode runs that mode's blocks and leaves the outer round's.") {
    perform("1", D, ^{
        perform("a", "m", NULL);
        run("m", 0, false);
        perform("later", D, NULL);
    });
    perform("2", D, NULL);
    perform("b", "m", NULL);
    run(D, 0, false);
}

SCENARIO(block_left_over_stays_ahead, "S-BLK-3 S-BLK-15",
         "What a round leaves over stays ahead of what was queued during it, nested run or not.") {
    keep("a");
    keep(D);
    perform("1", "a", ^{
        perform("3", D, NULL);
        run("a", 0, false);
    });
    perform("2", D, NULL);
    run("a", 0, false);
    run(D, 0, false);
}

SCENARIO(block_is_released_after_it_ran, "S-BLK-17 S-BLK-18",
         "Each function is released right after it ran, before the next one runs.") {
    perform_counted("1", D, NULL);
    perform_counted("2", D, ^{ perform_counted("3", D, NULL); });
    perform_counted("4", "other", NULL);
    run(D, 0, false);
    say("end");
}

static void never(void *info) { say("%s", (const char *)info); }
static void released(void *info) {
    (void)info;
    say("release");
}

DIFFERS(block_for_no_mode, "S-BLK-13 S-BLK-18",
        "A function for no mode is never run; librunloop releases it at once.",
        "queued =TimedOut release",
        "release queued =TimedOut") {
    keep(D);
    const RLMode modes[] = {D};
    RLPerformFunctionInModes(loop, modes, 0, never, "never", released);
    say("queued");
    run(D, 0, false);
}

SCENARIO(block_stops_the_loop_it_waits_in, "S-BLK-3 S-WAKE-8",
         "Blocks queued by another thread run in order after one wake-up.") {
    observe("", D);
    keep(D);
    when_waiting(^{
        perform("1", D, NULL);
        perform("2", D, NULL);
        perform("3", D, ^{ RLStop(loop); });
        perform("4", D, NULL);
        RLWakeUp(loop);
    });
    run(D, 100, false);
}

SCENARIO(block_removes_and_signals, "S-BLK-7 S-SRC-31",
         "A source signalled by a round-A block performs in the same pass; by a round-C block, in the next.") {
    observe("", D);
    RLSourceRef s = source("s", NULL);
    RLAddSource(loop, s, D);
    perform("A", D, ^{ RLSourceSignal(s); });
    run(D, 0, false);
    RLAddTimer(loop, timer("t", -1, 0, ^{ perform("C", D, ^{ RLSourceSignal(s); }); }), D);
    run(D, 1, false);
}
