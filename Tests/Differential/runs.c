/* SPDX-License-Identifier: MIT */
/* Scenarios of section 3: when a run starts, what it returns, its timeout. */
#include "scenario.h"

#include <pthread.h>
#include <signal.h>

BOTH(run_missing_or_empty, "S-RUN-4 S-RUN-2 TR-19",
     "A missing mode, an empty one, and one with observers only are Finished with no callback.",
     "=Finished =Finished =Finished =Finished") {
    run("missing", 1, false);
    observe("", D);
    run(D, 1, false);
    run(D, 0, true);
    run(D, INFINITY, false);
}

SCENARIO(run_kinds_of_items, "S-RUN-2 S-RUN-3 S-SRC-43",
         "A source, a bad port, a far timer or an eligible block each keep a mode from being empty.") {
    RLAddSource(loop, source("s", NULL), "a");
    RLAddSource(loop, port("p", -1, NULL), "b");
    RLAddTimer(loop, timer("t", FAR, 0, NULL), "c");
    perform("block", "d", NULL);
    observe("", "a");
    observe("", "b");
    observe("", "c");
    observe("", "d");
    run("a", 0, false);
    run("b", 0, false);
    run("c", 0, false);
    run("d", 0, false);
    run("d", 0, false);
}

SCENARIO(run_emptied_by_entry, "S-RUN-5 S-RUN-6",
         "A mode emptied by an Entry observer is waited in, to the timeout.") {
    observe("", D);
    RLSourceRef s = keep(D);
    RLAddObserver(loop, observer("entry", kRLEntry, 0, ^{ RLRemoveSource(loop, s, D); }), D);
    run(D, 1, false);
}

SCENARIO(run_emptied_by_before_sources, "S-RUN-5",
         "A mode emptied by a BeforeSources observer is Finished only after the wait.") {
    observe("", D);
    RLSourceRef s = keep(D);
    RLAddObserver(loop, observer("o", kRLBeforeSources, 0, ^{ RLRemoveSource(loop, s, D); }), D);
    when_waiting(^{ RLWakeUp(loop); });
    run(D, 100, false);
}

SCENARIO(run_emptied_from_another_thread, "S-RUN-7",
         "Removing the last source does not end the wait; the next wake-up ends the run.") {
    observe("", D);
    RLSourceRef s = keep(D);
    when_waiting(^{
        RLRemoveSource(loop, s, D);
        take(0.1);
        yes("waiting", RLIsWaiting(loop));
        RLWakeUp(loop);
    });
    run(D, 100, false);
}

SCENARIO(run_forever_until_finished, "S-RUN-8 S-RUN-16",
         "RLRun goes on over handled sources and returns when the default mode is empty.") {
    observe("", D);
    RLSourceRef p = port("p", event(1), NULL);
    RLAddSource(loop, p, D);
    RLAddTimer(loop, timer("t", 0.5, 0, ^{ RLSourceInvalidate(p); }), D);
    RLRun();
}

SCENARIO(run_forever_until_stopped, "S-RUN-8 S-STOP-11", "RLRun returns when it is stopped.") {
    observe("", D);
    keep(D);
    when_waiting(^{ RLStop(loop); });
    RLRun();
    say("returned");
}

SCENARIO(run_result_handled_over_stop, "S-RUN-9 S-RUN-10",
         "HandledSource wins over a stop, and the stop does not touch the next run.") {
    observe("", D);
    RLSourceRef s = source("s", ^{ RLStop(loop); });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 1, true);
    run(D, 1, true);
}

SCENARIO(run_result_timeout_over_stop, "S-RUN-9 S-RUN-10 S-RUN-28",
         "TimedOut wins over a stop, and the stop does not touch the next run.") {
    RLSourceRef s = source("s", ^{ RLStop(loop); });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 0, false);
    run(D, 1, false);
}

SCENARIO(run_result_stop_over_empty, "S-RUN-9", "Stopped wins over an empty mode.") {
    __block RLSourceRef s = source("s", ^{
        RLStop(loop);
        RLSourceInvalidate(s);
    });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 1, false);
    run(D, 1, false);
}

SCENARIO(run_result_handled_over_empty, "S-RUN-9", "HandledSource wins over an empty mode.") {
    __block RLSourceRef s = source("s", ^{ RLSourceInvalidate(s); });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 1, true);
}

