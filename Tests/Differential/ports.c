/* SPDX-License-Identifier: MIT */
/* Scenarios of section 8.4: port sources. */
#include "scenario.h"

#include <fcntl.h>

SCENARIO(port_order_is_ignored, "S-SRC-40 S-SRC-4 S-PASS-14",
         "The order of a port source is reported but has no effect: the port ready first is first.") {
    int first = event(0), second = event(0);
    RLSourceRef p = port_with("p", 5, first, NULL), q = port_with("q", -5, second, NULL);
    RLAddSource(loop, p, D);
    RLAddSource(loop, q, D);
    post(first);
    post(second);
    say("%ld %ld", RLSourceGetOrder(p), RLSourceGetOrder(q));
    run(D, 1, true);
    run(D, 1, true);
}

SCENARIO(port_earlier_data, "S-SRC-41", "Data from before the source was added are noticed.") {
    int fd = event(0);
    post(fd);
    RLAddSource(loop, port("p", fd, NULL), D);
    run(D, 1, true);
    run(D, 0, true);
}

SCENARIO(port_data_during_another_mode, "S-SRC-41 S-MODE-23",
         "Data that came while another mode ran are noticed later.") {
    int fd = event(0);
    RLAddSource(loop, port("p", fd, NULL), "m");
    keep(D);
    RLAddTimer(loop, timer("t", -1, 0, ^{ post(fd); }), D);
    run(D, 1, false);
    run("m", 1, true);
}

SCENARIO(port_in_two_modes, "S-SRC-42", "A port in two modes performs once per event.") {
    int fd = event(1);
    RLSourceRef p = port("p", fd, NULL);
    RLAddSource(loop, p, "a");
    RLAddSource(loop, p, "b");
    run("b", 0, true);
    run("a", 0, true);
    post(fd);
    run("a", 0, true);
    run("b", 0, true);
}

SCENARIO(port_bad_descriptors, "S-SRC-43 S-RUN-3",
         "A bad port keeps the mode from being empty, never performs and does not spin.") {
    observe("", D);
    int closed = event(1);
    close(closed);
    RLAddSource(loop, port("p", -1, NULL), D);
    RLAddSource(loop, port("q", closed, NULL), D);
    RLAddSource(loop, port("r", open("/dev/null", O_RDONLY | O_CLOEXEC), NULL), D);
    run(D, 1, false);
    run(D, 0, false);
}

SCENARIO(port_shared_descriptor, "S-SRC-44", "Of two sources with one port the last added performs.") {
    int fd = event(0);
    RLAddSource(loop, port("p", fd, NULL), D);
    RLAddSource(loop, port("q", fd, NULL), D);
    post(fd);
    run(D, 1, true);
    run(D, 0, true);
}

SCENARIO(port_signal_does_nothing, "S-SRC-45",
         "Signalling a port source sets its flag, which a perform clears, and performs nothing.") {
    observe("", D);
    int fd = event(0);
    RLSourceRef p = port("p", fd, NULL);
    RLAddSource(loop, p, D);
    RLSourceSignal(p);
    yes("signalled", RLSourceIsSignalled(p));
    run(D, 1, false);
    yes("signalled", RLSourceIsSignalled(p));
    post(fd);
    run(D, 1, true);
    yes("signalled", RLSourceIsSignalled(p));
}

SCENARIO(port_counter_is_read, "S-SRC-46",
         "The counter of an event descriptor is read before perform: n writes, one perform.") {
    int fd = event(0);
    RLAddSource(loop, port("p", fd, ^{
        uint64_t count;
        yes("empty", read(fd, &count, sizeof count) < 0);
    }), D);
    post(fd);
    post(fd);
    post(fd);
    run(D, 1, false);
}

DIFFERS(port_semaphore, "S-SRC-46",
        "A semaphore event descriptor gives one perform per unit. CoreFoundation sees the edge only.",
        "E BT BS BW AW p BT BS BW AW X =TimedOut",
        "E BT BS BW AW p BT BS BW AW p BT BS BW AW p BT BS BW AW X =TimedOut") {
    observe("", D);
    RLAddSource(loop, port("p", eventfd(3, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE), NULL), D);
    run(D, 1, false);
}

DIFFERS(port_pipe_is_level_triggered, "S-SRC-47",
        "Nothing is read from a pipe; its source performs as long as there is data to read.",
        "p read=8 =TimedOut", "p read=8 p read=8 =TimedOut") {
    static int ends[2];
    make_pipe(ends);
    RLAddSource(loop, port("p", ends[0], ^{
        char bytes[8];
        say("read=%zd", read(ends[0], bytes, sizeof bytes));
    }), D);
    if (write(ends[1], "0123456789abcdef", 16) != 16) abort();
    run(D, 1, false);
}

