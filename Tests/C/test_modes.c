/* SPDX-License-Identifier: MIT */
/* Modes (section 2): names, when a mode comes into being, the current mode, held events. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All mode names of a loop in alphabetical order, with commas between. */
static const char *mode_names(RLRunLoopRef loop) {
    static char text[1024];
    RLIndex count = -1;
    char **modes = RLCopyAllModes(loop, &count);
    ck_assert_ptr_nonnull(modes);
    ck_assert_ptr_null(modes[count]);
    for (RLIndex i = 0; i < count; i++)
        if (strcmp(modes[i], kRLDefaultMode) == 0) modes[i] = "Default";
    qsort(modes, (size_t)count, sizeof *modes, compare_names);
    text[0] = '\0';
    for (RLIndex i = 0; i < count; i++) {
        if (i > 0) strcat(text, ",");
        strcat(text, modes[i]);
    }
    free(modes);
    return text;
}

#define expect_modes(expected) ck_assert_str_eq(mode_names(RLGetCurrent()), expected)

RL_TEST(names_compare_by_content, "S-MODE-1",
        "Two equal names at different addresses are one mode") {
    RLRunLoopRef loop = RLGetCurrent();
    char one[] = "a mode", two[] = "a mode", standard[] = "kCFRunLoopDefaultMode";
    Probe source = {.name = "s"};
    add_source(&source, one);
    ck_assert(RLContainsSource(loop, source.source, two));
    memset(one, 'x', strlen(one));
    RLSourceSignal(source.source);
    expect_run(two, 0, true, HandledSource);
    keep_alive(loop, standard);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_modes("Default,a mode");
}

RL_TEST(pseudo_mode_is_known_by_content, "S-MODE-1",
        "An equal string at another address is the pseudo-mode in Add, Contains and Remove") {
    RLRunLoopRef loop = RLGetCurrent();
    char common[] = "kCFRunLoopCommonModes";
    Probe source = {.name = "s"}, timer = {.name = "t"}, observer = {.name = "o"};
    RLAddSource(loop, probe_source(&source, 0), common);
    RLAddTimer(loop, probe_timer(&timer, FAR_FUTURE, 0), common);
    RLAddObserver(loop, probe_observer(&observer, kRLEntry, true, 0), common);
    expect_modes("Default");
    ck_assert(RLContainsSource(loop, source.source, kRLDefaultMode));
    ck_assert(RLContainsTimer(loop, timer.timer, kRLDefaultMode));
    ck_assert(RLContainsObserver(loop, observer.observer, kRLDefaultMode));
    ck_assert(RLContainsSource(loop, source.source, common));
    ck_assert(RLContainsTimer(loop, timer.timer, common));
    ck_assert(RLContainsObserver(loop, observer.observer, common));
    RLRemoveSource(loop, source.source, common);
    RLRemoveTimer(loop, timer.timer, common);
    RLRemoveObserver(loop, observer.observer, common);
    ck_assert(!RLContainsSource(loop, source.source, kRLDefaultMode));
    ck_assert(!RLContainsTimer(loop, timer.timer, kRLDefaultMode));
    ck_assert(!RLContainsObserver(loop, observer.observer, kRLDefaultMode));
    expect_run(common, 1, false, Finished);
}

RL_TEST(adding_makes_a_mode, "S-MODE-2 S-BLK-12",
        "The first Add of any item, or function queued for it, makes a mode") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {0}, port = {0}, timer = {0}, observer = {0}, function = {0}, in_modes = {0};
    add_source(&source, "source");
    expect_modes("Default,source");
    add_port(&port, make_eventfd(), "port");
    expect_modes("Default,port,source");
    add_timer(&timer, FAR_FUTURE, 0, "timer");
    expect_modes("Default,port,source,timer");
    add_observer(&observer, kRLEntry, "observer");
    expect_modes("Default,observer,port,source,timer");
    probe_perform(&function, loop, "function");
    expect_modes("Default,function,observer,port,source,timer");
    const RLMode modes[] = {"x", "y"};
    probe_perform_in_modes(&in_modes, loop, modes, 2);
    expect_modes("Default,function,observer,port,source,timer,x,y");
}

RL_TEST(asking_makes_no_mode, "S-MODE-3 S-RUN-4",
        "Run, Contains, Remove, GetNextTimerFireDate and CopyCurrentMode never make a mode") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {0}, timer = {0}, observer = {0};
    probe_source(&source, 0);
    probe_timer(&timer, FAR_FUTURE, 0);
    probe_observer(&observer, kRLEntry, true, 0);
    expect_run("missing", 1, false, Finished);
    ck_assert(!RLContainsSource(loop, source.source, "missing"));
    ck_assert(!RLContainsTimer(loop, timer.timer, "missing"));
    ck_assert(!RLContainsObserver(loop, observer.observer, "missing"));
    RLRemoveSource(loop, source.source, "missing");
    RLRemoveTimer(loop, timer.timer, "missing");
    RLRemoveObserver(loop, observer.observer, "missing");
    ck_assert_double_eq(RLGetNextTimerFireDate(loop, "missing"), 0);
    ck_assert_ptr_null(RLCopyCurrentMode(loop));
    expect_modes("Default");
}

