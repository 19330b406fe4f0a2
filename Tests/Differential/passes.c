/* SPDX-License-Identifier: MIT */
/* Scenarios of section 4: the order of one pass; the reference traces TR-1 to TR-19. */
#include "scenario.h"

/* A loop with an observer, a source s, a port p; they are signalled and ready as asked for. */
static RLSourceRef s;
static int fd;

static void setup(bool withSource, bool signalled, bool withPort, bool ready) {
    observe("", D);
    if (withSource) {
        s = source("perform0", NULL);
        RLAddSource(loop, s, D);
        if (signalled) RLSourceSignal(s);
    }
    if (withPort) {
        fd = event(ready);
        RLAddSource(loop, port("perform1", fd, NULL), D);
    }
}

BOTH(pass_TR_1, "TR-1 S-PASS-1 S-PASS-2 S-PASS-4 S-RUN-17", "Idle source, t = 0 and t < 0.",
     "E BT BS X =TimedOut E BT BS X =TimedOut") {
    setup(true, false, false, false);
    run(D, 0, false);
    run(D, -1, false);
}

BOTH(pass_TR_2, "TR-2 S-PASS-3 S-RUN-18 S-RUN-21", "Idle source, a short timeout.",
     "E BT BS BW AW X =TimedOut not-early=yes") {
    setup(true, false, false, false);
    RLAbsoluteTime begin = in(0);
    run(D, 0.05, false);
    yes("not-early", in(0) - begin > 0.049);
}

BOTH(pass_TR_3, "TR-3", "Signalled source, t = 0.", "E BT BS perform0 X =TimedOut") {
    setup(true, true, false, false);
    run(D, 0, false);
}

BOTH(pass_TR_4, "TR-4 S-RUN-12", "Signalled source, h.",
     "E BT BS perform0 X =HandledSource E BT BS perform0 X =HandledSource") {
    setup(true, true, false, false);
    run(D, 0, true);
    RLSourceSignal(s);
    run(D, 1, true);
}

BOTH(pass_TR_5, "TR-5 S-PASS-5 S-PASS-7", "Signalled source, a short timeout.",
     "E BT BS perform0 BT BS BW AW X =TimedOut") {
    setup(true, true, false, false);
    run(D, 1, false);
}

BOTH(pass_TR_6, "TR-6 S-PASS-4", "Ready port, t = 0.", "E BT BS perform1 X =TimedOut") {
    setup(false, false, true, true);
    run(D, 0, false);
}

BOTH(pass_TR_7, "TR-7 S-PASS-6", "Ready port, a short timeout.",
     "E BT BS BW AW perform1 BT BS BW AW X =TimedOut") {
    setup(false, false, true, true);
    run(D, 1, false);
}

BOTH(pass_TR_8, "TR-8 S-PASS-6", "Ready port, h.", "E BT BS BW AW perform1 X =HandledSource") {
    setup(false, false, true, true);
    run(D, 1, true);
}

BOTH(pass_TR_9, "TR-9 S-RUN-14 S-PASS-12", "Signalled source and ready port, h.",
     "E BT BS perform0 perform1 X =HandledSource") {
    setup(true, true, true, true);
    run(D, 1, true);
}

BOTH(pass_TR_10, "TR-10 S-RUN-14 S-PASS-12", "Signalled source and due timer, h.",
     "E BT BS perform0 timer X =HandledSource") {
    setup(true, true, false, false);
    RLAddTimer(loop, timer("timer", -1, 0, NULL), D);
    run(D, 1, true);
}

BOTH(pass_TR_11, "TR-11 S-RUN-11", "A due one-shot timer alone, t = 0.",
     "E BT BS timer X =TimedOut") {
    observe("", D);
    RLAddTimer(loop, timer("timer", -1, 0, NULL), D);
    run(D, 0, false);
}

BOTH(pass_TR_12, "TR-12 S-RUN-16 S-PASS-6", "A due one-shot timer alone, t = 1, h or not.",
     "E BT BS BW AW timer X =Finished E BT BS BW AW timer X =Finished") {
    observe("", D);
    RLAddTimer(loop, timer("timer", -1, 0, NULL), D);
    run(D, 1, false);
    RLAddTimer(loop, timer("timer", -1, 0, NULL), D);
    run(D, 1, true);
}