SCENARIO(run_result_empty, "S-RUN-9", "An empty mode at the end of a pass is Finished.") {
    observe("", D);
    __block RLSourceRef s = source("s", ^{ RLSourceInvalidate(s); });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 1, false);
}

SCENARIO(run_poll_never_finishes, "S-RUN-11 S-RUN-28",
         "A poll is TimedOut even if its pass emptied the mode.") {
    RLAddTimer(loop, timer("t", -1, 0, NULL), D);
    run(D, 0, false);
    perform("block", D, NULL);
    run(D, 0, false);
    __block RLSourceRef s = source("s", ^{ RLSourceInvalidate(s); });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 0, false);
    run(D, 0, false);
}

SCENARIO(run_handled_means_source, "S-RUN-12 S-BLK-11 S-WAKE-7 S-RUN-15",
         "Timers, blocks and wake-ups are no handled source; sources of both versions are.") {
    RLSourceRef s = source("s", NULL), p = port("p", event(0), NULL);
    int fd = event(0);
    RLSourceRef q = port("q", fd, NULL);
    RLAddSource(loop, s, D);
    RLAddSource(loop, p, D);
    RLAddSource(loop, q, D);
    RLAddTimer(loop, timer("t", -1, 0, NULL), D);
    perform("block", D, NULL);
    RLAddObserver(loop, observer_with(NULL, PLAIN, kRLBeforeWaiting, false, 0, ^{ RLWakeUp(loop); }), D);
    run(D, 1, true);
    RLSourceSignal(s);
    run(D, 1, true);
    post(fd);
    run(D, 1, true);
}

SCENARIO(run_h_one_source_of_the_batch, "S-RUN-13 S-SRC-31",
         "With h one source performs, the one of lowest order; the others stay signalled.") {
    observe("", D);
    RLSourceRef a = source_with("a", PLAIN, 3, NULL), b = source_with("b", PLAIN, 1, NULL),
                c = source_with("c", PLAIN, 2, NULL);
    RLAddSource(loop, a, D);
    RLAddSource(loop, b, D);
    RLAddSource(loop, c, D);
    RLSourceSignal(a);
    RLSourceSignal(b);
    RLSourceSignal(c);
    run(D, 1, true);
    yes("a", RLSourceIsSignalled(a));
    yes("b", RLSourceIsSignalled(b));
    yes("c", RLSourceIsSignalled(c));
    run(D, 1, true);
    run(D, 1, true);
    run(D, 0, true);
}

SCENARIO(run_h_timer_does_not_end_it, "S-RUN-15", "With h a run fires any number of timers.") {
    observe("", D);
    keep(D);
    __block int n = 0;
    __block RLTimerRef t = timer("t", -1, 0.01, ^{
        if (++n == 3) RLStop(loop);
    });
    RLAddTimer(loop, t, D);
    run(D, 100, true);
}

SCENARIO(run_minus_infinity, "S-RUN-17", "A timeout of minus infinity is one poll.") {
    observe("", D);
    RLSourceRef s = source("s", NULL);
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, -INFINITY, false);
    run(D, -INFINITY, false);
}

SCENARIO(run_no_deadline, "S-RUN-19", "An infinite, a NaN and a huge timeout are no deadline.") {
    keep(D);
    RLAddTimer(loop, timer("t", 0.05, 0, ^{ RLStop(loop); }), D);
    run(D, INFINITY, false);
    RLAddTimer(loop, timer("t", 0.05, 0, ^{ RLStop(loop); }), D);
    run(D, NAN, false);
    RLAddTimer(loop, timer("t", 0.05, 0, ^{ RLStop(loop); }), D);
    run(D, 1e300, false);
}

SCENARIO(run_tiny_timeout_waits, "S-RUN-20",
         "With the smallest timeout the first pass waits, unless it handled a source.") {
    observe("", D);
    RLSourceRef s = source("s", NULL);
    RLAddSource(loop, s, D);
    run(D, 1e-9, false);
    RLSourceSignal(s);
    run(D, 1e-9, true);
}

SCENARIO(run_timeout_during_callback, "S-RUN-22",
         "A deadline that passes during a callback ends the run after that pass.") {
    observe("", D);
    RLSourceRef s = source("s", ^{ take(0.1); });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 0.05, false);
}

