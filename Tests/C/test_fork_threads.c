/* SPDX-License-Identifier: MIT */
/*
 * fork while other threads are at work. The probes are static, because what is left in a loop
 * outlives the case that put it there.
 */
#define _GNU_SOURCE
#include "support.h"
#include "system_calls.h"

#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { hammers = 3, forks = 30 };

static RLRunLoopRef forking_loop;
static Probe signalled = {.name = "s"}, timer = {.name = NULL}, port = {.name = NULL};
static Probe gone = {.name = "gone"};
static int pipe_ends[2];
static int done;

static void do_nothing(void *info) { (void)info; }

/*
 * What the other threads do uses neither the asserts nor the probes of the tests: their locks would
 * be held at the fork.
 */
static RLPort get_shared_port(void *info) {
    (void)info;
    return pipe_ends[0];
}

static void add_and_remove(RLRunLoopRef loop, char *info, unsigned *seed) {
    RLMode mode = rand_r(seed) % 2 ? kRLCommonModes : "hammered";
    RLSourceContext custom = {.info = info, .perform = do_nothing};
    RLSourceContext1 shared = {.version = 1, .info = info, .getPort = get_shared_port};
    RLSourceRef source = RLSourceCreate(0, &custom);
    RLSourceRef port_source = RLSourceCreate(0, (RLSourceContext *)&shared);
    RLTimerRef far = RLTimerCreate(FAR_FUTURE, 0, 0, 0, NULL, NULL);
    RLObserverRef observer = RLObserverCreate(kRLExit, true, 0, NULL, NULL);
    RLAddSource(loop, source, mode);
    RLAddTimer(loop, far, mode);
    RLAddObserver(loop, observer, mode);
    RLAddSource(loop, port_source, "hammered ports");
    RLPerformFunction(loop, "never run", do_nothing, NULL, NULL);
    RLSourceSignal(source);
    RLWakeUp(loop);
    RLSourceInvalidate(source);
    RLTimerInvalidate(far);
    RLObserverInvalidate(observer);
    RLSourceInvalidate(port_source);
    RLRelease(source);
    RLRelease(far);
    RLRelease(observer);
    RLRelease(port_source);
}

static void hammer(void *argument) {
    static char infos[hammers];
    char *info = &infos[(uintptr_t)argument];
    unsigned seed = (unsigned)(uintptr_t)argument;
    RLSourceContext alive = {.info = info};
    RLSourceRef source = RLSourceCreate(0, &alive);
    RLAddSource(RLGetCurrent(), source, "kept");
    while (!count_of(&done)) {
        add_and_remove(RLGetCurrent(), info, &seed);
        RLRunInMode("kept", 0, false);
        add_and_remove(forking_loop, info, &seed);
    }
    RLRelease(source);
}

/*
 * A signalled source that a vanished thread left in the loop may be served before the awaited one.
 */
static void run_until(const char *word) {
    do {
        expect_run(kRLDefaultMode, 60, true, HandledSource);
    } while (trace_count(word) == 0);
    ck_assert_int_eq(trace_count(word), 1);
}

/* Every part of the loop is used in the child, in about the time of a few system calls. */
static void use_loop_in_child(void *argument) {
    (void)argument;
    trace_take();
    ck_assert_ptr_eq(RLGetCurrent(), forking_loop);
    ck_assert_ptr_eq(RLGetMain(), forking_loop);
    RLSourceSignal(signalled.source);
    run_until("s");
    static Probe fresh = {.name = "fresh"};
    RLSourceSignal(add_source(&fresh, kRLDefaultMode));
    run_until("fresh");
    int fd = make_eventfd();
    eventfd_signal(fd);
    static Probe event = {.name = "event"};
    add_port(&event, fd, kRLDefaultMode);
    run_until("event");
    expect_run(kRLDefaultMode, 0.001, false, TimedOut);
    RLSourceInvalidate(signalled.source);
    RLTimerInvalidate(timer.timer);
    free(RLCopyAllModes(forking_loop, NULL));
}

