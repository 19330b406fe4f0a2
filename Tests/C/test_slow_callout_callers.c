/* SPDX-License-Identifier: MIT */
/* Slow callbacks: the thread that watches, the loop's and those that set it in the middle of each other, where they read the clock. */
#define _GNU_SOURCE
#include "support.h"

#include <semaphore.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_t own;
/* Done instead of the next reading of the clock by the loop's thread, and of the second by others. */
static void (*at_own_read)(void), (*at_second_read)(void);
static int reads;

int clock_gettime(clockid_t clock, struct timespec *time) {
    void (*action)(void) = NULL;
    if (pthread_equal(own, pthread_self()))
        action = __atomic_exchange_n(&at_own_read, NULL, __ATOMIC_SEQ_CST);
    else if (__atomic_load_n(&at_second_read, __ATOMIC_SEQ_CST) && __atomic_add_fetch(&reads, 1, __ATOMIC_SEQ_CST) == 2)
        action = at_second_read;
    if (action) action();
    return (int)syscall(SYS_clock_gettime, clock, time);
}

static void tell_nothing(const RLSlowCallout *callout, void *info) { (void)callout, (void)info; }

/* Before its first sleep the watching thread reads the clock in its search for what it has to tell, and then to know when it has to look
   again. */
static Gate looks = GATE_INITIALIZER, has_forked = GATE_INITIALIZER;
static void stay_in_look(void) {
    gate_open(&looks);
    gate_wait(&has_forked);
}
static void fork_in_look(Probe *self) {
    (void)self;
    gate_wait(&looks);
    pid_t child = fork();
    if (child == 0) {
        alarm(5);
        keep_alive(RLGetCurrent(), "child");
        RLRunInMode("child", 0, false);
        _exit(0);
    }
    gate_open(&has_forked);
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

RL_TEST(a_fork_in_the_middle_of_a_look, "S-SLOW-11 S-FORK-1",
        "The child of a fork that came while the watching thread looked at the loop goes on with its loop") {
    static Probe timer = {.action = fork_in_look};
    own = pthread_self();
    RLSetSlowCalloutHandler(RLGetCurrent(), 3600, tell_nothing, NULL, NULL);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    at_second_read = stay_in_look;
    expect_run(kRLDefaultMode, 10, false, Finished);
}

/* Of another loop's callback, which is told as often as that. */
static sem_t told;
static void count_told(const RLSlowCallout *callout, void *info) {
    (void)callout, (void)info;
    sem_post(&told);
}
static void block_until_told(void *unused) {
    (void)unused;
    for (int i = 0; i < 3; i++)
        while (sem_wait(&told) != 0) {}
}
static void be_told(void *unused) {
    (void)unused;
    RLSetSlowCalloutHandler(RLGetCurrent(), 0.001, count_told, NULL, NULL);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, block_until_told, NULL, NULL);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, false);
}

static void end_watching(void *rl) { RLSetSlowCalloutHandler(rl, 0, NULL, NULL, NULL); }
static void end_it_elsewhere(void) { thread_join(thread_start(end_watching, (void *)RLGetCurrent())); }
static void end_it_at_next_read(void *unused) {
    (void)unused;
    at_own_read = end_it_elsewhere;
}
static void take_long(void *is_ended) {
    *(bool *)is_ended = RLGetSlowCalloutTime(RLGetCurrent()) == 0;
    /* The watching thread has looked at this one meanwhile. */
    thread_join(thread_start(be_told, NULL));
}

RL_TEST(an_end_while_a_callback_begins, "S-SLOW-1", "A callback is not told that begins while another thread ends the watching") {
    bool is_ended = false;
    own = pthread_self();
    sem_init(&told, 0, 0);
    log_capture();
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLSetSlowCalloutHandler(RLGetCurrent(), 0.001, tell_nothing, NULL, NULL);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, end_it_at_next_read, NULL, NULL);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, take_long, &is_ended, NULL);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert(is_ended);
    ck_assert_str_eq(log_text(), "");
}

/* On the stack that the callback had. */
__attribute__((noinline)) static void use_stack(void *unused) {
    (void)unused;
    volatile char much[1 << 15];
    for (size_t i = 0; i < sizeof much; i++) much[i] = 0x5a;
    /* The watching thread has looked at this one's loop, too. */
    thread_join(thread_start(be_told, NULL));
    for (size_t i = 0; i < sizeof much; i++) ck_assert_int_eq(much[i], 0x5a);
}
static void end_thread(void *unused) {
    (void)unused;
    pthread_exit(NULL);
}
static void watch_and_end(void *unused) {
    (void)unused;
    RLSetSlowCalloutHandler(RLGetCurrent(), 0.001, tell_nothing, NULL, NULL);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, end_thread, NULL, NULL);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    pthread_cleanup_push(use_stack, NULL);
    RLRunInMode(kRLDefaultMode, 10, false);
    pthread_cleanup_pop(0);
}

RL_TEST(a_cleanup_on_the_stack_of_an_ended_callback, "S-SLOW-11 S-LOOP-19",
        "A cleanup handler takes long on the stack of the callback that ended its thread: nothing is read from there") {
    sem_init(&told, 0, 0);
    thread_join(thread_start(watch_and_end, NULL));
}

/* Callbacks that compute longer than allowed, again and again. */
static bool stops_computing;
static void ignore_slow_callout(const RLSlowCallout *callout, void *info) { (void)callout, (void)info; }
static void compute(void *unused) {
    (void)unused;
    const double end = monotonic_now() + 0.0025;
    while (monotonic_now() < end) continue;
}
static void compute_until_told(LoopThread *self) {
    RLSetSlowCalloutHandler(self->loop, 0.001, ignore_slow_callout, NULL, NULL);
    while (!__atomic_load_n(&stops_computing, __ATOMIC_SEQ_CST)) {
        RLPerformFunction(self->loop, kRLDefaultMode, compute, NULL, NULL);
        RLRunInMode(kRLDefaultMode, 0, false);
    }
}

RL_TEST(no_child_keeps_the_handler, "S-SLOW-12", "In the child of a fork by a thread that is not asked SIGURG has its default action, also where a question ends during the fork") {
    LoopThread thread;
    loop_thread_start(&thread, compute_until_told, NULL);
    for (int i = 0; i < 1000; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            struct sigaction action;
            sigaction(SIGURG, NULL, &action);
            _exit(action.sa_handler != SIG_DFL);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
    }
    __atomic_store_n(&stops_computing, true, __ATOMIC_SEQ_CST);
    thread_join(thread.thread);
}