SCENARIO(run_timeout_wins_at_end_of_pass, "S-RUN-22 S-RUN-9",
         "A stop and an emptied mode lose to a deadline that passed in the callback.") {
    observe("", D);
    __block RLSourceRef s = source("s", ^{
        take(0.1);
        RLStop(loop);
        RLSourceInvalidate(s);
    });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 0.05, false);
}

SCENARIO(run_timeout_with_waking, "S-RUN-23", "Wake-ups and sources do not extend the deadline.") {
    __block int n = 0;
    __block RLSourceRef s = source(NULL, ^{
        n++;
        take(0.01);
        RLSourceSignal(s);
    });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 0.1, false);
    yes("several", n > 1);
}

#define NESTED_PAST_THE_DEADLINE(id, activity)                                                        \
    DIFFERS(id, "S-RUN-24", "An outer deadline that passes during a nested run is kept.",             \
            "nest n=TimedOut late =TimedOut", "nest n=TimedOut =TimedOut") {                           \
        keep(D);                                                                                      \
        keep("inner");                                                                                \
        RLAddObserver(loop, observer_with("nest", PLAIN, activity, false, 0, ^{                       \
                          say("n%s", RLRunInMode("inner", 0.4, false) == kRLRunTimedOut ? "=TimedOut" \
                                                                                       : "=other");   \
                      }), D);                                                                         \
        RLAddTimer(loop, timer("late", 2, 0, ^{ RLStop(loop); }), D);                                 \
        run(D, 0.2, false);                                                                           \
    }

NESTED_PAST_THE_DEADLINE(run_nested_past_deadline_before_timers, kRLBeforeTimers)
NESTED_PAST_THE_DEADLINE(run_nested_past_deadline_before_sources, kRLBeforeSources)
NESTED_PAST_THE_DEADLINE(run_nested_past_deadline_before_waiting, kRLBeforeWaiting)

DIFFERS(run_nested_past_deadline_block, "S-RUN-24",
        "An outer deadline that passes during a nested run of a round-A block is kept.",
        "block =TimedOut late =TimedOut", "block =TimedOut =TimedOut") {
    keep(D);
    keep("inner");
    perform("block", D, ^{ run("inner", 0.4, false); });
    RLAddTimer(loop, timer("late", 2, 0, ^{ RLStop(loop); }), D);
    run(D, 0.2, false);
}

SCENARIO(run_nested_past_deadline_perform, "S-RUN-24",
         "A nested run in a v0 perform that outlasts the outer deadline: the outer run times out.") {
    RLSourceRef s = source("s", ^{ run("inner", 0.2, false); });
    RLAddSource(loop, s, D);
    keep("inner");
    RLSourceSignal(s);
    run(D, 0.1, false);
}

static void handler(int number) { (void)number; }

SCENARIO(run_posix_signal, "S-RUN-26 S-PASS-16", "A POSIX signal ends no wait and is no pass.") {
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    observe("", D);
    keep(D);
    pthread_t self = pthread_self();
    when_waiting(^{
        for (int i = 0; i < 5; i++) {
            pthread_kill(self, SIGUSR1);
            take(0.01);
        }
        say("signals");
        RLStop(loop);
    });
    run(D, 100, false);
}

SCENARIO(run_poll_one_port, "S-RUN-27 S-PASS-8", "A poll serves one port event.") {
    RLSourceRef p = port(NULL, event(1), ^{ say("port"); });
    RLSourceRef q = port(NULL, event(1), ^{ say("port"); });
    RLAddSource(loop, p, D);
    RLAddSource(loop, q, D);
    run(D, 0, false);
    run(D, 0, false);
    run(D, 0, false);
}

SCENARIO(run_poll_stopped_by_entry, "S-RUN-28 S-STOP-4",
         "A poll is Stopped only when an Entry observer stops it.") {
    observe("", D);
    RLSourceRef s = source("s", NULL);
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    RLObserverRef o = observer("stop", kRLEntry, 1, ^{ RLStop(loop); });
    RLAddObserver(loop, o, D);
    run(D, 0, false);
    RLObserverInvalidate(o);
    yes("signalled", RLSourceIsSignalled(s));
    RLAddObserver(loop, observer("stop", kRLBeforeTimers, 1, ^{ RLStop(loop); }), D);
    run(D, 0, false);
}
