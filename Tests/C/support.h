/* SPDX-License-Identifier: MIT */
/*
 * What the C tests share: a trace of callbacks, probes that record into it, threads and gates, and
 * the macros by which a test says what it proves.
 *
 * A test program is one file of RL_TEST cases plus support*.c, which hold main(). Check runs each
 * case in a process of its own, so the trace, the log and the counters are fresh in every case.
 *
 *     RL_TEST(missing_mode_is_finished, "S-RUN-4",
 *             "Running a missing mode returns Finished at once and calls no observer") {
 *         observe(RLGetCurrent(), kRLDefaultMode);
 *         expect_run("missing", 1, false, Finished);
 *         expect_trace("");
 *     }
 *
 * The program takes --list (print every case, its rules and its sentence), --spin SECONDS (every
 * RL_TEST loop gets that spin limit) or --alone (each case in a program started for it, which never forked),
 * and names of cases to run. A case may take 60 seconds, times
 * CK_TIMEOUT_MULTIPLIER of the environment.
 */
#ifndef RUNLOOP_TESTS_SUPPORT_H
#define RUNLOOP_TESTS_SUPPORT_H

#include <runloop/runloop.h>

#include <check.h>
#include <pthread.h>
#include <stdbool.h>

/* Which sanitizer this is built with, for the few cases that cannot run with one. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WITH_THREAD_SANITIZER 1
#endif
#if __has_feature(address_sanitizer)
#define WITH_ADDRESS_SANITIZER 1
#endif
#endif

/* Cases */

typedef struct TestCase {
    const char *name;
    const char *rules;
    const char *sentence;
    const TTest *test;
    struct TestCase *next;
} TestCase;

void test_register(TestCase *test_case);
void test_on_fresh_thread(void (*body)(void));

/*
 * What an assertion of Check calls when it fails. In a program that does not fork, Check's own function goes back to the main thread's
 * stack by longjmp(3), also from the thread of a case, which ends the program with a message about the jump in place of the assertion's.
 */
