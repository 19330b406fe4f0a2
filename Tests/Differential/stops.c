/* SPDX-License-Identifier: MIT */
/* Scenarios of sections 5 and 6: stop, wake-up, waiting. */
#include "scenario.h"

SCENARIO(stop_outside_a_run, "S-STOP-1", "A stop outside a run is not remembered.") {
    observe("", D);
    keep(D);
    RLStop(loop);
    run(D, 1, false);
}

SCENARIO(stop_is_for_the_innermost_run, "S-STOP-2 S-NEST-2", "A stop ends the innermost run only.") {
    observe("", D);
    observe("n.", "inner");
    RLSourceRef in = source("in", ^{ RLStop(loop); });
    RLAddSource(loop, in, "inner");
    RLSourceRef out = source("out", ^{
        RLSourceSignal(in);
        run("inner", 100, false);
    });
    RLAddSource(loop, out, D);
    RLSourceSignal(out);
    run(D, 1, false);
}

SCENARIO(stop_before_a_nested_run, "S-STOP-3 S-NEST-6",
         "A stop before a nested run in the same perform leaves the nested run alone.") {
    observe("", D);
    keep("inner");
    RLSourceRef out = source("out", ^{
        RLStop(loop);
        run("inner", 0.05, false);
    });
    RLAddSource(loop, out, D);
    RLSourceSignal(out);
    run(D, 100, false);
}

DIFFERS(stop_before_a_nested_run_in_before_waiting, "S-STOP-3",
        "A stop before a nested run in BeforeWaiting: the outer run does not sleep.",
        "BW n=TimedOut late =Stopped", "BW n=TimedOut =Stopped") {
    keep(D);
    keep("inner");
    RLAddObserver(loop, observer_with("BW", PLAIN, kRLBeforeWaiting, false, 0, ^{
                      RLStop(loop);
                      say("n%s", RLRunInMode("inner", 0.05, false) == kRLRunTimedOut ? "=TimedOut" : "=other");
                  }), D);
    RLAddTimer(loop, timer("late", 2, 0, NULL), D);
    run(D, 100, false);
}

#define STOP_IN(id, rules, activity)                                                                 \
    SCENARIO(id, rules, "A stop in an observer: the pass is completed, without sleep.") {            \
        observe("", D);                                                                              \
        RLSourceRef s = source("s", NULL);                                                           \
        RLAddSource(loop, s, D);                                                                     \
        RLAddObserver(loop, observer_with("stop", PLAIN, activity, false, 1, ^{ RLStop(loop); }), D); \
        run(D, 100, false);                                                                          \
        RLSourceSignal(s);                                                                           \
        RLAddObserver(loop, observer_with("stop", PLAIN, activity, false, 1, ^{ RLStop(loop); }), D); \
        run(D, 1, false);                                                                         \
    }

STOP_IN(stop_in_entry, "S-STOP-4", kRLEntry)
STOP_IN(stop_in_before_timers, "S-STOP-5 S-STOP-13", kRLBeforeTimers)
STOP_IN(stop_in_before_sources, "S-STOP-5 S-STOP-13", kRLBeforeSources)
STOP_IN(stop_in_before_waiting, "S-STOP-6 S-STOP-13", kRLBeforeWaiting)

SCENARIO(stop_in_after_waiting, "S-STOP-9", "A stop in AfterWaiting: the event is still served.") {
    observe("", D);
    RLAddSource(loop, port("p", event(1), NULL), D);
    RLAddObserver(loop, observer_with("stop", PLAIN, kRLAfterWaiting, false, 1, ^{ RLStop(loop); }), D);
    run(D, 100, false);
}

SCENARIO(stop_in_exit, "S-STOP-7", "A stop in Exit touches neither this run nor the next.") {
    observe("", D);
    keep(D);
    RLAddObserver(loop, observer_with("stop", PLAIN, kRLExit, false, 1, ^{ RLStop(loop); }), D);
    run(D, 1, false);
    run(D, 1, false);
}

