/* SPDX-License-Identifier: MIT */
/* The pseudo-mode and the common set (section 2). */
#include "support.h"

#include <stdlib.h>
#include <string.h>

RL_TEST(default_mode_is_common, "S-MODE-11",
        "The default mode is common from the start, and adding a member again does nothing") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.name = "s", .traced = true};
    add_source(&source, kRLCommonModes);
    expect_trace("+s:kCFRunLoopDefaultMode");
    RLAddCommonMode(loop, kRLDefaultMode);
    RLAddCommonMode(loop, "a mode");
    RLAddCommonMode(loop, "a mode");
    expect_trace("+s:a mode");
}

RL_TEST(new_common_mode_gets_all_common_items, "S-MODE-12",
        "RLAddCommonMode of a new name adds every common item to that mode at once, with "
        "schedule for each version 0 source") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe first = {.name = "a", .traced = true}, second = {.name = "b", .traced = true};
    Probe port = {0}, timer = {0}, observer = {0};
    add_source(&first, kRLCommonModes);
    add_source(&second, kRLCommonModes);
    add_port(&port, make_eventfd(), kRLCommonModes);
    add_timer(&timer, FAR_FUTURE, 0, kRLCommonModes);
    add_observer(&observer, kRLEntry, kRLCommonModes);
    trace_take();
    RLAddCommonMode(loop, "new");
    ck_assert_int_eq(first.schedules, 2);
    ck_assert_int_eq(second.schedules, 2);
    ck_assert_ptr_nonnull(strstr(trace_take(), "+a:new"));
    ck_assert(RLContainsSource(loop, first.source, "new"));
    ck_assert(RLContainsSource(loop, port.source, "new"));
    ck_assert(RLContainsTimer(loop, timer.timer, "new"));
    ck_assert(RLContainsObserver(loop, observer.observer, "new"));
}

RL_TEST(common_mode_again_restores_nothing, "S-MODE-13",
        "RLAddCommonMode of a common name does not bring back what was removed from it alone") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.name = "s"}, timer = {.name = "t"}, observer = {.name = "o"};
    RLAddCommonMode(loop, "a mode");
    add_source(&source, kRLCommonModes);
    add_timer(&timer, FAR_FUTURE, 0, kRLCommonModes);
    add_observer(&observer, kRLEntry, kRLCommonModes);
    RLRemoveSource(loop, source.source, "a mode");
    RLRemoveTimer(loop, timer.timer, "a mode");
    RLRemoveObserver(loop, observer.observer, "a mode");
    RLAddCommonMode(loop, "a mode");
    ck_assert(!RLContainsSource(loop, source.source, "a mode"));
    ck_assert(!RLContainsTimer(loop, timer.timer, "a mode"));
    ck_assert(!RLContainsObserver(loop, observer.observer, "a mode"));
    ck_assert_int_eq(source.schedules, 2);
}

RL_TEST(adding_to_the_pseudo_mode_adds_to_the_common_set, "S-MODE-14 S-MODE-15",
        "Add to the pseudo-mode records a common item and adds it to each common mode, and to no "
        "other") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.name = "s"}, timer = {.name = "t"}, observer = {.name = "o"};
    Probe ordinary = {0}, ordinary_timer = {0}, ordinary_observer = {0};
    keep_alive(loop, "plain");
    RLAddCommonMode(loop, "common");
    add_source(&source, kRLCommonModes);
    add_timer(&timer, FAR_FUTURE, 0, kRLCommonModes);
    add_observer(&observer, kRLEntry, kRLCommonModes);
    static const char *const common[] = {"common", "kCFRunLoopDefaultMode"};
    for (int i = 0; i < 2; i++) {
        ck_assert(RLContainsSource(loop, source.source, common[i]));
        ck_assert(RLContainsTimer(loop, timer.timer, common[i]));
        ck_assert(RLContainsObserver(loop, observer.observer, common[i]));
    }
    ck_assert(!RLContainsSource(loop, source.source, "plain"));
    ck_assert(!RLContainsTimer(loop, timer.timer, "plain"));
    ck_assert(!RLContainsObserver(loop, observer.observer, "plain"));
    ck_assert(RLContainsSource(loop, source.source, kRLCommonModes));
    ck_assert(RLContainsTimer(loop, timer.timer, kRLCommonModes));
    ck_assert(RLContainsObserver(loop, observer.observer, kRLCommonModes));
    /* In every common mode, but not a common item. */
    add_source(&ordinary, kRLDefaultMode);
    add_timer(&ordinary_timer, FAR_FUTURE, 0, kRLDefaultMode);
    add_observer(&ordinary_observer, kRLEntry, kRLDefaultMode);
    RLAddSource(loop, ordinary.source, "common");
    RLAddTimer(loop, ordinary_timer.timer, "common");
    RLAddObserver(loop, ordinary_observer.observer, "common");
    ck_assert(!RLContainsSource(loop, ordinary.source, kRLCommonModes));
    ck_assert(!RLContainsTimer(loop, ordinary_timer.timer, kRLCommonModes));
    ck_assert(!RLContainsObserver(loop, ordinary_observer.observer, kRLCommonModes));
}