BOTH(pass_TR_13, "TR-13 S-RUN-11", "A block alone, t = 0.", "E BT BS block X =TimedOut") {
    observe("", D);
    perform("block", D, NULL);
    run(D, 0, false);
}

BOTH(pass_TR_14, "TR-14 S-BLK-8", "A block alone, t > 0: the loop sleeps after it.",
     "E BT BS block BW AW X =TimedOut not-early=yes") {
    observe("", D);
    perform("block", D, NULL);
    RLAbsoluteTime begin = in(0);
    run(D, 0.2, false);
    yes("not-early", in(0) - begin > 0.199);
}

BOTH(pass_TR_15, "TR-15 S-WAKE-1 S-WAKE-7", "A wake-up from another thread makes another pass.",
     "E BT BS BW AW BT BS BW AW X =Stopped") {
    setup(true, false, false, false);
    when_waiting(^{ RLWakeUp(loop); });
    when_waiting_again(D, 2, ^{ RLStop(loop); });
    run(D, 100, false);
}

BOTH(pass_TR_16, "TR-16 S-STOP-8 S-STOP-12", "A stop from another thread.",
     "E BT BS BW AW X =Stopped") {
    setup(true, false, false, false);
    when_waiting(^{ RLStop(loop); });
    run(D, 100, false);
}

BOTH(pass_TR_17, "TR-17 S-STOP-4", "A stop in Entry.", "E stop X =Stopped signalled=yes") {
    setup(true, true, false, false);
    RLAddObserver(loop, observer("stop", kRLEntry, 1, ^{ RLStop(loop); }), D);
    run(D, 100, false);
    yes("signalled", RLSourceIsSignalled(s));
}

BOTH(pass_TR_18, "TR-18 S-STOP-9", "A stop in a v0 perform.", "E BT BS stop X =Stopped") {
    observe("", D);
    RLSourceRef stop = source("stop", ^{ RLStop(loop); });
    RLAddSource(loop, stop, D);
    RLSourceSignal(stop);
    run(D, 100, false);
}

SCENARIO(pass_full_order, "S-PASS-3 S-PASS-12 S-BLK-7",
         "Round A, sources, round B, then one event, then round C; the rest in later passes.") {
    observe("", D);
    RLSourceRef a = source("s", ^{ perform("B", D, NULL); });
    RLAddSource(loop, a, D);
    RLSourceSignal(a);
    RLAddTimer(loop, timer("t", -1, 0, ^{ perform("C", D, NULL); }), D);
    perform("A", D, ^{ perform("B", D, NULL); });
    run(D, 1, false);
}

SCENARIO(pass_one_port_each, "S-PASS-8", "Two ready ports take two passes.") {
    observe("", D);
    RLAddSource(loop, port(NULL, event(1), ^{ say("port"); }), D);
    RLAddSource(loop, port(NULL, event(1), ^{ say("port"); }), D);
    run(D, 1, false);
}

DIFFERS(pass_all_due_timers, "S-PASS-9 S-TMR-21 S-PASS-16",
        "All due timers fire in one pass, earliest first; no idle pass follows for those that are gone.",
        "E BT BS BW AW a b c BT BS BW AW BT BS BW AW X =TimedOut",
        "E BT BS BW AW a b c BT BS BW AW X =TimedOut") {
    observe("", D);
    keep(D);
    RLTimerRef c = timer("c", 0.03, 0, NULL), a = timer("a", 0.01, 0, NULL),
               b = timer("b", 0.02, 0, NULL);
    RLAddTimer(loop, c, D);
    RLAddTimer(loop, a, D);
    RLAddTimer(loop, b, D);
    take(0.1);
    run(D, 1, false);
}

SCENARIO(pass_signal_from_timer, "S-PASS-11", "A source signalled by a timer performs a pass later.") {
    observe("", D);
    RLSourceRef a = source("s", NULL);
    RLAddSource(loop, a, D);
    RLAddTimer(loop, timer("t", -1, 0, ^{ RLSourceSignal(a); }), D);
    run(D, 1, false);
}