RL_TEST(fork_while_threads_hammer, "S-FORK-1 S-FORK-2",
        "Children forked while other threads add to and remove from their own loops and the "
        "forking "
        "thread's can use that thread's loop, and the parent goes on") {
    forking_loop = RLGetCurrent();
    make_pipe(pipe_ends);
    add_source(&signalled, kRLDefaultMode);
    add_timer(&timer, FAR_FUTURE, 10, kRLDefaultMode);
    add_port(&port, pipe_ends[0], kRLDefaultMode);
    Thread *threads[hammers];
    for (int i = 0; i < hammers; i++)
        threads[i] = thread_start(hammer, (void *)(uintptr_t)i);
    for (int i = 0; i < forks; i++) {
        ChildResult result = run_child(use_loop_in_child, NULL);
        ck_assert_msg(result.status == 0, "child %d ended with status %#x and wrote: %s", i,
                      result.status, result.output);
        RLSourceSignal(signalled.source);
        do {
            RLRunInMode(kRLDefaultMode, 0, true);
        } while (RLSourceIsSignalled(signalled.source));
    }
    __atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < hammers; i++) thread_join(threads[i]);
    ck_assert_int_eq(count_of(&signalled.calls), forks);
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
}

/* A source of two loops, one of which does not exist in the child */

static Gate added = GATE_INITIALIZER, leave = GATE_INITIALIZER;
static void add_and_stay(LoopThread *self) {
    RLAddSource(self->loop, self->data, kRLDefaultMode);
    gate_open(&added);
    gate_wait(&leave);
}
static void signal_in_child(void *argument) {
    (void)argument;
    RLSourceSignal(signalled.source);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s");
    RLSourceInvalidate(signalled.source);
    ck_assert(!RLContainsSource(signalled.loop, signalled.source, kRLDefaultMode));
}

RL_TEST(a_source_shared_with_a_vanished_loop, "S-FORK-1",
        "A source that was also in another thread's loop performs in the child") {
    LoopThread other = {0};
    add_source(&signalled, kRLDefaultMode);
    RLRetain(signalled.source);
    loop_thread_start(&other, add_and_stay, signalled.source);
    gate_wait(&added);
    ChildResult result = run_child(signal_in_child, NULL);
    ck_assert_msg(result.status == 0, "status %#x, wrote: %s", result.status, result.output);
    ck_assert(RLContainsSource(other.loop, signalled.source, kRLDefaultMode));
    ck_assert(!RLSourceIsSignalled(signalled.source));
    gate_open(&leave);
    thread_join(other.thread);
    RLRelease(signalled.source);
}

/* A signaller that vanished in the middle must not leave a source that nobody can signal. */

static void signal_all_the_time(void *source) {
    while (!count_of(&done)) {
        RLSourceSignal(source);
        RLWakeUp(forking_loop);
    }
}
static void signal_must_arrive(void *argument) {
    (void)argument;
    trace_take();
    RLSourceSignal(gone.source);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(trace_count("gone"), 1);
    RLSourceSignal(gone.source);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(trace_count("gone"), 1 + 1);
}

RL_TEST(fork_while_a_thread_signals, "S-FORK-1",
        "However far a vanished thread had come in signalling a source, the child can signal it") {
    forking_loop = RLGetCurrent();
    add_source(&gone, kRLDefaultMode);
    Thread *thread = thread_start(signal_all_the_time, gone.source);
    for (int i = 0; i < forks; i++) {
        ChildResult result = run_child(signal_must_arrive, NULL);
        ck_assert_msg(result.status == 0, "child %d ended with status %#x and wrote: %s", i,
                      result.status, result.output);
        for (int j = 0; j < i; j++) RLRunInMode(kRLDefaultMode, 0, true);
        trace_take();
    }
    __atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
    thread_join(thread);
}