RL_TEST(common_mode_is_made_for_common_items, "S-MODE-4",
        "RLAddCommonMode makes an unknown mode only if there are common items for it") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.name = "s", .traced = true};
    RLAddCommonMode(loop, "early");
    expect_modes("Default");
    add_source(&source, kRLCommonModes);
    /* The early one was in the common set all along, so the common item makes it now. */
    expect_modes("Default,early");
    RLAddCommonMode(loop, "late");
    expect_modes("Default,early,late");
    ck_assert(RLContainsSource(loop, source.source, "early"));
    ck_assert(RLContainsSource(loop, source.source, "late"));
}

RL_TEST(emptied_mode_stays, "S-MODE-5",
        "A mode that lost all its items still exists") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {0};
    add_source(&source, "a mode");
    RLRemoveSource(loop, source.source, "a mode");
    expect_run("a mode", 1, false, Finished);
    expect_modes("Default,a mode");
}

RL_TEST(all_modes_are_copied_once_each, "S-MODE-6",
        "RLCopyAllModes lists each mode once in a result the caller owns") {
    RLRunLoopRef loop = RLGetCurrent();
    char name[16];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "mode %d", i);
        keep_alive(loop, name);
        keep_alive(loop, name);
    }
    RLIndex count = 0;
    char **modes = RLCopyAllModes(loop, &count);
    ck_assert_int_eq(count, 101);
    ck_assert_ptr_null(modes[count]);
    keep_alive(loop, "one more");
    qsort(modes, (size_t)count, sizeof *modes, compare_names);
    for (RLIndex i = 1; i < count; i++) ck_assert_str_ne(modes[i - 1], modes[i]);
    free(modes);
    char **again = RLCopyAllModes(loop, NULL);
    for (count = 0; again[count]; count++) continue;
    ck_assert_int_eq(count, 102);
    free(again);
}

RL_TEST(pseudo_mode_is_not_listed, "S-MODE-7 S-BLK-12",
        "The pseudo-mode is never listed, also after a function was queued for it") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe function = {.name = "f"}, source = {.name = "s"};
    probe_perform(&function, loop, kRLCommonModes);
    add_source(&source, kRLCommonModes);
    expect_modes("Default");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("f");
    expect_modes("Default");
}

static void trace_current_mode(Probe *self) {
    char *mode = RLCopyCurrentMode(self->loop);
    trace("%s=%s", self->observer ? activity_name(self->activity) : "mode", mode ? mode : "none");
    free(mode);
}

static void run_inner(Probe *self) {
    trace_current_mode(self);
    expect_run("inner", 0, false, TimedOut);
    trace_current_mode(self);
}

RL_TEST(current_mode_is_the_innermost_runs, "S-MODE-8 S-MODE-9",
        "The current mode is the innermost run's from Entry to Exit, then the outer run's, and "
        "none when the loop does not run") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = trace_current_mode}, source = {.action = run_inner};
    Probe inner = {.action = trace_current_mode};
    add_observer(&observer, kRLEntry | kRLExit, "outer");
    RLAddObserver(loop, observer.observer, "inner");
    add_source(&source, "outer");
    add_source(&inner, "inner");
    ck_assert_ptr_null(RLCopyCurrentMode(loop));
    RLSourceSignal(source.source);
    RLSourceSignal(inner.source);
    expect_run("outer", 0, true, HandledSource);
    ck_assert_ptr_null(RLCopyCurrentMode(loop));
    expect_trace("E=outer mode=outer E=inner mode=inner X=inner mode=outer X=outer");
}

static void ask_from_outside(void *loop) {
    char *mode = RLCopyCurrentMode(loop);
    trace("%s", mode);
    free(mode);
    RLStop(loop);
}

RL_TEST(any_thread_may_ask_the_mode, "S-MODE-8",
        "Another thread sees the mode of a running loop") {
    RLRunLoopRef loop = RLGetCurrent();
    keep_alive(loop, "asked");
    Thread *thread = when_waiting(loop, ask_from_outside, loop);
    expect_run("asked", 1e9, false, Stopped);
    thread_join(thread);
    expect_trace("asked");
}

RL_TEST(empty_string_is_a_mode, "S-MODE-10",
        "The empty string is an ordinary mode name") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.name = "s", .action = trace_current_mode};
    expect_run("", 1, false, Finished);
    add_source(&source, "");
    expect_modes(",Default");
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0, false, Finished);
    expect_run("", 0, true, HandledSource);
    expect_trace("s mode=");
    RLAddCommonMode(loop, "");
    Probe common = {0};
    add_source(&common, kRLCommonModes);
    ck_assert(RLContainsSource(loop, common.source, ""));
}