SCENARIO(stop_completes_the_pass, "S-STOP-9 S-STOP-10",
         "After a stop the other sources of the batch and the due timers still run, once.") {
    observe("", D);
    RLSourceRef a = source_with("a", PLAIN, 1, ^{ RLStop(loop); RLStop(loop); }),
                b = source_with("b", PLAIN, 2, ^{ RLStop(loop); });
    RLAddSource(loop, a, D);
    RLAddSource(loop, b, D);
    RLSourceSignal(a);
    RLSourceSignal(b);
    RLAddTimer(loop, timer("t", -1, 0, NULL), D);
    RLAddTimer(loop, timer("u", -1, 0, NULL), D);
    run(D, 100, false);
}

SCENARIO(stop_in_block_A, "S-STOP-13 S-STOP-9", "A stop in a round-A block: the wait returns at once.") {
    observe("", D);
    keep(D);
    perform("block", D, ^{ RLStop(loop); });
    run(D, 100, false);
}

SCENARIO(stop_in_block_B, "S-STOP-13", "A stop in a round-B block ends the run after the pass.") {
    observe("", D);
    RLSourceRef s = source("s", ^{ perform("block", D, ^{ RLStop(loop); }); });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 100, false);
}

SCENARIO(stop_in_timer_port_and_block_C, "S-STOP-9",
         "A stop in a timer, in a port's perform and in a round-C block ends the run after the pass.") {
    observe("", D);
    int fd = event(0);
    RLAddSource(loop, port("p", fd, ^{ RLStop(loop); }), D);
    RLAddTimer(loop, timer("t", -1, 0, ^{ RLStop(loop); }), D);
    run(D, 100, false);
    post(fd);
    run(D, 100, false);
    RLAddTimer(loop, timer("v", -1, 0, ^{ perform("C", D, ^{ RLStop(loop); }); }), D);
    run(D, 100, false);
}

SCENARIO(stop_lost_to_h_then_waits, "S-RUN-10", "A stop that lost to HandledSource is forgotten.") {
    observe("", D);
    int fd = event(1);
    RLAddSource(loop, port("p", fd, ^{ RLStop(loop); }), D);
    run(D, 100, true);
    run(D, 1, true);
}

SCENARIO(wake_coalesces, "S-WAKE-2", "Many wake-ups before the wait ends make one extra pass.") {
    observe("", D);
    keep(D);
    RLAddObserver(loop, observer_with("wake", PLAIN, kRLBeforeWaiting, false, 1, ^{
                      for (int i = 0; i < 10; i++) RLWakeUp(loop);
                  }), D);
    run(D, 1, false);
}

#define WAKE_IN(id, rules, sentence, activity)                                                        \
    SCENARIO(id, rules, sentence) {                                                                   \
        observe("", D);                                                                               \
        keep(D);                                                                                      \
        RLAddObserver(loop, observer_with("wake", PLAIN, activity, false, 1, ^{ RLWakeUp(loop); }), D); \
        run(D, 1, false);                                                                           \
    }
#define KEPT "A wake-up before the wait makes it return at once."

WAKE_IN(wake_in_entry, "S-WAKE-3", KEPT, kRLEntry)
WAKE_IN(wake_in_before_timers, "S-WAKE-3", KEPT, kRLBeforeTimers)
WAKE_IN(wake_in_before_sources, "S-WAKE-3", KEPT, kRLBeforeSources)
WAKE_IN(wake_in_before_waiting, "S-WAKE-3", KEPT, kRLBeforeWaiting)

SCENARIO(wake_in_block_A, "S-WAKE-3", "A wake-up in a round-A block makes the wait return at once.") {
    observe("", D);
    keep(D);
    perform("block", D, ^{ RLWakeUp(loop); });
    run(D, 1, false);
}

