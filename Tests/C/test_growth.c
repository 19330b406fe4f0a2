/* SPDX-License-Identifier: MIT */
/* What no number may break: counts that overflow, memory that grows with what comes and goes. What operations cost with many
   objects is counted by Tests/Growth. */
#include "support.h"

#include <malloc.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static RLMode mode_of(int index) {
    static char name[32];
    snprintf(name, sizeof name, "mode %d", index);
    return name;
}

RL_TEST(timer_in_many_modes, "S-MODE-25 S-TMR-14", "A timer in 70,000 modes belongs to its loop until it is out of the last") {
    enum { MODES = 70000 };
    Probe probe = {.name = "t"};
    RLTimerRef timer = probe_timer(&probe, RLAbsoluteTimeGetCurrent() + 1000, 0);
    for (int i = 0; i < MODES; i++) RLAddTimer(RLGetCurrent(), timer, mode_of(i));
    for (int i = MODES - 1; i > 0; i--) RLRemoveTimer(RLGetCurrent(), timer, mode_of(i));
    ck_assert(RLContainsTimer(RLGetCurrent(), timer, mode_of(0)));
    ck_assert(!RLContainsTimer(RLGetCurrent(), timer, mode_of(1)));
    ck_assert_int_eq(RLGetRetainCount(timer), 2);
    RLTimerSetNextFireDate(timer, 0);
    expect_run(mode_of(0), 0, false, TimedOut);
    expect_trace("t");
    RLRelease(timer);
}

static RLTimerRef tombstone;
static int depth;

/* Each level runs nested in a further mode, in whose batch the timer is due behind the one that calls this. */
static void go_deeper(RLTimerRef timer, void *info) {
    (void)timer;
    (void)info;
    if (++depth == 300) {
        for (int i = 0; i < 300; i++) RLRemoveTimer(RLGetCurrent(), tombstone, mode_of(i));
        return;
    }
    RLRunInMode(mode_of(depth), 0, false);
}

RL_TEST(ghosts_in_many_modes, "S-TMR-25", "A timer removed from 300 modes in whose batches it waits for its turn does not fire in any of them") {
    Probe probe = {.name = "t"};
    for (int i = 0; i < 300; i++) {
        RLTimerRef timer = RLTimerCreate(1, 0, 0, 0, go_deeper, NULL);
        RLAddTimer(RLGetCurrent(), timer, mode_of(i));
        RLRelease(timer);
    }
    tombstone = probe_timer(&probe, 2, 0);
    for (int i = 0; i < 300; i++) RLAddTimer(RLGetCurrent(), tombstone, mode_of(i));
    depth = 0;
    expect_run(mode_of(0), 0, false, TimedOut);
    ck_assert_int_eq(depth, 300);
    expect_trace("");
    ck_assert_int_eq(RLGetRetainCount(tombstone), 1);
    RLRelease(tombstone);
}

RL_TEST(overdue_timers_take_no_memory, "S-THR-9",
        "An overdue timer in a mode that does not run, behind which another is put off and put back: memory stays") {
    Probe first = {.name = "a"}, second = {.name = "b"};
    RLTimerRef stays = probe_timer(&first, 1, 0), moves = probe_timer(&second, 2, 0);
    RLAddTimer(RLGetCurrent(), stays, kRLDefaultMode);
    RLAddTimer(RLGetCurrent(), moves, kRLDefaultMode);
    for (int i = 0; i < 1000; i++) RLTimerSetNextFireDate(moves, 3);
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 0; i < 500000; i++) RLTimerSetNextFireDate(moves, 3);
    size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
    ck_assert_uint_le(after, before + 4096);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a b");
    RLRelease(stays);
    RLRelease(moves);
}

static void perform_word(void *word) { trace("%s", (const char *)word); }

static void perform_nested(void *word) {
    trace("<");
    RLPerformFunction(RLGetCurrent(), "other", perform_word, word, NULL);
    RLPerformFunction(RLGetCurrent(), "nested", perform_word, "n", NULL);
    RLRunInMode("nested", 0, false);
    trace(">");
}