RL_TEST(adding_twice_is_adding_once, "S-MODE-21 S-OBS-11",
        "Adding an item to a mode it is in does nothing: one schedule, and one Remove ends it") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.name = "s"}, timer = {.name = "t"}, observer = {.name = "o"};
    add_source(&source, kRLDefaultMode);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    add_observer(&observer, kRLEntry, kRLDefaultMode);
    RLAddSource(loop, source.source, kRLDefaultMode);
    RLAddTimer(loop, timer.timer, kRLDefaultMode);
    RLAddObserver(loop, observer.observer, kRLDefaultMode);
    ck_assert_int_eq(source.schedules, 1);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("o s t");
    RLRetain(source.source);
    RLRemoveSource(loop, source.source, kRLDefaultMode);
    RLRemoveObserver(loop, observer.observer, kRLDefaultMode);
    ck_assert_int_eq(source.cancels, 1);
    ck_assert(!RLContainsSource(loop, source.source, kRLDefaultMode));
    expect_run(kRLDefaultMode, 0, false, Finished);
    expect_trace("");
}

RL_TEST(mode_retains_its_items, "S-MODE-22 S-REF-2",
        "Items released by their creator live in their mode, and die when they leave it") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.name = "s", .counted = true}, timer = {.name = "t", .counted = true};
    Probe observer = {.name = "o", .counted = true};
    add_source(&source, "a mode");
    add_timer(&timer, FAR_FUTURE, 0, "a mode");
    add_observer(&observer, kRLEntry, "a mode");
    ck_assert_int_eq(source.releases + timer.releases + observer.releases, 0);
    RLSourceSignal(source.source);
    expect_run("a mode", 0, false, TimedOut);
    expect_trace("o s");
    RLRemoveSource(loop, source.source, "a mode");
    RLRemoveTimer(loop, timer.timer, "a mode");
    RLRemoveObserver(loop, observer.observer, "a mode");
    ck_assert_int_eq(source.releases, 1);
    ck_assert_int_eq(timer.releases, 1);
    ck_assert_int_eq(observer.releases, 1);
}

RL_TEST(events_of_other_modes_are_held, "S-MODE-23",
        "Signals, port data and overdue timers wait for their mode, and an overdue timer then "
        "fires once") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.name = "s"}, port = {.name = "p"}, timer = {.name = "t"};
    int fd = make_eventfd();
    observe(loop, "other");
    keep_alive(loop, "other");
    add_source(&source, kRLDefaultMode);
    add_port(&port, fd, kRLDefaultMode);
    add_timer(&timer, date_in(0.001), 0.001, kRLDefaultMode);
    RLSourceSignal(source.source);
    eventfd_signal(fd);
    expect_run("other", 0.02, false, TimedOut);
    expect_trace("E BT BS BW AW X");
    ck_assert(RLSourceIsSignalled(source.source));
    /* The grid moves to a distant instant, so that one late fire is all there is to see. */
    RLTimerSetNextFireDate(timer.timer, FAR_FUTURE);
    Probe late = {.name = "l"};
    add_timer(&late, date_in(0.001), 1000, kRLDefaultMode);
    expect_run("other", 0.02, false, TimedOut);
    trace_take();
    for (int i = 0; i < 10; i++) expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_int_eq(source.calls, 1);
    ck_assert_int_eq(port.calls, 1);
    ck_assert_int_eq(late.calls, 1);
}

RL_TEST(source_in_many_loops_timer_in_one, "S-MODE-25 S-SRC-25 S-TMR-13 S-OBS-10",
        "A source may be in many modes and loops; a timer or observer in many modes of one loop "
        "only") {
    RLRunLoopRef loop = RLGetCurrent(), other = RLGetMain();
    Probe source = {.name = "s"}, timer = {.name = "t"}, observer = {.name = "o"};
    add_source(&source, "one");
    add_timer(&timer, FAR_FUTURE, 0, "one");
    add_observer(&observer, kRLEntry, "one");
    RLAddSource(loop, source.source, "two");
    RLAddTimer(loop, timer.timer, "two");
    RLAddObserver(loop, observer.observer, "two");
    RLAddSource(other, source.source, "one");
    RLAddTimer(other, timer.timer, "one");
    RLAddObserver(other, observer.observer, "one");
    ck_assert(RLContainsSource(loop, source.source, "one"));
    ck_assert(RLContainsSource(loop, source.source, "two"));
    ck_assert(RLContainsSource(other, source.source, "one"));
    ck_assert(RLContainsTimer(loop, timer.timer, "two"));
    ck_assert(!RLContainsTimer(other, timer.timer, "one"));
    ck_assert(RLContainsObserver(loop, observer.observer, "two"));
    ck_assert(!RLContainsObserver(other, observer.observer, "one"));
    /* The source is held by the main loop, so it must leave before the probe goes. */
    RLSourceInvalidate(source.source);
    ck_assert_int_eq(source.cancels, 3);
}
