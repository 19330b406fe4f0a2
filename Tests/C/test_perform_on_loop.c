/* SPDX-License-Identifier: MIT */
/* Section 21.1: functions that another thread's loop is asked to perform. */
#include "support.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void record(void *word) { trace("%s", (const char *)word); }
static void record_release(void *word) { trace("-%s", (const char *)word); }

static void serve_until_stopped(LoopThread *self) {
    (void)self;
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e6, false, Stopped);
}

static void end_server(LoopThread *server) {
    RLStop(server->loop);
    thread_join(server->thread);
}

static void open_gate(void *gate) { gate_open(gate); }

RL_TEST(wakes_the_loop, "S-PERF-1 S-PERF-5",
        "A request without waiting is queued on the loop, which is woken, and performed there; so is one on the same thread") {
    LoopThread server;
    Gate performed = GATE_INITIALIZER;
    loop_thread_start(&server, serve_until_stopped, NULL);
    wait_until_waiting(server.loop);
    ck_assert(RLPerformOnLoop(server.loop, kRLDefaultMode, open_gate, &performed, NULL, false));
    gate_wait(&performed);
    end_server(&server);

    observe(RLGetCurrent(), kRLDefaultMode);
    ck_assert(RLPerformOnLoop(RLGetCurrent(), kRLDefaultMode, record, "own", record_release, false));
    expect_trace("");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS own -own X");
}

RL_TEST(all_in_one_pass, "S-PERF-2 S-PERF-3 S-PERF-10 S-PERF-14 S-RUN-12",
        "All eligible requests are performed in one pass in queue order and count as a handled source, also where only the first source "
        "would perform; they keep the mode from being empty until then and no longer, and cannot be cancelled") {
    Probe signalled = {.name = "source"};
    RLRunLoopRef loop = RLGetCurrent();
    RLPerformOnLoop(loop, "x", record, "a", record_release, false);
    RLPerformOnLoop(loop, "y", record, "other", NULL, false);
    RLPerformOnLoop(loop, "x", record, "b", NULL, false);
    RLPerformOnLoop(loop, "x", record, "c", record_release, false);
    RLCancelPerformInOrder(loop, NULL, NULL, NULL);
    RLCancelPerformAfterDelay(NULL, NULL, NULL, NULL);
    expect_run("x", 1000, true, HandledSource);
    expect_trace("a -a b c -c");
    expect_run("x", 1000, true, Finished);
    expect_run("y", 0, false, TimedOut);
    expect_trace("other");
    expect_run("y", 1000, false, Finished);

    add_source(&signalled, "x");
    RLSourceSignal(signalled.source);
    RLPerformOnLoop(loop, "x", record, "a", NULL, false);
    RLPerformOnLoop(loop, "x", record, "b", NULL, false);
    observe(loop, "x");
    expect_run("x", 1000, true, HandledSource);
    expect_trace("E BT BS a b source X");
}

static void request_again(void *count) {
    trace("r");
    if (--*(int *)count > 0) RLPerformOnLoop(RLGetCurrent(), kRLDefaultMode, request_again, count, NULL, false);
}

RL_TEST(next_pass, "S-PERF-12", "A request that a request makes is performed in the next pass, with no sleep between") {
    int count = 3;
    RLRunLoopRef loop = RLGetCurrent();
    keep_alive(loop, kRLDefaultMode);
    observe(loop, kRLDefaultMode);
    RLPerformOnLoop(loop, kRLDefaultMode, request_again, &count, NULL, false);
    RLPerformOnLoop(loop, kRLDefaultMode, record, "b", NULL, false);
    expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    const char *trace_text = trace_take();
    ck_assert_msg(strncmp(trace_text, "E BT BS r b BT BS r BT BS r BT", 30) == 0, "%s", trace_text);
}

static void run_in_request(void *unused) {
    (void)unused;
    trace("r");
    ck_assert_int_eq(RLRunInMode(kRLDefaultMode, 1000, false), kRLRunFinished);
    trace("-r");
}

RL_TEST(the_rest_of_a_batch, "S-PERF-12 S-BLK-15", "A run in a request does not see the requests behind it, which do not keep its mode from being empty") {
    RLRunLoopRef loop = RLGetCurrent();
    RLPerformOnLoop(loop, kRLDefaultMode, run_in_request, NULL, NULL, false);
    RLPerformOnLoop(loop, kRLDefaultMode, record, "b", NULL, false);
    RLRunInMode(kRLDefaultMode, 0, false);
    expect_trace("r -r b");
}

