/* SPDX-License-Identifier: MIT */
/* The program's own trace meets each instruction by which the library begins or ends one for another process (stepping.h). */
#define _GNU_SOURCE
#include "stepping.h"
#include "support_share.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#if defined(__x86_64__) && !defined(WITH_THREAD_SANITIZER) && !defined(WITH_ADDRESS_SANITIZER)

static char path[64];
static int connection;
static pthread_t program;

/* The service's thread is stepped from the moment it has a request until it answers. It is held up after `steps` instructions, while the program
 * starts its trace, and, if that is done, after `second_steps` more, while the program stops it. */
static long steps, second_steps;
static bool was_held;

/* What the program does meanwhile, until it returns or has slept a few times: then it waits for the thread that is held up. */
enum { NAPS = 3 };
static int naps;
static bool waits;
static void (*meeting)(void);
static sem_t done;

static bool has_started, has_stopped;
static void start_own(void) { has_started = RLTraceStart(path, 1); }
static void stop_own(void) {
    RLTraceStop();
    has_stopped = true;
}
static void run_program(void *unused) {
    (void)unused;
    program = pthread_self();
    while (sem_wait(&question) == 0 && !is_over) {
        naps = 0;
        meeting();
        if (naps < NAPS) sem_post(&answer);
        sem_post(&done);
    }
}
static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0) {}
}
static void meet(void (*call)(void)) {
    meeting = call;
    sem_post(&question);
    wait_for(&answer);
    waits = naps >= NAPS;
    if (!waits) wait_for(&done);
}
static void hold_up_again(void) { meet(stop_own); }
static void hold_up(void) {
    was_held = true;
    meet(start_own);
    if (waits) return;
    steps_left = second_steps;
    at_step = hold_up_again;
}
static void look_at_call(long number) {
    static __thread bool is_stepped;
    if (pthread_equal(pthread_self(), program)) {
        if (number == SYS_clock_nanosleep && ++naps == NAPS) sem_post(&answer);
    } else if (number == SYS_recvmsg && __atomic_load_n(&steps, __ATOMIC_ACQUIRE) > 0) {
        const long first = steps;
        sigset_t trap;
        sigemptyset(&trap), sigaddset(&trap, SIGTRAP);
        pthread_sigmask(SIG_UNBLOCK, &trap, NULL);
        steps = 0;
        is_stepped = true;
        begin_steps(first, hold_up);
    } else if (number == SYS_sendmsg && is_stepped) {
        end_steps();
        is_stepped = false;
    }
}

static void ask(const char *request) {
    static char part[70000];
    ck_assert(share_send(connection, request));
    do {
        struct pollfd entry = {connection, POLLIN, 0};
        ck_assert_int_eq(poll(&entry, 1, 30000), 1);
        ck_assert_int_gt(recv(connection, part, sizeof part, 0), 0);
    } while (part[0] != '.');
}

/* One request of the peer's, of which an instruction is met. Whether the program had to wait for the service. */
static bool meet_request(const char *request, long first, long second) {
    was_held = waits = has_started = has_stopped = false;
    second_steps = second;
    __atomic_store_n(&steps, first, __ATOMIC_RELEASE);
    ask(request);
    const bool had_to_wait = waits;
    if (had_to_wait) wait_for(&done);
    ck_assert_msg(!was_held || has_started, "no trace was started after %ld instructions", first);
    ck_assert_msg(RLIsTracing() == (was_held && !has_stopped), "after %ld and %ld instructions the trace is %s", first, second,
                  RLIsTracing() ? "on" : "off");
    RLTraceStop();
    ck_assert(!RLIsTracing());
    ask("trace stop");
    return had_to_wait;
}

static Thread *begin(void) {
    share_alone();
    snprintf(path, sizeof path, "%s/trace", getenv("XDG_RUNTIME_DIR"));
    ck_assert(RLSetShared(true));
    connection = share_connect_soon(0);
    sem_init(&question, 0, 0), sem_init(&answer, 0, 0), sem_init(&done, 0, 0);
    Thread *thread = thread_start(run_program, NULL);
    after_call = look_at_call;
    return thread;
}
static void end(Thread *thread) {
    is_over = true;
    sem_post(&question);
    thread_join(thread);
    close(connection);
    remove(path);
}

/* How many instructions come before the one by which the service takes the trace: from there on the program has to wait for it. What comes much later,
 * and is thousands of instructions, is not stepped. */
static long find_claim(bool (*is_taken)(long)) {
    long before = 0, after = 32;
    while (!is_taken(after)) {
        ck_assert(was_held);
        before = after;
        after *= 2;
    }
    while (after - before > 1) {
        const long middle = (before + after) / 2;
        if (is_taken(middle)) after = middle;
        else before = middle;
    }
    return after;
}

static bool is_taken_by_start(long instructions) { return meet_request("trace start", instructions, 0); }

RL_TEST(the_program_starts_while_a_lent_trace_begins, "S-OUT-12 S-TRC-1",
        "At each instruction by which a trace for another process begins, the program's RLTraceStart starts its own") {
    Thread *thread = begin();
    const long claim = find_claim(is_taken_by_start);
    for (long instructions = claim - 16; instructions < claim + 16; instructions++) is_taken_by_start(instructions);
    end(thread);
}

static bool is_taken_by_stop(long instructions) {
    ask("trace start");
    return meet_request("trace stop", instructions, 0);
}

RL_TEST(the_program_stops_while_a_lent_trace_ends, "S-OUT-12 S-TRC-1",
        "The program starts a trace at each instruction by which a trace for another process ends, and stops it at each later one: RLTraceStop stops it") {
    Thread *thread = begin();
    const long claim = find_claim(is_taken_by_stop);
    for (long instructions = claim - 8; instructions < claim; instructions++) {
        for (long more = 1; more <= 10; more++) {
            ask("trace start");
            meet_request("trace stop", instructions, more);
        }
    }
    end(thread);
}

#endif