static int queued, performed;
static void count_performed(void *info) {
    (void)info;
    __atomic_add_fetch(&performed, 1, __ATOMIC_SEQ_CST);
}
static void queue_all_the_time(void *argument) {
    (void)argument;
    while (!count_of(&done)) {
        /* A queue that grows without end would only measure memory. */
        while (!count_of(&done) && queued - count_of(&performed) > 1000) sched_yield();
        RLPerformFunction(forking_loop, kRLDefaultMode, count_performed, NULL, NULL);
        RLWakeUp(forking_loop);
        queued++;
    }
}
static void function_must_run(void *argument) {
    static Probe function = {.name = "mine"};
    (void)argument;
    trace_take();
    probe_perform(&function, forking_loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_int_eq(trace_count("mine"), 1);
    ck_assert_int_eq(function.releases, 1);
}

RL_TEST(fork_while_a_thread_queues_functions, "S-FORK-1",
        "However far a vanished thread had come in queueing a function, the child's own are run") {
    forking_loop = RLGetCurrent();
    keep_alive(forking_loop, kRLDefaultMode);
    Thread *thread = thread_start(queue_all_the_time, NULL);
    for (int i = 0; i < forks; i++) {
        ChildResult result = run_child(function_must_run, NULL);
        ck_assert_msg(result.status == 0, "child %d ended with status %#x and wrote: %s", i,
                      result.status, result.output);
        RLRunInMode(kRLDefaultMode, 0, false);
    }
    __atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
    thread_join(thread);
}

/* Threads that post so much that a fork meets them at the end of a chunk of the queue, where they say who is done with it. */
static void crowd(void *argument) {
    (void)argument;
    while (!count_of(&done)) {
        while (!count_of(&done) && __atomic_load_n(&queued, __ATOMIC_RELAXED) - count_of(&performed) > 10000) sched_yield();
        for (int i = 0; i < 1000; i++) RLPerformFunction(forking_loop, kRLDefaultMode, count_performed, NULL, NULL);
        __atomic_add_fetch(&queued, 1000, __ATOMIC_RELAXED);
    }
}
static void queue_and_measure(void *argument) {
    (void)argument;
    size_t before = 0;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 200; i++) RLPerformFunction(forking_loop, kRLDefaultMode, count_performed, NULL, NULL);
        expect_run(kRLDefaultMode, 0, false, TimedOut);
        /* What the parent had queued is performed, and its memory is there to be used again. */
        if (round == 20) before = mallinfo2().uordblks;
    }
    ck_assert_uint_lt(mallinfo2().uordblks, before + 100000);
}

RL_TEST(fork_while_a_crowd_queues_functions, "S-FORK-1 S-THR-9",
        "However far vanished threads had come with a full part of the queue, the child uses its memory again") {
    enum { crowds = 3 };
#if defined(WITH_ADDRESS_SANITIZER) || defined(WITH_THREAD_SANITIZER)
    return; /* Their allocators do not tell. */
#endif
    forking_loop = RLGetCurrent();
    keep_alive(forking_loop, kRLDefaultMode);
    Thread *threads[crowds];
    for (int i = 0; i < crowds; i++) threads[i] = thread_start(crowd, NULL);
    for (int i = 0; i < 10 * forks; i++) {
        ChildResult result = run_child(queue_and_measure, NULL);
        ck_assert_msg(result.status == 0, "child %d ended with status %#x and wrote: %s", i, result.status, result.output);
        RLRunInMode(kRLDefaultMode, 0, false);
    }
    __atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < crowds; i++) thread_join(threads[i]);
}

/* A thread invalidates a source of the forking thread's loop, which is in two modes, and is in between when the fork comes. */
static Gate cancelling = GATE_INITIALIZER, go_on = GATE_INITIALIZER;
static void wait_in_cancel(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)info, (void)loop, (void)mode;
    gate_open(&cancelling);
    gate_wait(&go_on);
}
static void invalidate_source(void *source) { RLSourceInvalidate(source); }
static void run_without_it(void *source) {
    ck_assert(!RLSourceIsValid(source));
    expect_run("a", 1e6, false, Finished);
    expect_run("b", 1e6, false, Finished);
    ck_assert(!RLContainsSource(RLGetCurrent(), source, "a"));
    ck_assert(!RLContainsSource(RLGetCurrent(), source, "b"));
}

RL_TEST(fork_while_a_thread_invalidates, "S-FORK-1 S-SRC-9",
        "A source of the forking thread's loop that another thread is invalidating is in none of its modes in the child") {
    RLSourceContext context = {.cancel = wait_in_cancel};
    RLSourceRef shared = RLSourceCreate(0, &context);
    RLAddSource(RLGetCurrent(), shared, "a");
    RLAddSource(RLGetCurrent(), shared, "b");
    Thread *thread = thread_start(invalidate_source, shared);
    gate_wait(&cancelling);
    ChildResult child = run_child(run_without_it, shared);
    gate_open(&go_on);
    thread_join(thread);
    ck_assert_msg(child.status == 0, "%s", child.output);
    RLRelease(shared);
}

