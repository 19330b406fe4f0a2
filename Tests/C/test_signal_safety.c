/* SPDX-License-Identifier: MIT */
/* RLSourceSignal, RLWakeUp and RLStop in signal handlers (S-WAKE-12). */
#define _GNU_SOURCE
#include "support.h"

#include <math.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

/* What the handler does; set before the signal is sent. */
static RLRunLoopRef loop_of_handler;
static RLSourceRef source_of_handler;
static bool handler_stops;
static int handled;
static pthread_t interrupted;

static void handler(int number) {
    (void)number;
    if (source_of_handler) RLSourceSignal(source_of_handler);
    RLWakeUp(loop_of_handler);
    if (handler_stops) RLStop(loop_of_handler);
    __atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST);
}

static void install(int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    interrupted = pthread_self();
    loop_of_handler = RLGetCurrent();
}

static void interrupt(void *unused) {
    (void)unused;
    ck_assert_int_eq(pthread_kill(interrupted, SIGUSR1), 0);
}

/* A run that nothing but the handler can end, while it waits. */
static void handler_ends_a_wait(void) {
    Probe source = {.name = "s"};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    source_of_handler = source.source;
    Thread *thread = when_waiting(loop_of_handler, interrupt, NULL);
    expect_run(kRLDefaultMode, INFINITY, true, HandledSource);
    thread_join(thread);
    expect_trace("E BT BS BW AW BT BS s X");
    source_of_handler = NULL;
    handler_stops = true;
    thread = when_waiting(loop_of_handler, interrupt, NULL);
    expect_run(kRLDefaultMode, INFINITY, true, Stopped);
    thread_join(thread);
    handler_stops = false;
    expect_trace("E BT BS BW AW X");
}

RL_TEST(handler_on_the_waiting_thread, "S-WAKE-12 S-WAKE-8",
        "A signal handler on the waiting thread itself can signal, wake and stop its loop") {
    install(0);
    handler_ends_a_wait();
}

RL_TEST(handler_on_a_thread_waiting_on_ports, "S-WAKE-12",
        "The same while the loop waits on a port") {
    Probe port = {0};
    install(0);
    add_port(&port, make_eventfd(), kRLDefaultMode);
    handler_ends_a_wait();
}

static void interrupt_oneself(Probe *self) {
    if (self->calls == 1) raise(SIGUSR1);
}

RL_TEST(handler_inside_a_callback, "S-WAKE-12",
        "A signal handler that interrupts a callback of the loop can signal and wake it") {
    Probe source = {.name = "s"}, observer = {.action = interrupt_oneself};
    install(0);
    observe(RLGetCurrent(), kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    add_observer(&observer, kRLBeforeWaiting, kRLDefaultMode);
    source_of_handler = source.source;
    expect_run(kRLDefaultMode, INFINITY, true, HandledSource);
    expect_trace("E BT BS BW AW BT BS s X");
}

static void interrupt_many_times(void *rounds) {
    for (int round = 1; round <= *(int *)rounds; round++) {
        interrupt(NULL);
        wait_until_count(&handled, round);
    }
}

static void stop_at_last(Probe *self) {
    if (count_of(&handled) >= self->value) RLStop(self->loop);
}

/*
 * The handler comes at any instruction of the library, also where a lock is held: a call that is
 * not async-signal-safe would block on it sooner or later.
 */
RL_TEST(handler_at_any_time, "S-WAKE-12",
        "Hundreds of signals while the interrupted thread adds, removes, queues and runs block "
        "nothing, and the last signal performs") {
    int rounds = 500;
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.action = stop_at_last, .value = rounds}, function = {0};
    static Probe others[20];
    install(0);
    add_source(&source, kRLDefaultMode);
    source_of_handler = source.source;
    for (int i = 0; i < 20; i++) probe_source(&others[i], i);
    Thread *thread = thread_start(interrupt_many_times, &rounds);
    while (count_of(&handled) < rounds) {
        for (int i = 0; i < 20; i++) RLAddSource(loop, others[i].source, kRLDefaultMode);
        probe_perform(&function, loop, kRLDefaultMode);
        expect_run(kRLDefaultMode, 0, false, TimedOut);
        for (int i = 0; i < 20; i++) RLRemoveSource(loop, others[i].source, kRLDefaultMode);
        Probe timer = {0};
        add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
        RLTimerInvalidate(timer.timer);
    }
    thread_join(thread);
    int before = source.calls;
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, INFINITY, false, Stopped);
    ck_assert_int_eq(source.calls, before + 1);
    ck_assert_int_eq(function.calls, function.releases);
}

/* The sanitizers need stack of their own. */
#if !defined(WITH_THREAD_SANITIZER) && !defined(WITH_ADDRESS_SANITIZER)

/* Room for the handler's own frame beside the 4 KiB of the calls. */
enum { own_frame = 256 };

RL_TEST(handler_with_little_stack, "S-WAKE-12",
        "The three calls need at most 4 KiB of stack: below that is a page that may not be "
        "touched") {
    long page = sysconf(_SC_PAGESIZE);
    unsigned long frame = getauxval(AT_MINSIGSTKSZ);
    if (frame == 0) frame = MINSIGSTKSZ;
    size_t size = frame + 4096 + own_frame;
    size_t pages = (size + (size_t)page - 1) / (size_t)page;
    char *memory = mmap(NULL, (pages + 1) * (size_t)page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    ck_assert_int_eq(mprotect(memory, (size_t)page, PROT_NONE), 0);
    stack_t stack = {.ss_sp = memory + page, .ss_size = size};
    /* The first call of a function may run the dynamic linker, whose stack is not the library's. */
    Probe source = {0}, port = {0};
    install(0);
    add_source(&source, "first calls");
    add_port(&port, make_eventfd(), "first calls");
    source_of_handler = source.source;
    for (int with_port = 1; with_port >= 0; with_port--) {
        Thread *first = when_waiting(loop_of_handler, interrupt, NULL);
        expect_run("first calls", INFINITY, true, HandledSource);
        thread_join(first);
        if (with_port) RLSourceInvalidate(port.source);
    }
    handler(SIGUSR1);
    RLStop(loop_of_handler);
    ck_assert_int_eq(sigaltstack(&stack, NULL), 0);
    install(SA_ONSTACK);
    handler_ends_a_wait();
    add_port(&port, make_eventfd(), kRLDefaultMode);
    Thread *thread = when_waiting(loop_of_handler, interrupt, NULL);
    handler_stops = true;
    expect_run(kRLDefaultMode, INFINITY, true, Stopped);
    thread_join(thread);
}

#endif