SCENARIO(pass_signal_from_port, "S-PASS-11", "A source signalled by a port performs a pass later.") {
    observe("", D);
    RLSourceRef a = source("s", NULL);
    RLAddSource(loop, a, D);
    RLAddSource(loop, port("p", event(1), ^{ RLSourceSignal(a); }), D);
    run(D, 1, false);
}

SCENARIO(pass_source_before_port, "S-PASS-12", "In one pass the source performs before the port.") {
    setup(true, true, true, true);
    run(D, 1, false);
}

SCENARIO(pass_resignalling_source_starves_nobody, "S-PASS-13 S-SRC-29",
         "A source that signals itself for ever keeps neither timers nor ports from being served.") {
    __block bool timerFired = false;
    __block RLSourceRef a = source(NULL, ^{ RLSourceSignal(a); });
    RLAddSource(loop, a, D);
    RLSourceSignal(a);
    RLAddTimer(loop, timer("t", 0.05, 0, ^{ timerFired = true; post(fd); }), D);
    fd = event(0);
    RLAddSource(loop, port("p", fd, ^{
        yes("timer", timerFired);
        RLStop(loop);
    }), D);
    run(D, 100, false);
}

SCENARIO(pass_ready_port_starves_no_timer, "S-PASS-13",
         "A port that is always ready keeps no timer and no other port from being served.") {
    int always = event(1), other = event(0);
    RLAddSource(loop, port(NULL, always, ^{ post(always); }), D);
    RLAddTimer(loop, timer("t", 0.05, 0, ^{ post(other); }), D);
    RLAddSource(loop, port("p", other, ^{ RLStop(loop); }), D);
    run(D, 100, false);
}

SCENARIO(pass_ports_rotate, "S-PASS-14", "Ports that are always ready are served in turn.") {
    int fds[3] = {event(1), event(1), event(1)};
    static int counts[3];
    __block int n = 0;
    for (int i = 0; i < 3; i++) {
        int this = fds[i];
        RLAddSource(loop, port(NULL, this, ^{
            post(this);
            counts[i]++;
            if (++n == 30) RLStop(loop);
        }), D);
    }
    run(D, 100, false);
    say("%d %d %d", counts[0], counts[1], counts[2]);
}

DIFFERS(pass_last_of_batch_skipped, "S-PASS-15",
        "A batch whose last member was skipped still handled a source, so the pass is a poll.",
        "E BT BS a BW AW X =TimedOut", "E BT BS a BT BS BW AW X =TimedOut") {
    observe("", D);
    RLSourceRef b = source_with("b", PLAIN, 2, NULL);
    RLSourceRef a = source_with("a", PLAIN, 1, ^{ RLSourceInvalidate(b); });
    RLAddSource(loop, a, D);
    RLAddSource(loop, b, D);
    RLSourceSignal(a);
    RLSourceSignal(b);
    run(D, 0.2, false);
}

DIFFERS(pass_no_idle_pass_for_removed_timer, "S-PASS-16",
        "No pass is made at the date of a timer that was removed.",
        "E BT BS BW remove AW BT BS BW AW X =TimedOut", "E BT BS BW remove AW X =TimedOut") {
    observe("", D);
    keep(D);
    RLTimerRef t = timer("t", 0.6, 0, NULL);
    RLAddTimer(loop, t, D);
    when_waiting(^{
        say("remove");
        RLRemoveTimer(loop, t, D);
    });
    run(D, 1, false);
}

SCENARIO(pass_entry_and_exit_once, "S-PASS-1", "Entry and Exit once per run, whatever the passes.") {
    RLAddObserver(loop, observer("E", kRLEntry, 0, NULL), D);
    RLAddObserver(loop, observer("X", kRLExit, 0, NULL), D);
    __block int n = 0;
    __block RLSourceRef a = source("s", ^{
        if (++n < 3) RLSourceSignal(a);
    });
    RLAddSource(loop, a, D);
    RLSourceSignal(a);
    run(D, 1, false);
    run("missing", 1, false);
}