/*
 * The same without a callback to wait in, for each kind of item: the thread is held up in the middle of it by the locks of the fork. A
 * prepare handler that is registered before the library's runs after it.
 */
typedef enum { SOURCE, TIMER, OBSERVER, DESCRIPTOR, SOCKET, KINDS } Kind;
static Kind kind;
static RLTypeRef item;
static RLSourceRef item_source; /* of a descriptor or a socket */
static int item_ends[2];
static Gate forking = GATE_INITIALIZER;
static bool holds_up_forks;

static void fire_never(RLTimerRef timer, void *info) { (void)timer, (void)info; }
static void observe_never(RLObserverRef observer, RLActivity activity, void *info) { (void)observer, (void)activity, (void)info; }
static void descriptor_never(RLFileDescriptorRef file, RLOptionFlags types, void *info) { (void)file, (void)types, (void)info; }
static void socket_never(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)socket, (void)type, (void)address, (void)data, (void)info;
}

static void make_item(void) {
    RLRunLoopRef loop = RLGetCurrent();
    RLSourceContext context = {0};
    item_source = NULL;
    switch (kind) {
    case SOURCE: RLAddSource(loop, (RLSourceRef)(item = RLSourceCreate(0, &context)), "a"); break;
    case TIMER: RLAddTimer(loop, (RLTimerRef)(item = RLTimerCreate(FAR_FUTURE, 0, 0, 0, fire_never, NULL)), "a"); break;
    case OBSERVER: RLAddObserver(loop, (RLObserverRef)(item = RLObserverCreate(kRLAllActivities, true, 0, observe_never, NULL)), "a"); break;
    case DESCRIPTOR:
        make_pipe(item_ends);
        item = RLFileDescriptorCreate(item_ends[0], false, descriptor_never, NULL);
        item_source = RLFileDescriptorCreateRunLoopSource((RLFileDescriptorRef)item, 0);
        break;
    default:
        make_pipe(item_ends);
        item = RLSocketCreateWithNative(item_ends[0], kRLSocketReadCallBack, socket_never, NULL);
        RLSocketSetSocketFlags((RLSocketRef)item, 0);
        item_source = RLSocketCreateRunLoopSource((RLSocketRef)item, 0);
    }
    if (item_source) RLAddSource(loop, item_source, "a");
}
static bool is_valid(void) {
    switch (kind) {
    case SOURCE: return RLSourceIsValid((RLSourceRef)item);
    case TIMER: return RLTimerIsValid((RLTimerRef)item);
    case OBSERVER: return RLObserverIsValid((RLObserverRef)item);
    case DESCRIPTOR: return RLFileDescriptorIsValid((RLFileDescriptorRef)item);
    default: return RLSocketIsValid((RLSocketRef)item);
    }
}
static bool is_member(void) {
    RLRunLoopRef loop = RLGetCurrent();
    switch (kind) {
    case SOURCE: return RLContainsSource(loop, (RLSourceRef)item, "a");
    case TIMER: return RLContainsTimer(loop, (RLTimerRef)item, "a");
    case OBSERVER: return RLContainsObserver(loop, (RLObserverRef)item, "a");
    default: return RLContainsSource(loop, item_source, "a");
    }
}
static void invalidate_item(void) {
    switch (kind) {
    case SOURCE: RLSourceInvalidate((RLSourceRef)item); break;
    case TIMER: RLTimerInvalidate((RLTimerRef)item); break;
    case OBSERVER: RLObserverInvalidate((RLObserverRef)item); break;
    case DESCRIPTOR: RLFileDescriptorInvalidate((RLFileDescriptorRef)item); break;
    default: RLSocketInvalidate((RLSocketRef)item);
    }
}
static void invalidate_during_fork(void *unused) {
    (void)unused;
    gate_wait(&forking);
    invalidate_item();
}
static void hold_up_fork(void) {
    if (!holds_up_forks) return;
    gate_open(&forking);
    /* Where it is not invalid before it has the lock there is nothing to see. With a number that may have been closed the question
     * itself may take a lock that the fork has. */
    double end = monotonic_now() + 0.1;
    while ((kind >= DESCRIPTOR || is_valid()) && monotonic_now() < end) sched_yield();
}
static void register_early(void) { pthread_atfork(hold_up_fork, NULL, NULL); }
__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = register_early;