RL_TEST(removing_from_the_pseudo_mode, "S-MODE-16",
        "Remove from the pseudo-mode takes a common item out of every common mode, also where it "
        "was added individually, and out of no other") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.name = "s"}, timer = {.name = "t"}, observer = {.name = "o"};
    static const char *const modes[] = {"common", "plain"};
    probe_source(&source, 0);
    probe_timer(&timer, FAR_FUTURE, 0);
    probe_observer(&observer, kRLEntry, true, 0);
    RLAddCommonMode(loop, "common");
    for (int i = 0; i < 2; i++) {
        RLAddSource(loop, source.source, modes[i]);
        RLAddTimer(loop, timer.timer, modes[i]);
        RLAddObserver(loop, observer.observer, modes[i]);
    }
    RLAddSource(loop, source.source, kRLCommonModes);
    RLAddTimer(loop, timer.timer, kRLCommonModes);
    RLAddObserver(loop, observer.observer, kRLCommonModes);
    RLRemoveSource(loop, source.source, kRLCommonModes);
    RLRemoveTimer(loop, timer.timer, kRLCommonModes);
    RLRemoveObserver(loop, observer.observer, kRLCommonModes);
    static const char *const gone[] = {"common", "kCFRunLoopDefaultMode", "kCFRunLoopCommonModes"};
    for (int i = 0; i < 3; i++) {
        ck_assert(!RLContainsSource(loop, source.source, gone[i]));
        ck_assert(!RLContainsTimer(loop, timer.timer, gone[i]));
        ck_assert(!RLContainsObserver(loop, observer.observer, gone[i]));
    }
    ck_assert_int_eq(source.cancels, 2);
    ck_assert(RLContainsSource(loop, source.source, "plain"));
    ck_assert(RLContainsTimer(loop, timer.timer, "plain"));
    ck_assert(RLContainsObserver(loop, observer.observer, "plain"));
}

RL_TEST(removing_what_is_not_common, "S-MODE-17",
        "Remove from the pseudo-mode does nothing to an item that is not common, even if it is in "
        "every common mode") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.name = "s"}, timer = {.name = "t"}, observer = {.name = "o"};
    add_source(&source, kRLDefaultMode);
    add_timer(&timer, FAR_FUTURE, 0, kRLDefaultMode);
    add_observer(&observer, kRLEntry, kRLDefaultMode);
    RLRemoveSource(loop, source.source, kRLCommonModes);
    RLRemoveTimer(loop, timer.timer, kRLCommonModes);
    RLRemoveObserver(loop, observer.observer, kRLCommonModes);
    ck_assert(RLContainsSource(loop, source.source, kRLDefaultMode));
    ck_assert(RLContainsTimer(loop, timer.timer, kRLDefaultMode));
    ck_assert(RLContainsObserver(loop, observer.observer, kRLDefaultMode));
    ck_assert_int_eq(source.cancels, 0);
}

RL_TEST(common_item_removed_from_one_mode, "S-MODE-18",
        "A common item removed from one mode leaves that mode only, stays common, and a later Add "
        "to the pseudo-mode puts it back") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.name = "s"}, timer = {.name = "t"}, observer = {.name = "o"};
    RLAddCommonMode(loop, "common");
    add_source(&source, kRLCommonModes);
    add_timer(&timer, FAR_FUTURE, 0, kRLCommonModes);
    add_observer(&observer, kRLEntry, kRLCommonModes);
    RLRemoveSource(loop, source.source, "common");
    RLRemoveTimer(loop, timer.timer, "common");
    RLRemoveObserver(loop, observer.observer, "common");
    ck_assert(!RLContainsSource(loop, source.source, "common"));
    ck_assert(!RLContainsTimer(loop, timer.timer, "common"));
    ck_assert(!RLContainsObserver(loop, observer.observer, "common"));
    ck_assert(RLContainsSource(loop, source.source, kRLDefaultMode));
    ck_assert(RLContainsTimer(loop, timer.timer, kRLDefaultMode));
    ck_assert(RLContainsObserver(loop, observer.observer, kRLDefaultMode));
    ck_assert(RLContainsSource(loop, source.source, kRLCommonModes));
    ck_assert(RLContainsTimer(loop, timer.timer, kRLCommonModes));
    ck_assert(RLContainsObserver(loop, observer.observer, kRLCommonModes));
    RLAddSource(loop, source.source, kRLCommonModes);
    RLAddTimer(loop, timer.timer, kRLCommonModes);
    RLAddObserver(loop, observer.observer, kRLCommonModes);
    ck_assert(RLContainsSource(loop, source.source, "common"));
    ck_assert(RLContainsTimer(loop, timer.timer, "common"));
    ck_assert(RLContainsObserver(loop, observer.observer, "common"));
}