_Noreturn void case_failed(const char *file, int line, const char *assertion, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#define _ck_assert_failed case_failed
/*
 * What an assertion calls when it holds. Check writes down where, under a lock of its own; in the child of a fork that another thread
 * made meanwhile that lock would stay locked.
 */
void case_passed(const char *file, int line);
#define _mark_point case_passed

#define RL_TEST_WITH_(name, rules, sentence, invoke)                                   \
    static void name##_body(void);                                                     \
    START_TEST(name) { invoke; }                                                       \
    END_TEST                                                                           \
    __attribute__((constructor)) static void name##_register(void) {                   \
        static TestCase test_case = {#name, rules, sentence, NULL, NULL};              \
        test_case.test = name;                                                         \
        test_register(&test_case);                                                     \
    }                                                                                  \
    static void name##_body(void)

/* A case that runs on a new thread, and so with a new loop; the main thread waits for it. */
#define RL_TEST(name, rules, sentence) \
    RL_TEST_WITH_(name, rules, sentence, test_on_fresh_thread(name##_body))

/* A case that runs on the main thread of its process. */
#define RL_MAIN_TEST(name, rules, sentence) RL_TEST_WITH_(name, rules, sentence, name##_body())

/* The trace: words in the order they were recorded by any thread, with one space between them. */

void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Gives the trace so far and empties it. The text is valid until the next call on this thread. */
const char *trace_take(void);
/* How often a word was recorded since the trace was last taken. */
int trace_count(const char *word);

#define expect_trace(expected) ck_assert_str_eq(trace_take(), expected)

/* Runs */

const char *result_name(RLRunResult result);

/* expect_run(mode, seconds, h, TimedOut): a failure prints both results by name. */
#define expect_run(mode, seconds, h, expected) \
    ck_assert_str_eq(result_name(RLRunInMode(mode, seconds, h)), #expected)

/* Runs until the loop waits and is stopped there: what comes before the wait takes as long as it takes. */
void expect_run_to_wait(RLMode mode);

/* Probes: an object of any kind whose callback records a word and then does something. */

typedef struct Probe Probe;
struct Probe {
    const char *name;            /* the word its callback records; NULL records nothing */
    void (*action)(Probe *self); /* called after the word was recorded; may be NULL */
    void *data;                  /* for the action */
    RLMode mode;                 /* for the action */
    long value;                  /* for the action */
    bool counted;                /* the context gets retain and release callbacks */
    bool traced;                 /* schedule and cancel record "+name:mode" and "-name:mode" */
    int fd;                      /* the port of a probe_port source */
    RLRunLoopRef loop;           /* filled in at creation: the loop of the creating thread */
    RLSourceRef source;
    RLTimerRef timer;
    RLObserverRef observer;
    RLActivity activity; /* what the observer callback was called for last */
    pthread_t thread;    /* where the callback (also schedule, cancel) ran last */
    int calls, retains, releases, schedules, cancels; /* read with count_of from other threads */
};

int count_of(const int *counter);

/* Each creates an object for the probe, stores it there and returns it; the caller owns it. */
RLSourceRef probe_source(Probe *probe, RLIndex order);
RLSourceRef probe_port(Probe *probe, int fd);
RLTimerRef probe_timer(Probe *probe, RLAbsoluteTime date, RLTimeInterval interval);
RLObserverRef probe_observer(Probe *probe, RLOptionFlags activities, bool repeats, RLIndex order);
/* Queues the probe as a function; `releases` counts the calls of its release. */
void probe_perform(Probe *probe, RLRunLoopRef loop, RLMode mode);
void probe_perform_in_modes(Probe *probe, RLRunLoopRef loop, const RLMode *modes, RLIndex count);

/* Create, add to the current loop in the mode, and leave the only reference to the loop. */
RLSourceRef add_source(Probe *probe, RLMode mode);
RLSourceRef add_port(Probe *probe, int fd, RLMode mode);
RLTimerRef add_timer(Probe *probe, RLAbsoluteTime date, RLTimeInterval interval, RLMode mode);
RLObserverRef add_observer(Probe *probe, RLOptionFlags activities, RLMode mode);

/* Actions: stop, or wake, the loop of the probe's creator. */
void action_stop(Probe *self);
void action_wake_up(Probe *self);
/* An action: takes `value` milliseconds. */
void action_take_time(Probe *self);

/* An observer of all activities that records E BT BS BW AW X. */
RLObserverRef observe(RLRunLoopRef loop, RLMode mode);
/* The same with a prefix: observe_as(loop, mode, "n.") records n.E n.BT and so on. */
RLObserverRef observe_as(RLRunLoopRef loop, RLMode mode, const char *prefix);
/* The word for one activity. */
const char *activity_name(RLActivity activity);

/* A source that is never signalled: it makes the mode non-empty and does nothing. */
RLSourceRef keep_alive(RLRunLoopRef loop, RLMode mode);

/* Time */

double monotonic_now(void);
/* A date so many seconds from now; negative for the past. */
RLAbsoluteTime date_in(double seconds);
/* Sleeps at least so long; only for callbacks that are to take time. */
void take_time(double seconds);
/* A date no test lives to see. */
#define FAR_FUTURE date_in(100000)

/* Threads */

typedef struct Thread Thread;
Thread *thread_start(void (*function)(void *argument), void *argument);
/* Waits for the end of the thread and frees the object. */
void thread_join(Thread *thread);
/* Ends the calling thread by pthread_cancel(3). */
void thread_cancel_now(void);
/* What the calling thread allocates from now on may be lost: for calls that a rule lets lose memory. */
void thread_may_lose_memory(void);

/* A gate is shut until it is opened and then stays open. */
typedef struct Gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
} Gate;
#define GATE_INITIALIZER {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false}
void gate_open(Gate *gate);
void gate_wait(Gate *gate);
bool gate_is_open(Gate *gate);

/*
 * Returns once RLIsWaiting(loop) was seen true. There is no event to wait for, hence a loop that
 * yields. A loop that only polls can be seen waiting for an instant, so use it on waiting runs.
 */
void wait_until_waiting(RLRunLoopRef loop);
/* Returns once the counter has reached the value; yields like wait_until_waiting. */
void wait_until_count(const int *counter, int value);

/* Starts a thread that calls function(argument) once the loop is seen waiting, or is joined by the loop's own thread. */
Thread *when_waiting(RLRunLoopRef loop, void (*function)(void *argument), void *argument);

/* What such a thread usually does. */
void call_stop(void *loop);
void call_wake_up(void *loop);
/* Signals the source of the probe and wakes the probe's loop. */
void call_signal_and_wake_up(void *probe);
/*
 * Whether the loop is seen waiting all the time for so many seconds. It shows that something did
 * not end a wait, as far as a test can.
 */
bool stays_waiting(RLRunLoopRef loop, double seconds);

/* Another thread with a loop: body runs on it after `loop` was set. End it with thread_join. */
typedef struct LoopThread {
    RLRunLoopRef loop;
    Thread *thread;
    Gate ready;
    void (*body)(struct LoopThread *self);
    void *data;
} LoopThread;
/* Returns once `loop` is set. The loop is not retained for the caller. */
void loop_thread_start(LoopThread *loop_thread, void (*body)(LoopThread *self), void *data);

/* Descriptors */

void make_pipe(int ends[2]); /* [0] is for reading */
int make_eventfd(void);
void eventfd_signal(int fd);
void write_byte(int fd);
void read_byte(int fd);

typedef struct DescriptorSet {
    bool open[1024];
} DescriptorSet;
int count_descriptors(void);
DescriptorSet descriptors_now(void);

/* The library's log lines */

void log_capture(void);
/* All lines since log_capture, each ended by a newline. */
const char *log_text(void);
int log_count(void);

/* A child process: calls function(argument) and then _exit(0), unless it ends otherwise before. */

typedef struct ChildResult {
    int status;        /* as from waitpid */
    char output[4096]; /* what it wrote to standard error */
} ChildResult;
ChildResult run_child(void (*function)(void *argument), void *argument);

/* Makes the process the program anew, with an argument or NULL; returns if that fails. Under an emulator, which RL_EMULATOR names with its
   arguments, the program is started by that: the kernel knows no program of another processor. */
void become_program(const char *argument);

/* True, with a line that says why, under an emulator, which does not do what a case asks of the kernel: the case is left out. */
bool is_left_out_by_emulator(const char *why);
/* The same for what the thread sanitizer does not survive, or does itself in place of the kernel. */
bool is_left_out_by_thread_sanitizer(const char *why);

#endif