static void no_invalid_member(void *unused) {
    (void)unused;
    ck_assert_int_eq(is_valid(), is_member());
    /* The number can have another socket. */
    if (kind == SOCKET) RLRelease(RLSocketCreateWithNative(item_ends[0], kRLSocketReadCallBack, socket_never, NULL));
    /* What is left as it was can be invalidated here, and the source of what is not can be added no more. */
    if (item_source && !is_valid()) RLAddSource(RLGetCurrent(), item_source, "a");
    invalidate_item();
    ck_assert(!is_member());
    expect_run("a", 1e6, false, Finished);
}

RL_TEST(fork_in_the_middle_of_an_invalidation, "S-FORK-1 S-SRC-9 S-TMR-42 S-OBS-16 S-FD-11 S-SOCK-9",
        "In the child what is invalid is in no mode, however far the other thread had come with it") {
    for (kind = SOURCE; kind < KINDS; kind++) {
        make_item();
        forking = (Gate)GATE_INITIALIZER;
        Thread *thread = thread_start(invalidate_during_fork, NULL);
        holds_up_forks = true;
        ChildResult child = run_child(no_invalid_member, NULL);
        holds_up_forks = false;
        thread_join(thread);
        ck_assert_msg(child.status == 0, "kind %d: %s", (int)kind, child.output);
        RLRelease(item);
        RLRelease(item_source);
    }
}

static void port_is_invalid(RLMachPortRef port, void *info) {
    (void)port, (void)info;
    gate_open(&cancelling);
    gate_wait(&go_on);
}
static void receive_never(RLMachPortRef port, const RLMachMessage *message, void *info) { (void)port, (void)message, (void)info; }
static void invalidate_port(void *port) { RLMachPortInvalidate(port); }
static void run_without_port(void *port) {
    ck_assert(!RLMachPortIsValid(port));
    ck_assert(!is_member());
    RLAddSource(RLGetCurrent(), (RLSourceRef)item, "a");
    expect_run("a", 1e6, false, Finished);
}

RL_TEST(fork_while_a_thread_invalidates_a_port, "S-FORK-1 S-PORT-8",
        "The same for a Mach-like port whose invalidation callback runs on another thread") {
    RLMachPortRef port = RLMachPortCreate(receive_never, NULL, NULL);
    RLMachPortSetInvalidationCallBack(port, port_is_invalid);
    kind = SOURCE;
    item = RLMachPortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), (RLSourceRef)item, "a");
    Thread *thread = thread_start(invalidate_port, port);
    gate_wait(&cancelling);
    ChildResult child = run_child(run_without_port, port);
    gate_open(&go_on);
    thread_join(thread);
    ck_assert_msg(child.status == 0, "%s", child.output);
    RLRelease(item);
    RLRelease(port);
}

static _Thread_local bool is_the_ending_one;
static bool is_ending;
static bool stop_at_close(long number, const long argument[6], long *result) {
    (void)argument, (void)result;
    if (number != SYS_close || !is_the_ending_one || !__atomic_exchange_n(&is_ending, false, __ATOMIC_SEQ_CST)) return false;
    gate_open(&cancelling);
    gate_wait(&go_on);
    return false;
}
static void wait_in_two_modes(LoopThread *self) {
    static Probe ports[2];
    static const RLMode modes[2] = {"first", "second"};
    for (int i = 0; i < 2; i++) {
        int ends[2];
        make_pipe(ends);
        add_port(&ports[i], ends[0], modes[i]);
        expect_run(modes[i], 0, false, TimedOut);
    }
    (void)self;
    is_the_ending_one = true;
    __atomic_store_n(&is_ending, true, __ATOMIC_SEQ_CST);
}
static void count_sets(void *unused) {
    (void)unused;
    int count = 0;
    for (int number = 0; number < 1024; number++) {
        char path[64], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        if (readlink(path, target, sizeof target - 1) > 0 && strcmp(target, "anon_inode:[eventpoll]") == 0) count++;
    }
    /* The one that the other thread had in its hands. */
    ck_assert_int_eq(count, 1);
}

RL_TEST(fork_while_a_thread_that_ends_closes_its_sets, "S-FORK-3 S-LOOP-16",
        "The child closes what a thread that was ending had not come to") {
    LoopThread last;
    hook_system_calls(stop_at_close);
    loop_thread_start(&last, wait_in_two_modes, NULL);
    gate_wait(&cancelling);
    ChildResult child = run_child(count_sets, NULL);
    gate_open(&go_on);
    thread_join(last.thread);
    hook_system_calls(NULL);
    ck_assert_msg(child.status == 0, "%s", child.output);
}