RL_TEST(memory_for_a_high_number, "S-THR-9 S-SRC-41",
        "A descriptor with the highest number that the process may have takes little memory in each of ten modes, and is served in each") {
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max > 1 << 20) limit.rlim_max = 1 << 20;
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int ends[2], high = (int)limit.rlim_cur - 1;
    make_pipe(ends);
    ck_assert_int_eq(dup2(ends[0], high), high);
    static Probe port = {.name = "p"};
    add_port(&port, high, mode_of(0));
    struct mallinfo2 before = mallinfo2();
    for (int i = 1; i <= 10; i++) RLAddSource(RLGetCurrent(), port.source, mode_of(i));
    struct mallinfo2 after = mallinfo2();
    long taken = (long)(after.uordblks + after.hblkhd) - (long)(before.uordblks + before.hblkhd);
    /* A fraction of a byte for each number, and what a mode takes anyway. */
    ck_assert_int_le(taken, 10 * (4096 + high / 2));
    write_byte(ends[1]);
    for (int i = 0; i <= 10; i++) {
        expect_run(mode_of(i), 60, true, HandledSource);
        expect_trace("p");
    }
}

RL_TEST(order_of_what_two_rounds_kept, "S-BLK-3 S-BLK-15",
        "Functions for another mode that a round and rounds nested in it passed over run there in the order in which they were posted") {
    RLRunLoopRef loop = RLGetCurrent();
    RLMode both[] = {"other", kRLCommonModes, "third"};
    RLPerformFunction(loop, "other", perform_word, "1", NULL);
    RLPerformFunction(loop, kRLDefaultMode, perform_nested, "5", NULL);
    RLPerformFunction(loop, "other", perform_word, "2", NULL);
    RLPerformFunction(loop, "other", perform_word, "3", NULL);
    RLPerformFunction(loop, kRLDefaultMode, perform_nested, "6", NULL);
    RLPerformFunctionInModes(loop, both, 3, perform_word, "c", NULL);
    RLPerformFunction(loop, "other", perform_word, "4", NULL);
    RLRunInMode(kRLDefaultMode, 0, false);
    expect_trace("< n > < n > c");
    RLRunInMode("third", 0, false);
    expect_trace("");
    expect_run("other", 0, false, TimedOut);
    expect_trace("1 2 3 4 5 6");
}

enum { POSTERS = 2, POSTED = 50000, AHEAD = 500 };
typedef struct Poster {
    RLRunLoopRef loop;
    int posted, performed; /* performed: atomic */
    bool isInOrder;
} Poster;
typedef struct Numbered {
    Poster *poster;
    int number;
} Numbered;
static Numbered numbered[POSTERS][POSTED];

static void note_number(void *info) {
    Numbered *self = info;
    if (self->number != self->poster->performed) self->poster->isInOrder = false;
    __atomic_add_fetch(&self->poster->performed, 1, __ATOMIC_SEQ_CST);
}
static void post_all(void *argument) {
    Poster *self = argument;
    Numbered *own = numbered[self->posted];
    for (int i = 0; i < POSTED; i++) {
        own[i] = (Numbered){self, i};
        RLPerformFunction(self->loop, kRLDefaultMode, note_number, &own[i], NULL);
        RLWakeUp(self->loop);
        while (i - __atomic_load_n(&self->performed, __ATOMIC_SEQ_CST) > AHEAD) sched_yield();
    }
}
static void serve_nested(void *info) {
    Poster *posters = info;
    Thread *threads[POSTERS];
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = (Poster){.loop = RLGetCurrent(), .posted = i, .isInOrder = true};
        threads[i] = thread_start(post_all, &posters[i]);
    }
    for (int i = 0; i < POSTERS; i++) {
        while (__atomic_load_n(&posters[i].performed, __ATOMIC_SEQ_CST) < POSTED) RLRunInMode(kRLDefaultMode, 0.1, true);
        thread_join(threads[i]);
        ck_assert(posters[i].isInOrder);
    }
    ck_assert_uint_lt(mallinfo2().uordblks + mallinfo2().hblkhd, before + 1500000);
}

RL_TEST(functions_performed_in_a_function, "S-THR-9 S-BLK-16 S-BLK-17",
        "A run that a performed function has begun performs what other threads post, in order, and keeps no memory of it however long it lasts") {
    Poster posters[POSTERS];
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, serve_nested, posters, NULL);
    /* The rest of the outer round comes after it. */
    Poster last = {.isInOrder = true};
    Numbered rest = {&last, 0};
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, note_number, &rest, NULL);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(last.performed, 1);
}