RL_TEST(inline_on_the_same_thread, "S-PERF-4 S-PERF-7",
        "Waiting on the same thread performs inline, whatever mode is named or runs; without a mode nothing is performed, waiting or not") {
    RLRunLoopRef loop = RLGetCurrent();
    ck_assert(RLPerformOnLoop(loop, "never run", record, "a", record_release, true));
    expect_trace("a -a");
    const RLMode names[] = {NULL, NULL};
    for (int wait = 0; wait < 2; wait++) {
        ck_assert(!RLPerformOnLoopInModes(loop, NULL, 0, record, "b", record_release, wait));
        ck_assert(!RLPerformOnLoopInModes(loop, names, 0, record, "b", record_release, wait));
        ck_assert(!RLPerformOnLoopInModes(loop, names, 2, record, "b", record_release, wait));
        ck_assert(!RLPerformOnLoop(loop, NULL, record, "b", record_release, wait));
        ck_assert(!RLPerformOnLoop(NULL, kRLDefaultMode, record, "b", record_release, wait));
        ck_assert(!RLPerformOnLoop(loop, kRLDefaultMode, NULL, "b", record_release, wait));
        expect_trace("-b -b -b -b -b -b");
    }
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_MAIN_TEST(inline_on_the_main_thread, "S-PERF-4 S-LOOP-3",
             "The main thread, which has asked for the main loop only, does not wait for itself") {
    ck_assert(RLPerformOnLoop(RLGetMain(), kRLDefaultMode, record, "a", record_release, true));
    expect_trace("a -a");
}

static RLRunLoopRef waiting_sender;

static void check_sender_sleeps(void *counter) {
    ck_assert(!RLIsWaiting(waiting_sender));
    *(int *)counter += 1; /* A plain variable: the sender reads it after the wait. */
}

static void count_release(void *counter) { *(int *)counter += 10; }

RL_TEST(waiting_for_another_thread, "S-PERF-6 S-PERF-8 S-PERF-9",
        "Waiting for another thread returns after function and release have run there; the caller's loop does not run; with the common "
        "modes any of them performs") {
    LoopThread server;
    Probe own = {.name = "own"};
    int counter = 0;
    loop_thread_start(&server, serve_until_stopped, NULL);
    wait_until_waiting(server.loop);
    add_source(&own, kRLDefaultMode);
    RLSourceSignal(own.source);
    waiting_sender = RLGetCurrent();
    for (int i = 1; i <= 100; i++) {
        ck_assert(RLPerformOnLoop(server.loop, kRLCommonModes, check_sender_sleeps, &counter, count_release, true));
        ck_assert_int_eq(counter, 11 * i);
    }
    ck_assert_int_eq(own.calls, 0);
    end_server(&server);
}

static void leave_a_retained_loop(LoopThread *self) {
    RLRetain(self->loop);
    gate_wait(self->data);
}

typedef struct Sender {
    RLRunLoopRef loop;
    bool result;
    Gate started;
    Thread *thread;
    const char *word;
    void (*perform)(void *);
} Sender;

static void send_and_wait(void *info) {
    Sender *sender = info;
    gate_open(&sender->started);
    sender->result = RLPerformOnLoop(sender->loop, kRLDefaultMode, sender->perform, (void *)sender->word, record_release, true);
}

static void sender_start(Sender *sender, RLRunLoopRef loop, void (*perform)(void *), const char *word) {
    *sender = (Sender){.loop = loop, .result = true, .started = GATE_INITIALIZER, .word = word, .perform = perform};
    sender->thread = thread_start(send_and_wait, sender);
    gate_wait(&sender->started);
}

RL_TEST(thread_ends_first, "S-PERF-11 S-PERF-13 S-PERF-9",
        "A thread that never runs its loop performs nothing; when it ends its requests are dropped and released, and who waits returns "
        "with an error; later requests are refused") {
    Gate may_end = GATE_INITIALIZER;
    LoopThread server;
    Sender waiting;
    loop_thread_start(&server, leave_a_retained_loop, &may_end);
    ck_assert(RLPerformOnLoop(server.loop, kRLDefaultMode, record, "a", record_release, false));
    sender_start(&waiting, server.loop, record, "w");
    take_time(0.02);
    expect_trace("");
    gate_open(&may_end);
    thread_join(waiting.thread);
    ck_assert(!waiting.result);
    thread_join(server.thread);
    ck_assert_int_eq(trace_count("-a"), 1);
    ck_assert_int_eq(trace_count("-w"), 1);
    ck_assert_int_eq(trace_count("a") + trace_count("w"), 0);
    trace_take();
    ck_assert(!RLPerformOnLoop(server.loop, kRLDefaultMode, record, "b", record_release, true));
    ck_assert(!RLPerformOnLoop(server.loop, kRLDefaultMode, record, "b", record_release, false));
    expect_trace("-b -b");
    RLRelease(server.loop);
}

static void end_thread(void *word) {
    trace("%s", (const char *)word);
    pthread_exit(NULL);
}

static void *run_raw(void *info) {
    LoopThread *self = info;
    self->loop = (RLRunLoopRef)RLRetain(RLGetCurrent());
    keep_alive(self->loop, kRLDefaultMode);
    gate_open(&self->ready);
    RLRunInMode(kRLDefaultMode, 1e6, false);
    return NULL;
}

RL_TEST(request_that_ends_the_thread, "S-PERF-11",
        "A request that ends its thread releases who waits for it, and who waits for the next one, with an error") {
    LoopThread server = {.ready = GATE_INITIALIZER};
    pthread_t thread;
    Sender first, second;
    ck_assert_int_eq(pthread_create(&thread, NULL, run_raw, &server), 0);
    gate_wait(&server.ready);
    wait_until_waiting(server.loop);
    sender_start(&first, server.loop, end_thread, "end");
    sender_start(&second, server.loop, end_thread, "end");
    pthread_join(thread, NULL);
    thread_join(first.thread);
    thread_join(second.thread);
    ck_assert(!first.result && !second.result);
    ck_assert_int_eq(trace_count("end"), 1);
    ck_assert_int_eq(trace_count("-end"), 2);
    RLRelease(server.loop);
}

RL_TEST(several_modes, "S-PERF-8 S-BLK-5 S-MODE-23",
        "A request for several modes is performed once, in the first of them that runs; one for the common modes in a mode that is common "
        "by then; the others wait for theirs") {
    RLRunLoopRef loop = RLGetCurrent();
    const RLMode modes[] = {"x", NULL, "y"};
    keep_alive(loop, "x");
    keep_alive(loop, "z");
    RLPerformOnLoopInModes(loop, modes, 3, record, "xy", NULL, false);
    RLPerformOnLoop(loop, kRLCommonModes, record, "common", NULL, false);
    RLPerformOnLoop(loop, "x", record, "x", NULL, false);
    expect_run("z", 0, true, TimedOut);
    RLAddCommonMode(loop, "z");
    expect_run("z", 0, true, HandledSource);
    expect_trace("common");
    expect_run("y", 0, true, HandledSource);
    expect_run("y", 0, true, Finished);
    expect_run("x", 0, true, HandledSource);
    expect_trace("xy x");
}

static void run_nested(void *unused) {
    (void)unused;
    trace("n(");
    RLPerformOnLoop(RLGetCurrent(), kRLDefaultMode, record, "in", NULL, false);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    trace(")");
}

RL_TEST(nested_run, "S-PERF-2 S-BLK-15", "A nested run performs the requests made in it, and leaves the rest of the outer batch to the outer run") {
    RLRunLoopRef loop = RLGetCurrent();
    RLPerformOnLoop(loop, kRLDefaultMode, run_nested, NULL, NULL, false);
    RLPerformOnLoop(loop, kRLDefaultMode, record, "b", NULL, false);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("n( in ) b");
    expect_run(kRLDefaultMode, 0, true, Finished);
}

static Gate background_done = GATE_INITIALIZER;
static pthread_t background_thread;

static void note_thread(void *info) {
    (void)info;
    background_thread = pthread_self();
}

RL_TEST(in_background, "S-PERF-15", "In background a new thread performs and releases; on the main thread means on its loop") {
    ck_assert(RLPerformInBackground(note_thread, &background_done, open_gate));
    gate_wait(&background_done);
    ck_assert(!pthread_equal(background_thread, pthread_self()));
    ck_assert(!RLPerformInBackground(NULL, "a", record_release));
    expect_trace("-a");
}

static void ask_main(void *done) {
    ck_assert(RLPerformOnLoop(RLGetMain(), kRLCommonModes, record, "main", NULL, true));
    gate_open(done);
    RLStop(RLGetMain());
}

RL_MAIN_TEST(on_main_thread, "S-PERF-15 S-PERF-6", "A request to the main loop is performed by the main thread") {
    Gate done = GATE_INITIALIZER;
    keep_alive(RLGetMain(), kRLDefaultMode);
    Thread *asker = when_waiting(RLGetMain(), ask_main, &done);
    expect_run(kRLDefaultMode, 1000, false, Stopped);
    gate_wait(&done);
    thread_join(asker);
    expect_trace("main");
}

RL_TEST(fork_child, "S-FORK-1 S-PERF-6",
        "In the child of fork queued requests of the forking thread's loop are there; those that other threads wait for are not") {
    RLRunLoopRef loop = RLGetCurrent();
    Sender waiting;
    RLPerformOnLoop(loop, kRLDefaultMode, record, "a", NULL, false);
    sender_start(&waiting, loop, record, "w");
    take_time(0.02);
    pid_t child = fork();
    if (child == 0) {
        if (RLRunInMode(kRLDefaultMode, 0, true) != kRLRunHandledSource) _exit(1);
        if (strcmp(trace_take(), "a") != 0) _exit(2);
        _exit(RLRunInMode(kRLDefaultMode, 0, true) == kRLRunFinished ? 0 : 3);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    while (!gate_is_open(&waiting.started) || trace_count("w") == 0) RLRunInMode(kRLDefaultMode, 0.001, false);
    thread_join(waiting.thread);
    ck_assert(waiting.result);
    expect_trace("a w -w");
}