RL_TEST(an_equal_source_takes_the_place_in_one_mode, "S-MODE-18",
        "A source that is equal to a common item joins, by an Add to the pseudo-mode, the common modes "
        "where no equal one is; the common item stays what it is") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe first = {.name = "first"};
    RLSourceContext same;
    RLAddCommonMode(loop, "common");
    add_source(&first, kRLCommonModes);
    RLRemoveSource(loop, first.source, "common");
    RLRetain(first.source);
    RLSourceGetContext(first.source, &same);
    RLSourceRef equal = RLSourceCreate(0, &same);
    ck_assert(RLEqual(equal, first.source));
    RLAddSource(loop, equal, kRLCommonModes);
    ck_assert_int_eq(first.schedules, 3);
    RLTypeRef *items = RLCopyItems(loop, "common", kRLItemSources, NULL);
    ck_assert_ptr_eq(items[0], equal);
    RLRelease(items[0]);
    free(items);
    items = RLCopyItems(loop, kRLDefaultMode, kRLItemSources, NULL);
    ck_assert_ptr_eq(items[0], first.source);
    RLRelease(items[0]);
    free(items);
    RLRemoveSource(loop, equal, kRLCommonModes);
    ck_assert(!RLContainsSource(loop, first.source, "common"));
    ck_assert(!RLContainsSource(loop, first.source, kRLDefaultMode));
    ck_assert(!RLContainsSource(loop, first.source, kRLCommonModes));
    ck_assert_int_eq(first.cancels, 3);
    RLRelease(equal);
    RLRelease(first.source);
}

static void run_pseudo_mode_on_thread(void *unused) {
    (void)unused;
    keep_alive(RLGetCurrent(), kRLCommonModes);
    expect_run(kRLCommonModes, 1, false, Finished);
}

RL_TEST(running_the_pseudo_mode, "S-MODE-19 S-ARG-9",
        "Running the pseudo-mode returns Finished at once, calls no observer, and logs one line "
        "in the whole process") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.name = "s"};
    log_capture();
    observe(loop, kRLCommonModes);
    add_source(&source, kRLCommonModes);
    RLSourceSignal(source.source);
    expect_run(kRLCommonModes, 1e9, false, Finished);
    expect_run(kRLCommonModes, 0, true, Finished);
    thread_join(thread_start(run_pseudo_mode_on_thread, NULL));
    expect_trace("");
    ck_assert_msg(log_count() == 1, "the log is: %s", log_text());
}

RL_TEST(pseudo_mode_cannot_be_common, "S-MODE-20",
        "RLAddCommonMode of the pseudo-mode is ignored") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.name = "s", .traced = true};
    RLAddCommonMode(loop, kRLCommonModes);
    add_source(&source, kRLCommonModes);
    RLAddCommonMode(loop, kRLCommonModes);
    expect_trace("+s:kCFRunLoopDefaultMode");
    RLIndex count = 0;
    char **modes = RLCopyAllModes(loop, &count);
    ck_assert_int_eq(count, 1);
    ck_assert_str_eq(modes[0], kRLDefaultMode);
    free(modes);
    RLRemoveSource(loop, source.source, kRLCommonModes);
    expect_trace("-s:kCFRunLoopDefaultMode");
}

RL_TEST(cocoa_modes_are_ordinary, "S-MODE-24",
        "Cocoa's further modes are ordinary names: they do not exist and are not common until "
        "added") {
    RLRunLoopRef loop = RLGetCurrent();
    static const char *const names[] = {"NSConnectionReplyMode", "NSModalPanelRunLoopMode",
                                        "NSEventTrackingRunLoopMode", "NSDefaultRunLoopMode"};
    Probe source = {.name = "s"};
    add_source(&source, kRLCommonModes);
    for (int i = 0; i < 4; i++) {
        ck_assert(!RLContainsSource(loop, source.source, names[i]));
        expect_run(names[i], 1, false, Finished);
    }
    ck_assert_int_eq(source.schedules, 1);
    RLAddCommonMode(loop, names[2]);
    ck_assert(RLContainsSource(loop, source.source, names[2]));
    ck_assert(!RLContainsSource(loop, source.source, names[1]));
}