static int ports_are_over;
static void make_and_end_ports(void *unused) {
    (void)unused;
    while (!count_of(&ports_are_over)) {
        RLMachPortRef ports[8];
        for (int i = 0; i < 8; i++) ports[i] = RLMachPortCreate(receive_never, NULL, NULL);
        for (int i = 0; i < 8; i++) {
            RLMachPortInvalidate(ports[i]);
            RLRelease(ports[i]);
        }
    }
}
static void use_a_port(void *port) { ck_assert(RLMachPortIsValid(port)); }

RL_TEST(forks_while_threads_make_and_end_ports, "S-FORK-2 S-PORT-8",
        "Ports that come and go in other threads during a fork are as they were in the parent: no lock of theirs is kept") {
    RLMachPortRef kept[200];
    for (int i = 0; i < 200; i++) kept[i] = RLMachPortCreate(receive_never, NULL, NULL);
    Thread *threads[] = {thread_start(make_and_end_ports, NULL), thread_start(make_and_end_ports, NULL)};
    for (int i = 0; i < 300; i++) {
        ChildResult child = run_child(use_a_port, kept[i % 200]);
        ck_assert_msg(child.status == 0, "%s", child.output);
    }
    __atomic_store_n(&ports_are_over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 2; i++) thread_join(threads[i]);
    for (int i = 0; i < 200; i++) RLRelease(kept[i]);
}

/* A one-shot source whose report goes on in another thread. */
static struct {
    RLSourceRef source;
    Gate reports, goes_on;
    int calls;
} once_only;

static void report_once(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    once_only.calls++;
    gate_open(&once_only.reports);
    gate_wait(&once_only.goes_on);
}
static void run_once_only(LoopThread *self) {
    RLKernelEvent event = {1, kRLKernelFilterUser, kRLKernelEventOneShot, 0, 0, NULL};
    RLKernelEventContext context = {0};
    once_only.source = RLKernelEventSourceCreate(&event, report_once, &context);
    RLAddSource(self->loop, once_only.source, kRLDefaultMode);
    gate_open(&self->ready);
    RLKernelEventSourceTrigger(once_only.source, kRLNoteTrigger, 0);
    RLRunInMode(kRLDefaultMode, 60, true);
}
static void expect_it_to_be_over(void *info) {
    (void)info;
    ck_assert(!RLSourceIsValid(once_only.source));
    RLAddSource(RLGetCurrent(), once_only.source, "once");
    RLKernelEventSourceTrigger(once_only.source, kRLNoteTrigger, 0);
    expect_run("once", 60, true, Finished);
    ck_assert_int_eq(once_only.calls, 1);
    RLSourceInvalidate(once_only.source);
    RLRelease(once_only.source);
}

RL_TEST(fork_in_the_report_of_a_one_shot_source, "S-KEV-8 S-FORK-3",
        "A one-shot source that another thread was calling at the fork is invalid in the child, and logs nothing") {
    LoopThread other;
    loop_thread_start(&other, run_once_only, NULL);
    gate_wait(&once_only.reports);
    ChildResult result = run_child(expect_it_to_be_over, NULL);
    ck_assert_int_eq(result.status, 0);
    ck_assert_str_eq(result.output, "");
    ck_assert(RLSourceIsValid(once_only.source));
    gate_open(&once_only.goes_on);
    thread_join(other.thread);
    ck_assert(!RLSourceIsValid(once_only.source));
    RLRelease(once_only.source);
}

static int lines_in_child;
static void count_line(const char *line, void *unused) {
    (void)line, (void)unused;
    lines_in_child++;
}
static void fork_in_report(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event;
    pid_t child = fork();
    if (child == 0) {
        RLSetLogHandler(count_line, NULL);
        for (int i = 0; i < 3; i++) RLRunInMode("others", 0.001, false);
        _exit(lines_in_child);
    }
    ck_assert_int_eq(waitpid(child, info, 0), child);
}