SCENARIO(wake_after_the_wait_is_dropped, "S-WAKE-4",
         "A wake-up in AfterWaiting, a timer, a port or round C makes no extra pass.") {
    observe("", D);
    keep(D);
    RLAddSource(loop, port("p", event(1), ^{ RLWakeUp(loop); }), D);
    RLAddObserver(loop, observer_with("wake", PLAIN, kRLAfterWaiting, false, 1, ^{ RLWakeUp(loop); }), D);
    run(D, 1, false);
    RLAddTimer(loop, timer("t", -1, 0, ^{
                   RLWakeUp(loop);
                   perform("C", D, ^{ RLWakeUp(loop); });
               }), D);
    run(D, 1, false);
}

SCENARIO(wake_outside_a_run, "S-WAKE-5", "A wake-up outside a run is dropped.") {
    observe("", D);
    keep(D);
    RLWakeUp(loop);
    run(D, 1, false);
    RLWakeUp(loop);
    elsewhere(^{ RLWakeUp(loop); });
    run(D, 1, false);
}

DIFFERS(wake_left_over, "S-WAKE-6",
        "A wake-up in a run that ended before its first wait does not reach the next run.",
        "E wake X =Stopped E BT BS BW AW BT BS BW AW X =TimedOut",
        "E wake X =Stopped E BT BS BW AW X =TimedOut") {
    observe("", D);
    keep(D);
    RLAddObserver(loop, observer_with("wake", PLAIN, kRLEntry, false, 1, ^{
                      RLWakeUp(loop);
                      RLStop(loop);
                  }), D);
    run(D, 100, false);
    run(D, 1, false);
}

SCENARIO(wake_signal_from_another_thread, "S-WAKE-8 S-SRC-26",
         "Signal and wake-up from another thread: the source performs.") {
    observe("", D);
    RLSourceRef s = source("s", ^{ RLStop(loop); });
    RLAddSource(loop, s, D);
    when_waiting(^{
        RLSourceSignal(s);
        take(0.1);
        yes("waiting", RLIsWaiting(loop));
        RLWakeUp(loop);
    });
    run(D, 100, false);
}

SCENARIO(wake_block_from_another_thread, "S-WAKE-8 S-BLK-2",
         "Queueing a block does not end the wait; with a wake-up it runs.") {
    observe("", D);
    keep(D);
    when_waiting(^{
        perform("block", D, ^{ RLStop(loop); });
        take(0.1);
        yes("waiting", RLIsWaiting(loop));
        RLWakeUp(loop);
    });
    run(D, 100, false);
}

SCENARIO(wake_storm, "S-WAKE-8", "A thousand signal and wake-up pairs lose none.") {
    __block long performed = 0;
    __block bool last = false;
    RLSourceRef s = source(NULL, ^{
        performed++;
        if (__atomic_load_n(&last, __ATOMIC_ACQUIRE)) RLStop(loop);
    });
    RLAddSource(loop, s, D);
    when_waiting(^{
        for (int i = 0; i < 1000; i++) {
            if (i == 999) __atomic_store_n(&last, true, __ATOMIC_RELEASE);
            RLSourceSignal(s);
            RLWakeUp(loop);
        }
    });
    run(D, 100, false);
    yes("performed", performed > 0);
}

#define NESTED_IN_BEFORE_WAITING(id, sentence, before, during)                                        \
    DIFFERS(id, "S-WAKE-9", sentence, "BW n=TimedOut late block =TimedOut",                           \
            "BW n=TimedOut block late =TimedOut") {                                                   \
        keep(D);                                                                                      \
        keep("inner");                                                                                \
        RLAddObserver(loop, observer_with(NULL, PLAIN, kRLBeforeWaiting, false, 0, ^{ during; }),     \
                      "inner");                                                                       \
        RLAddObserver(loop, observer_with("BW", PLAIN, kRLBeforeWaiting, false, 0, ^{                 \
                          before;                                                                     \
                          perform("block", D, NULL);                                                  \
                          say("n%s", RLRunInMode("inner", 0.1, false) == kRLRunTimedOut ? "=TimedOut" \
                                                                                        : "=other");  \
                      }), D);                                                                         \
        RLAddTimer(loop, timer("late", 2, 0, NULL), D);                                               \
        run(D, 2.1, false);                                                                           \
    }

