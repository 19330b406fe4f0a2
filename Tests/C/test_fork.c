/* SPDX-License-Identifier: MIT */
/*
 * fork without exec: the child goes on with the loop of the thread that forked, and the parent does
 * not notice. The probes are static, because what is left in a loop outlives the case that put it
 * there.
 */
#include "support.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define expect_child(function, argument)                                                      \
    do {                                                                                      \
        ChildResult result = run_child(function, argument);                                   \
        ck_assert_msg(result.status == 0, "the child ended with status %#x and wrote: %s",    \
                      result.status, result.output);                                          \
    } while (0)

static bool is_readable(int fd) {
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    return poll(&entry, 1, 0) == 1;
}

static Probe source = {.name = "s"}, timer = {.name = "t"}, port = {.name = "p"};
static Probe observer = {.name = "o"}, function = {.name = "f"};
static int pipe_ends[2];

static void read_one(Probe *self) { read_byte(self->fd); }
__attribute__((unused)) static void signal_source(void *argument) {
    RLSourceSignal(argument);
    RLWakeUp(source.loop);
}
__attribute__((unused)) static void stop_loop(void *loop) { RLStop(loop); }
__attribute__((unused)) static void write_to(void *end) { write_byte(*(int *)end); }

static void use_timeout(void *argument) {
    double start = monotonic_now();
    (void)argument;
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    ck_assert_double_ge(monotonic_now() - start, 0.05 - 1e-6);
    ck_assert_ptr_eq(RLGetCurrent(), source.loop);
}