RL_TEST(fork_by_the_report_of_a_one_shot_source, "S-KEV-8 S-FD-18",
        "A child that is forked in the report of a one-shot source has lost nothing, and logs nothing") {
    int status = -1;
    RLKernelEvent event = {1, kRLKernelFilterUser, kRLKernelEventOneShot, 0, 0, NULL};
    RLKernelEventContext context = {.info = &status};
    RLSourceRef source = RLKernelEventSourceCreate(&event, fork_in_report, &context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    keep_alive(RLGetCurrent(), "others");
    RLKernelEventSourceTrigger(source, kRLNoteTrigger, 0);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(status, 0);
    RLRelease(source);
}

/* An object that another thread makes invalid at the moment of a fork. */
static int may_invalidate;
static void *invalidated;
static void (*invalidate)(void *object);
static void invalidate_socket(void *object) { RLSocketInvalidate(object); }
static void invalidate_descriptor(void *object) { RLFileDescriptorInvalidate(object); }
static void invalidate_when_told(void *unused) {
    (void)unused;
    for (;;) {
        int told = __atomic_load_n(&may_invalidate, __ATOMIC_SEQ_CST);
        if (told < 0) return;
        if (told == 0) continue;
        invalidate(invalidated);
        __atomic_store_n(&may_invalidate, 0, __ATOMIC_SEQ_CST);
    }
}
static void do_nothing_for_socket(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)socket, (void)type, (void)address, (void)data, (void)info;
}
static void do_nothing_for_descriptor(RLFileDescriptorRef file, RLOptionFlags types, void *info) { (void)file, (void)types, (void)info; }

static void descriptors_of_invalid_objects(bool of_sockets) {
    invalidate = of_sockets ? invalidate_socket : invalidate_descriptor;
    Thread *thread = thread_start(invalidate_when_told, NULL);
    int left_open = 0;
    for (int i = 0; i < 600; i++) {
        int ends[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        invalidated = of_sockets ? (void *)RLSocketCreateWithNative(ends[0], kRLSocketReadCallBack, do_nothing_for_socket, NULL)
                                 : (void *)RLFileDescriptorCreate(ends[0], true, do_nothing_for_descriptor, NULL);
        RLSourceRef source = of_sockets ? RLSocketCreateRunLoopSource(invalidated, 0) : RLFileDescriptorCreateRunLoopSource(invalidated, 0);
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        RLRelease(source);
        __atomic_store_n(&may_invalidate, 1, __ATOMIC_SEQ_CST);
        for (volatile int pause = 0; pause < i % 100 * 4; pause++) continue;
        pid_t child = fork();
        if (child == 0) {
            invalidate(invalidated);
            _exit(fcntl(ends[0], F_GETFD) >= 0);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status));
        left_open += WEXITSTATUS(status);
        while (__atomic_load_n(&may_invalidate, __ATOMIC_SEQ_CST) != 0) sched_yield();
        RLRelease(invalidated);
        close(ends[1]);
    }
    __atomic_store_n(&may_invalidate, -1, __ATOMIC_SEQ_CST);
    thread_join(thread);
    /* One is left open where the fork comes right before the system call. */
    ck_assert_int_le(left_open, 1);
}

RL_TEST(an_invalid_socket_is_closed_in_the_child, "S-SOCK-10 S-FORK-3",
        "The descriptor of a socket that another thread was making invalid at the fork is closed in the child") {
    descriptors_of_invalid_objects(true);
}

RL_TEST(an_invalid_descriptor_object_is_closed_in_the_child, "S-FD-11 S-FORK-3",
        "The descriptor of a descriptor object that another thread was making invalid at the fork is closed in the child") {
    descriptors_of_invalid_objects(false);
}

/* A close that has been made, after which another file of the program's got the number. */
static int closed_number;
static bool give_number_to_another(long number, const long argument[6], long *result) {
    if (number != SYS_close || argument[0] != closed_number || !__atomic_exchange_n(&is_ending, false, __ATOMIC_SEQ_CST)) return false;
    *result = system_call(number, argument);
    ck_assert_int_eq(eventfd(0, EFD_CLOEXEC), closed_number);
    gate_open(&cancelling);
    gate_wait(&go_on);
    return true;
}
static void find_number_open(void *unused) {
    (void)unused;
    ck_assert_int_ge(fcntl(closed_number, F_GETFD), 0);
}
static void invalidate_in_thread(void *unused) {
    (void)unused;
    invalidate(invalidated);
}