NESTED_IN_BEFORE_WAITING(wake_during_a_nested_run,
                         "A wake-up during a nested run also makes the outer run's wait return.",
                         (void)0, RLWakeUp(loop))
NESTED_IN_BEFORE_WAITING(wake_before_a_nested_run,
                         "A wake-up before a nested run in the same callback is not lost to it.",
                         RLWakeUp(loop), (void)0)

SCENARIO(wake_is_waiting, "S-WAKE-10", "IsWaiting is false in every callback, true in the wait.") {
    void (^ask)(void) = ^{ yes("waiting", RLIsWaiting(loop)); };
    RLAddObserver(loop, observer("BW", kRLBeforeWaiting, 0, ask), D);
    RLAddObserver(loop, observer("AW", kRLAfterWaiting, 0, ask), D);
    RLAddSource(loop, port("p", event(1), ask), D);
    run(D, 1, true);
    RLAddTimer(loop, timer("t", -1, 0, ask), D);
    when_waiting_again(D, 2, ^{
        ask();
        RLStop(loop);
    });
    run(D, 100, false);
    ask();
}

SCENARIO(wake_by_adding_a_ready_port, "S-WAKE-13 S-SRC-41",
         "A ready port added from another thread is served with no wake-up and no pass of its own.") {
    observe("", D);
    keep(D);
    RLSourceRef p = port("p", event(1), ^{ RLStop(loop); });
    when_waiting(^{ RLAddSource(loop, p, D); });
    run(D, 100, false);
}

SCENARIO(wake_by_adding_an_idle_port, "S-WAKE-13",
         "A port added from another thread makes no pass; it is served when it is ready.") {
    observe("", D);
    keep(D);
    int fd = event(0);
    RLSourceRef p = port("p", fd, ^{ RLStop(loop); });
    when_waiting(^{
        RLAddSource(loop, p, D);
        take(0.1);
        yes("waiting", RLIsWaiting(loop));
        post(fd);
    });
    run(D, 100, false);
}

SCENARIO(wake_by_adding_a_timer, "S-WAKE-13",
         "A timer added from another thread is obeyed with no wake-up and no pass of its own.") {
    observe("", D);
    keep(D);
    when_waiting(^{ RLAddTimer(loop, timer("t", 0.1, 0, ^{ RLStop(loop); }), D); });
    run(D, 100, false);
}

SCENARIO(wake_by_setting_a_date, "S-WAKE-14 S-TMR-41",
         "SetNextFireDate from another thread takes effect at once, with one extra pass.") {
    observe("", D);
    RLTimerRef t = timer("t", FAR, 0, ^{ RLStop(loop); });
    RLAddTimer(loop, t, D);
    when_waiting(^{ RLTimerSetNextFireDate(t, in(0.3)); });
    run(D, 100, false);
}

DIFFERS(wake_by_adding_a_signalled_source, "S-WAKE-15",
        "Adding a signalled source from another thread wakes the loop; CoreFoundation does not.",
        "E BT BS BW waiting=yes AW BT BS s X =Stopped", "E BT BS BW AW BT BS s X =Stopped") {
    observe("", D);
    keep(D);
    __block bool done = false;
    RLSourceRef s = source("s", ^{
        __atomic_store_n(&done, true, __ATOMIC_RELEASE);
        RLStop(loop);
    });
    RLSourceSignal(s);
    when_waiting(^{
        RLAddSource(loop, s, D);
        for (int i = 0; i < 1000 && !__atomic_load_n(&done, __ATOMIC_ACQUIRE); i++) take(0.001);
        if (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) yes("waiting", RLIsWaiting(loop));
        RLWakeUp(loop);
    });
    run(D, 100, false);
}