RL_TEST(common_items_are_retained, "S-MODE-22 S-MODE-26 S-TMR-19",
        "A common item that is in no mode any more is kept until it leaves the pseudo-mode") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.counted = true}, timer = {.counted = true}, observer = {.counted = true};
    add_source(&source, kRLCommonModes);
    add_timer(&timer, FAR_FUTURE, 0, kRLCommonModes);
    add_observer(&observer, kRLEntry, kRLCommonModes);
    RLRemoveSource(loop, source.source, kRLDefaultMode);
    RLRemoveTimer(loop, timer.timer, kRLDefaultMode);
    RLRemoveObserver(loop, observer.observer, kRLDefaultMode);
    ck_assert_int_eq(source.releases + timer.releases + observer.releases, 0);
    RLRemoveSource(loop, source.source, kRLCommonModes);
    RLRemoveTimer(loop, timer.timer, kRLCommonModes);
    RLRemoveObserver(loop, observer.observer, kRLCommonModes);
    ck_assert_int_eq(source.releases, 1);
    ck_assert_int_eq(timer.releases, 1);
    ck_assert_int_eq(observer.releases, 1);
}

RL_TEST(common_item_in_no_mode_belongs_to_its_loop, "S-MODE-26 S-TMR-14 S-OBS-10",
        "A common item in no mode stays common, gets into new common modes, and joins no other "
        "loop before it leaves the pseudo-mode") {
    RLRunLoopRef loop = RLGetCurrent(), other = RLGetMain();
    Probe source = {.name = "s"}, timer = {.name = "t"}, observer = {.name = "o"};
    add_source(&source, kRLCommonModes);
    RLAddTimer(loop, probe_timer(&timer, FAR_FUTURE, 0), kRLCommonModes);
    RLAddObserver(loop, probe_observer(&observer, kRLEntry, true, 0), kRLCommonModes);
    RLRemoveSource(loop, source.source, kRLDefaultMode);
    RLRemoveTimer(loop, timer.timer, kRLDefaultMode);
    RLRemoveObserver(loop, observer.observer, kRLDefaultMode);
    ck_assert(RLContainsSource(loop, source.source, kRLCommonModes));
    ck_assert(RLContainsTimer(loop, timer.timer, kRLCommonModes));
    ck_assert(RLContainsObserver(loop, observer.observer, kRLCommonModes));
    RLAddTimer(other, timer.timer, "elsewhere");
    RLAddObserver(other, observer.observer, "elsewhere");
    ck_assert(!RLContainsTimer(other, timer.timer, "elsewhere"));
    ck_assert(!RLContainsObserver(other, observer.observer, "elsewhere"));
    RLAddCommonMode(loop, "new");
    ck_assert(RLContainsSource(loop, source.source, "new"));
    ck_assert(RLContainsTimer(loop, timer.timer, "new"));
    ck_assert(RLContainsObserver(loop, observer.observer, "new"));
    RLRemoveTimer(loop, timer.timer, kRLCommonModes);
    RLRemoveObserver(loop, observer.observer, kRLCommonModes);
    RLAddTimer(other, timer.timer, "elsewhere");
    RLAddObserver(other, observer.observer, "elsewhere");
    ck_assert(RLContainsTimer(other, timer.timer, "elsewhere"));
    ck_assert(RLContainsObserver(other, observer.observer, "elsewhere"));
    RLTimerInvalidate(timer.timer);
    RLObserverInvalidate(observer.observer);
}

RL_TEST(invalidation_frees_a_common_item, "S-MODE-26 S-SRC-9 S-TMR-42 S-OBS-16",
        "Invalidating a common item that is in no mode takes it out of the common items") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.name = "s"}, timer = {.name = "t"}, observer = {.name = "o"};
    RLAddSource(loop, probe_source(&source, 0), kRLCommonModes);
    RLAddTimer(loop, probe_timer(&timer, FAR_FUTURE, 0), kRLCommonModes);
    RLAddObserver(loop, probe_observer(&observer, kRLEntry, true, 0), kRLCommonModes);
    RLRemoveSource(loop, source.source, kRLDefaultMode);
    RLRemoveTimer(loop, timer.timer, kRLDefaultMode);
    RLRemoveObserver(loop, observer.observer, kRLDefaultMode);
    RLSourceInvalidate(source.source);
    RLTimerInvalidate(timer.timer);
    RLObserverInvalidate(observer.observer);
    ck_assert(!RLContainsSource(loop, source.source, kRLCommonModes));
    ck_assert(!RLContainsTimer(loop, timer.timer, kRLCommonModes));
    ck_assert(!RLContainsObserver(loop, observer.observer, kRLCommonModes));
    RLAddCommonMode(loop, "new");
    ck_assert(!RLContainsSource(loop, source.source, "new"));
    ck_assert(!RLContainsTimer(loop, timer.timer, "new"));
}