DIFFERS(port_pipe_partial_reader, "S-SRC-47",
        "A pipe whose source reads a byte at a time performs once for each.",
        "p read=-1 =TimedOut", "p read=1 p read=1 p read=1 =TimedOut") {
    static int ends[2];
    make_pipe(ends);
    RLAddSource(loop, port("p", ends[0], ^{
        char byte;
        say("read=%zd", read(ends[0], &byte, 1));
    }), D);
    if (write(ends[1], "abc", 3) != 3) abort();
    run(D, 1, false);
}

SCENARIO(port_pipe_wakes, "S-SRC-41 S-PASS-16", "A byte written to a pipe ends the wait.") {
    observe("", D);
    static int ends[2];
    make_pipe(ends);
    RLAddSource(loop, port("p", ends[0], ^{
        char bytes[8];
        while (read(ends[0], bytes, sizeof bytes) > 0) continue;
    }), D);
    when_waiting(^{
        if (write(ends[1], "x", 1) != 1) abort();
    });
    run(D, 100, true);
    run(D, 0, true);
}

SCENARIO(port_nested, "S-SRC-49", "A nested run in a perform serves the same port again.") {
    int fd = event(1);
    __block int n = 0;
    RLAddSource(loop, port("p", fd, ^{
        if (++n < 3) {
            post(fd);
            run(D, 1, true);
        }
    }), D);
    run(D, 1, true);
}

SCENARIO(port_invalidate, "S-SRC-9 S-SRC-12", "An invalidated port source performs no more.") {
    int fd = event(1);
    RLSourceRef p = port("p", fd, NULL);
    RLAddSource(loop, p, D);
    RLSourceInvalidate(p);
    yes("valid", RLSourceIsValid(p));
    yes("default", RLContainsSource(loop, p, D));
    keep(D);
    run(D, 1, false);
}

SCENARIO(port_removed, "S-SRC-39 S-MODE-21", "A removed port source performs no more; added back, it does.") {
    int fd = event(1);
    RLSourceRef p = port("p", fd, NULL);
    keep(D);
    RLAddSource(loop, p, D);
    RLRemoveSource(loop, p, D);
    run(D, 0, true);
    RLAddSource(loop, p, D);
    run(D, 0, true);
}

SCENARIO(port_removes_itself, "S-SRC-16 S-RUN-9", "A port source may remove or invalidate itself.") {
    observe("", D);
    int fd = event(1);
    __block RLSourceRef p = port("p", fd, ^{
        post(fd);
        RLRemoveSource(loop, p, D);
    });
    RLAddSource(loop, p, D);
    run(D, 1, false);
    RLAddSource(loop, p, "m");
    __block RLSourceRef q = port("q", event(1), ^{ RLSourceInvalidate(q); });
    RLAddSource(loop, q, D);
    run(D, 1, false);
}

SCENARIO(port_common, "S-MODE-14 S-SRC-42", "A common port source is served in each common mode.") {
    RLAddCommonMode(loop, "m");
    int fd = event(1);
    RLAddSource(loop, port("p", fd, NULL), COMMON);
    run("m", 0, true);
    post(fd);
    run(D, 0, true);
}

SCENARIO(port_h_serves_one, "S-PASS-8 S-RUN-9", "With h a run serves one of two ready ports.") {
    observe("", D);
    RLAddSource(loop, port(NULL, event(1), ^{ say("port"); }), D);
    RLAddSource(loop, port(NULL, event(1), ^{ say("port"); }), D);
    run(D, 1, true);
    run(D, 1, true);
    run(D, 0, true);
}

SCENARIO(port_from_another_thread, "S-WAKE-13 S-PASS-16", "A port that becomes ready ends the wait.") {
    observe("", D);
    int fd = event(0);
    RLAddSource(loop, port("p", fd, NULL), D);
    when_waiting(^{ post(fd); });
    when_waiting_again(D, 2, ^{ RLStop(loop); });
    run(D, 100, false);
}

SCENARIO(port_context, "S-SRC-24 S-ARG-4", "GetContext gives a port source's context, of version 1.") {
    RLSourceRef p = port("p", event(0), NULL);
    RLSourceContext1 c = {1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    RLSourceGetContext(p, (RLSourceContext *)&c);
    say("version=%ld", c.version);
    yes("getPort", c.getPort != NULL);
    yes("info", c.info != NULL);
}