RL_TEST(a_child_can_wait, "S-FORK-1",
        "The loop is the same object in the child, and a timed wait there ends by itself") {
    add_source(&source, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    expect_child(use_timeout, NULL);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
}

static void serve_what_was_pending(void *argument) {
    (void)argument;
    ck_assert(RLSourceIsSignalled(source.source));
    ck_assert(RLContainsTimer(timer.loop, timer.timer, kRLDefaultMode));
    ck_assert(RLContainsObserver(observer.loop, observer.observer, kRLDefaultMode));
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("o f s t");
    ck_assert_int_eq(function.releases, 1);
}

RL_TEST(what_was_pending_is_served_in_the_child_and_in_the_parent, "S-FORK-1 S-FORK-2",
        "Pending signals, due timers, queued functions and observers stay, on both sides") {
    function.loop = RLGetCurrent();
    add_source(&source, kRLDefaultMode);
    add_timer(&timer, 0, 1000, kRLDefaultMode);
    add_observer(&observer, kRLBeforeTimers, kRLDefaultMode);
    probe_perform(&function, RLGetCurrent(), kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_child(serve_what_was_pending, NULL);
    ck_assert(RLSourceIsSignalled(source.source));
    serve_what_was_pending(NULL);
}

static void serve_port(void *argument) {
    (void)argument;
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
    write_byte(pipe_ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p");
}

RL_TEST(port_sources_stay, "S-FORK-1 S-FORK-2",
        "A port source of the parent is served in the child, whose service the parent does not "
        "see") {
    port.action = read_one;
    make_pipe(pipe_ends);
    add_port(&port, pipe_ends[0], kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
    expect_child(serve_port, NULL);
    serve_port(NULL);
}

static void drop_everything(void *argument) {
    (void)argument;
    RLSourceInvalidate(port.source);
    RLRemoveSource(source.loop, source.source, kRLDefaultMode);
    RLTimerInvalidate(timer.timer);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    expect_run(kRLDefaultMode, 60, false, Finished);
    RLWakeUp(source.loop);
    RLStop(source.loop);
}

RL_TEST(what_the_child_drops_the_parent_keeps, "S-FORK-2 S-FORK-1",
        "A child that removes its items and closes its descriptors takes nothing from the parent") {
    port.action = read_one;
    make_pipe(pipe_ends);
    add_port(&port, pipe_ends[0], kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    add_timer(&timer, date_in(1000), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
    RLRetain(port.source);
    RLRetain(source.source);
    RLRetain(timer.timer);
    expect_child(drop_everything, NULL);
    ck_assert(RLSourceIsValid(port.source));
    ck_assert(RLTimerIsValid(timer.timer));
    write_byte(pipe_ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p");
    RLTimerSetNextFireDate(timer.timer, 0);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_trace("t");
    RLRelease(port.source);
    RLRelease(source.source);
    RLRelease(timer.timer);
}

static void check_main(void *argument) {
    (void)argument;
    ck_assert_ptr_eq(RLGetMain(), source.loop);
    ck_assert_ptr_eq(RLGetCurrent(), source.loop);
}

RL_TEST(the_forking_thread_s_loop_is_the_main_one, "S-FORK-1",
        "In the child RLGetMain is the loop of the thread that forked") {
    add_source(&source, kRLDefaultMode);
    ck_assert_ptr_ne(RLGetMain(), RLGetCurrent());
    expect_child(check_main, NULL);
    ck_assert_ptr_ne(RLGetMain(), RLGetCurrent());
}

static void check_first_loop(void *argument) {
    (void)argument;
    RLRunLoopRef loop = RLGetCurrent();
    ck_assert_ptr_eq(RLGetMain(), loop);
    keep_alive(loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
}
static void fork_without_a_loop(void *argument) {
    (void)argument;
    expect_child(check_first_loop, NULL);
}

RL_TEST(without_a_loop_the_first_one_is_main, "S-FORK-1",
        "In a child forked by a thread without a loop, that thread's first loop is the main one") {
    keep_alive(RLGetMain(), kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    thread_join(thread_start(fork_without_a_loop, NULL));
}

static void be_woken_by_threads(void *argument) {
    (void)argument;
    Thread *thread = when_waiting(source.loop, signal_source, source.source);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    thread_join(thread);
    expect_trace("s");
    thread = when_waiting(source.loop, stop_loop, source.loop);
    expect_run(kRLDefaultMode, 1e6, false, Stopped);
    thread_join(thread);
    thread = when_waiting(source.loop, write_to, &pipe_ends[1]);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    thread_join(thread);
    expect_trace("p");
}

RL_TEST(a_child_s_own_threads_reach_its_loop, "S-FORK-1 S-WAKE-8",
        "Threads of the child wake and stop its loop, and events of descriptors end its waits") {
    port.action = read_one;
    make_pipe(pipe_ends);
    add_source(&source, kRLDefaultMode);
    add_port(&port, pipe_ends[0], kRLDefaultMode);
    be_woken_by_threads(NULL);
    expect_child(be_woken_by_threads, NULL);
    be_woken_by_threads(NULL);
}

static void use_new_thread_s_loop(void *argument) {
    (void)argument;
    ck_assert_ptr_ne(RLGetCurrent(), source.loop);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
}
static void start_a_thread(void *argument) {
    thread_join(thread_start(use_new_thread_s_loop, argument));
}

RL_TEST(a_child_s_threads_have_loops, "S-FORK-1", "A thread of the child has a loop of its own") {
    add_source(&source, kRLDefaultMode);
    expect_child(start_a_thread, NULL);
}

/* Forking in a callback, and again in the child */

static void run_in_the_child_of_a_callback(void *argument) {
    (void)argument;
    expect_run("other", 0.01, false, TimedOut);
    char *mode = RLCopyCurrentMode(source.loop);
    ck_assert_str_eq(mode, kRLDefaultMode);
    free(mode);
}
static void fork_in_callback(Probe *self) {
    (void)self;
    expect_child(run_in_the_child_of_a_callback, NULL);
}

RL_TEST(a_callback_may_fork, "S-FORK-1 S-FORK-2",
        "The child of a fork inside a callback can run the loop there, the parent's run goes on") {
    source.action = fork_in_callback;
    keep_alive(RLGetCurrent(), "other");
    RLSourceSignal(add_source(&source, kRLDefaultMode));
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s");
}

static void go_on_after_the_callback(void *argument) {
    (void)argument;
    expect_run("other", 0.01, false, TimedOut);
}
static pid_t the_child = -1;
static void fork_and_return(Probe *self) {
    (void)self;
    if (the_child >= 0) return;
    ck_assert_int_ge(the_child = fork(), 0);
    if (the_child == 0) go_on_after_the_callback(NULL);
}
static void request(void *probe) {
    Probe *self = probe;
    self->calls++;
    self->action(self);
}
/* The child returns from the callback, too, and ends the run that it did not begin. */
static void fork_in(Probe *probe) {
    int status;
    the_child = -1;
    probe->calls = 0;
    for (int i = 0; i < 20 && probe->calls == 0; i++) RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(probe->calls, 1);
    RLSourceInvalidate(probe->source);
    RLTimerInvalidate(probe->timer);
    RLObserverInvalidate(probe->observer);
    if (the_child == 0) {
        Probe fresh = {.name = NULL};
        RLSourceSignal(add_source(&fresh, kRLDefaultMode));
        while (fresh.calls == 0) RLRunInMode(kRLDefaultMode, 0, true);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(the_child, &status, 0), the_child);
    ck_assert_int_eq(status, 0);
}

RL_TEST(every_callback_may_fork, "S-FORK-4 S-FORK-1",
        "The child returns from the callback of a source, a port, a timer, an observer, a function or a request and goes on") {
    static Probe in_source, in_port, once, again, seen, queued, asked;
    Probe *const all[] = {&in_source, &in_port, &once, &again, &seen, &queued, &asked};
    for (int i = 0; i < 7; i++) *all[i] = (Probe){.action = fork_and_return};
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    keep_alive(RLGetCurrent(), "other");
    RLRetain(add_source(&in_source, kRLDefaultMode));
    RLSourceSignal(in_source.source);
    fork_in(&in_source);
    make_pipe(pipe_ends);
    write_byte(pipe_ends[1]);
    RLRetain(add_port(&in_port, pipe_ends[0], kRLDefaultMode));
    fork_in(&in_port);
    RLRetain(add_timer(&once, date_in(-1), 0, kRLDefaultMode));
    fork_in(&once);
    RLRetain(add_timer(&again, date_in(-1), 1000, kRLDefaultMode));
    fork_in(&again);
    RLRetain(add_observer(&seen, kRLBeforeSources, kRLDefaultMode));
    fork_in(&seen);
    probe_perform(&queued, RLGetCurrent(), kRLDefaultMode);
    fork_in(&queued);
    RLMode mode = kRLDefaultMode;
    RLPerformInOrder(RLGetCurrent(), &mode, 1, 0, NULL, request, &asked, NULL);
    fork_in(&asked);
}

static void never(void *unused) { (void)unused; }
static void never_fires(RLTimerRef unused, void *info) { (void)unused, (void)info; }
static void fork_in_release(void *unused) {
    (void)unused;
    if (the_child < 0) ck_assert_int_ge(the_child = fork(), 0);
    if (the_child == 0) alarm(60);
}
static void leave_functions(LoopThread *self) {
    RLRetain(self->loop);
    RLAddTimer(self->loop, probe_timer(&timer, 0, 1000), "other");
    for (int i = 0; i < 2; i++) RLPerformFunction(self->loop, i ? "other" : kRLDefaultMode, never, NULL, fork_in_release);
}
static void use_a_loop(LoopThread *self) {
    Probe late = {.action = action_stop};
    add_timer(&late, FAR_FUTURE, 0, kRLDefaultMode);
    keep_alive(self->loop, "other");
    expect_run("other", 0, false, TimedOut);
    RLTimerSetNextFireDate(late.timer, date_in(-1));
    while (late.calls == 0) RLRunInMode(kRLDefaultMode, 60, false);
    RLPerformFunction(self->loop, kRLDefaultMode, never, NULL, NULL);
    RLRunInMode(kRLDefaultMode, 0, false);
}

static void await_the_child(void) {
    int status;
    ck_assert_int_eq(waitpid(the_child, &status, 0), the_child);
    ck_assert_int_eq(status, 0);
}

RL_TEST(a_loop_that_is_freed_may_fork, "S-FORK-4 S-LOOP-9 S-LOOP-10",
        "The release of a function that a freed loop had not performed forks: the child goes on to free the loop, and new threads there have whole ones") {
    LoopThread last;
    RLRunLoopRef own = RLGetCurrent();
    loop_thread_start(&last, leave_functions, NULL);
    thread_join(last.thread);
    RLRelease(last.loop);
    if (the_child == 0) {
        ck_assert_ptr_eq(RLGetCurrent(), own);
        ck_assert_ptr_eq(RLGetMain(), own);
        RLAddTimer(own, timer.timer, kRLDefaultMode);
        RLRunInMode(kRLDefaultMode, 0, false);
        ck_assert_int_eq(timer.calls, 1);
        for (int i = 0; i < 3; i++) {
            LoopThread next;
            loop_thread_start(&next, use_a_loop, NULL);
            thread_join(next.thread);
        }
        _exit(0);
    }
    await_the_child();
    RLTimerInvalidate(timer.timer);
    RLRelease(timer.timer);
}

/* The thread sanitizer takes a thread in the last round of its destructors for gone; the leak sanitizer finds what the parent had. */
#if !defined(WITH_THREAD_SANITIZER) && !defined(WITH_ADDRESS_SANITIZER)
static void fork_in_context_release(const void *info) { fork_in_release((void *)info); }
static void leave_a_timer(LoopThread *self) {
    RLTimerContext context = {.release = fork_in_context_release};
    RLTimerRef last = RLTimerCreate(FAR_FUTURE, 0, 0, 0, never_fires, &context);
    RLAddTimer(self->loop, last, kRLDefaultMode);
    RLRelease(last);
}

RL_TEST(a_loop_without_posts_that_is_freed_may_fork, "S-FORK-4 S-LOOP-9 S-LOOP-10",
        "The release of a timer's context forks while a loop is freed to which nothing was ever posted: the child goes on") {
    LoopThread last;
    loop_thread_start(&last, leave_a_timer, NULL);
    thread_join(last.thread);
    if (the_child == 0) {
        LoopThread next;
        loop_thread_start(&next, use_a_loop, NULL);
        thread_join(next.thread);
        _exit(0);
    }
    await_the_child();
}
#endif

static const void *fork_in_retain(const void *info) {
    ck_assert_int_ge(the_child = fork(), 0);
    if (the_child == 0) alarm(60);
    return info;
}
static int reports;
static void report(RLSourceRef reporting, const RLKernelEvent *event, void *info) {
    (void)reporting, (void)event, (void)info;
    reports++;
}

RL_TEST(the_making_of_a_timer_of_the_kernel_forks, "S-FORK-4 S-KEV-11",
        "The retain of the context of a kernel event source forks: parent and child have a timer each, and each is told of its own") {
    make_pipe(pipe_ends);
    RLKernelEventContext context = {.retain = fork_in_retain};
    RLKernelEvent event = {.filter = kRLKernelFilterTimer, .flags = kRLKernelEventOneShot, .data = 1};
    RLSourceRef made = RLKernelEventSourceCreate(&event, report, &context);
    RLAddSource(RLGetCurrent(), made, kRLDefaultMode);
    RLRelease(made);
    if (the_child == 0) {
        /* The parent, which was told, lets the child go on. */
        read_byte(pipe_ends[0]);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        _exit(reports == 1 ? 0 : 1);
    }
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(reports, 1);
    write_byte(pipe_ends[1]);
    int status;
    ck_assert_int_eq(waitpid(the_child, &status, 0), the_child);
    ck_assert_int_eq(status, 0);
}

static int generation;
static void fork_again(void *argument) {
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    write_byte(pipe_ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s p");
    if (++generation < 4) expect_child(fork_again, argument);
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
}

RL_TEST(a_child_may_fork, "S-FORK-1", "Each of four generations can use the loop") {
    port.action = read_one;
    make_pipe(pipe_ends);
    add_source(&source, kRLDefaultMode);
    add_port(&port, pipe_ends[0], kRLDefaultMode);
    expect_child(fork_again, NULL);
}

static void fork_while_the_loop_waits(void *argument) {
    (void)argument;
    expect_child(check_first_loop, NULL);
    RLSourceSignal(source.source);
    RLWakeUp(source.loop);
}

RL_TEST(a_waiting_loop_of_the_parent_is_not_disturbed, "S-FORK-2",
        "A fork by another thread does not end the wait of a loop, which is woken as ever later") {
    observe(RLGetCurrent(), kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    Thread *thread = when_waiting(source.loop, fork_while_the_loop_waits, NULL);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    thread_join(thread);
    expect_trace("E BT BS BW AW BT BS s X");
}

/*
 * Asked by the leak sanitizer, which would find the runner's memory in a child that leaves by exit.
 */
static int is_leaving;
int __lsan_is_turned_off(void) { return is_leaving; }

static void leave_by_exit(void *argument) {
    (void)argument;
    is_leaving = 1;
    exit(0);
}

RL_TEST(a_child_may_exit, "S-FORK-2", "A child that ends by exit leaves the parent's loop alone") {
    port.action = read_one;
    make_pipe(pipe_ends);
    add_port(&port, pipe_ends[0], kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
    expect_child(leave_by_exit, NULL);
    ck_assert(!is_readable(pipe_ends[0]));
    serve_port(NULL);
}

/* What a child registers before its first run must not get into the parent's kernel objects. */

static void hold_a_ready_port(int ready, int leave) {
    static Probe childs = {.name = "child's"};
    int own[2];
    make_pipe(own);
    write_byte(own[1]);
    add_port(&childs, own[0], kRLDefaultMode);
    RLRemoveSource(source.loop, source.source, kRLDefaultMode);
    write_byte(ready);
    read_byte(leave);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("child's");
    _exit(0);
}

RL_TEST(a_child_s_ports_do_not_reach_the_parent, "S-FORK-2 S-FORK-1",
        "A child that adds a ready port before it ran its loop causes no pass in the parent") {
    int ready[2], may_leave[2], status;
    port.action = read_one;
    make_pipe(pipe_ends);
    make_pipe(ready);
    make_pipe(may_leave);
    add_source(&source, kRLDefaultMode);
    add_port(&port, pipe_ends[0], kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) hold_a_ready_port(ready[1], may_leave[0]);
    read_byte(ready[0]);
    observe(source.loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.1, true, TimedOut);
    expect_trace("E BT BS BW AW X");
    write_byte(may_leave[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    write_byte(pipe_ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("E BT BS BW AW p X");
}

/* What belonged to the loop of another thread */

static Gate leave = GATE_INITIALIZER;
static LoopThread other;
static void stay(LoopThread *self) {
    RLAddSource(self->loop, probe_source(&source, 0), kRLDefaultMode);
    RLAddTimer(self->loop, probe_timer(&timer, 0, 1000), kRLDefaultMode);
    RLAddObserver(self->loop, probe_observer(&observer, kRLBeforeTimers, true, 0), kRLCommonModes);
    gate_open(self->data);
    gate_wait(&leave);
}
static void take_over(void *argument) {
    RLRunLoopRef own = RLGetCurrent();
    (void)argument;
    RLWakeUp(other.loop);
    RLStop(other.loop);
    ck_assert(!RLIsWaiting(other.loop));
    RLSourceSignal(source.source);
    RLAddSource(own, source.source, kRLDefaultMode);
    RLAddTimer(own, timer.timer, kRLDefaultMode);
    RLAddObserver(own, observer.observer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("o s t");
    RLSourceInvalidate(source.source);
    RLTimerInvalidate(timer.timer);
    RLObserverInvalidate(observer.observer);
}

RL_TEST(items_of_vanished_loops_are_free, "S-FORK-1",
        "Items of another thread's loop, which does not exist in the child, may be added there") {
    Gate added = GATE_INITIALIZER;
    loop_thread_start(&other, stay, &added);
    gate_wait(&added);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect_child(take_over, NULL);
    ck_assert(RLContainsTimer(other.loop, timer.timer, kRLDefaultMode));
    ck_assert(RLContainsSource(other.loop, source.source, kRLDefaultMode));
    ck_assert(RLContainsObserver(other.loop, observer.observer, kRLDefaultMode));
    gate_open(&leave);
    thread_join(other.thread);
    RLRelease(source.source);
    RLRelease(timer.timer);
    RLRelease(observer.observer);
}