RL_TEST(a_number_that_is_another_files_by_now, "S-SOCK-13 S-FORK-3 S-FD-11",
        "In the child a number whose file another thread has just closed, and that is another such file's by now, stays open") {
    for (int of_sockets = 0; of_sockets < 2; of_sockets++) {
        cancelling = go_on = (Gate)GATE_INITIALIZER;
        closed_number = eventfd(0, EFD_CLOEXEC);
        invalidate = of_sockets ? invalidate_socket : invalidate_descriptor;
        invalidated = of_sockets ? (void *)RLSocketCreateWithNative(closed_number, kRLSocketReadCallBack, do_nothing_for_socket, NULL)
                                 : (void *)RLFileDescriptorCreate(closed_number, true, do_nothing_for_descriptor, NULL);
        is_ending = true;
        hook_system_calls(give_number_to_another);
        Thread *thread = thread_start(invalidate_in_thread, NULL);
        gate_wait(&cancelling);
        ChildResult child = run_child(find_number_open, NULL);
        gate_open(&go_on);
        thread_join(thread);
        hook_system_calls(NULL);
        ck_assert_msg(child.status == 0, "%s", child.output);
        RLRelease(invalidated);
        close(closed_number);
    }
}

/* The child of the fork comes to close a socket after the parent has closed it. */
static pid_t parent;
static Gate has_source = GATE_INITIALIZER;
static int to_parent[2], to_child[2];
static void end_after_parent(void) {
    char byte = 0;
    if (write(to_parent[1], &byte, 1) != 1 || read(to_child[0], &byte, 1) != 1) _exit(9);
}
static bool stop_when_invalid(long number, const long argument[6], long *result) {
    (void)result;
    if (getpid() != parent) {
        if ((number == SYS_close || number == SYS_getsockopt) && argument[0] == closed_number && __atomic_exchange_n(&may_invalidate, 0, __ATOMIC_SEQ_CST))
            end_after_parent();
    } else if (is_the_ending_one && !RLSocketIsValid(invalidated) && __atomic_exchange_n(&is_ending, false, __ATOMIC_SEQ_CST)) {
        gate_open(&cancelling);
        gate_wait(&go_on);
    }
    return false;
}
static void wait_for_socket(LoopThread *self) {
    (void)self;
    RLSourceRef source = RLSocketCreateRunLoopSource(invalidated, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    gate_open(&has_source);
    expect_run(kRLDefaultMode, 1e6, false, Finished);
}
static void invalidate_as_ending(void *unused) {
    is_the_ending_one = true;
    invalidate_in_thread(unused);
}

RL_TEST(a_lingering_socket_does_not_hold_up_the_child, "S-FORK-1 S-FORK-3 S-SOCK-10",
        "The fork does not wait for what lingers in a socket that another thread was making invalid, though the child closes it last") {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    closed_number = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(closed_number, (struct sockaddr *)&address, length), 0);
    const int peer = accept(listener, NULL, NULL);
    static char bytes[1 << 20];
    while (send(closed_number, bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue;
    const struct linger linger = {1, 10000};
    ck_assert_int_eq(setsockopt(closed_number, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    make_pipe(to_parent);
    make_pipe(to_child);
    parent = getpid();
    may_invalidate = 1;
    is_ending = true;
    invalidate = invalidate_socket;
    invalidated = RLSocketCreateWithNative(closed_number, kRLSocketReadCallBack, do_nothing_for_socket, NULL);
    /* It is woken between the end of the socket and the close. */
    LoopThread waiting;
    loop_thread_start(&waiting, wait_for_socket, NULL);
    gate_wait(&has_source);
    wait_until_waiting(waiting.loop);
    hook_system_calls(stop_when_invalid);
    Thread *thread = thread_start(invalidate_as_ending, NULL);
    gate_wait(&cancelling);
    pid_t child = fork();
    if (child == 0) _exit(may_invalidate);
    char byte = 0;
    ck_assert_int_eq(read(to_parent[0], &byte, 1), 1);
    gate_open(&go_on);
    thread_join(thread);
    thread_join(waiting.thread);
    ck_assert_int_eq(write(to_child[1], &byte, 1), 1);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    hook_system_calls(NULL);
    RLRelease(invalidated);
    close(peer);
    close(listener);
}
