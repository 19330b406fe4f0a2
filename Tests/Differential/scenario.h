/* SPDX-License-Identifier: MIT */
/* What the scenarios share. Each scenario is one function, written once in RL names and run by two
 * programs, one over CoreFoundation and one over librunloop, in a process and on a thread of its own; one
 * whose name begins with "main_" runs on the main thread of its process.
 * It says what happens by words; the words of a scenario, in their order, are its trace.
 *
 *     SCENARIO(missing_mode, "S-RUN-4", "Running a missing mode is Finished at once.") {
 *         observe("", D);
 *         run("missing", 1, false);
 *     }
 *
 * A trace holds no time and nothing that depends on one: a scenario waits for an event, or makes a
 * timer overdue before it runs the loop.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <math.h>
#include <runloop/runloop.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct Scenario {
    const char *name;
    const char *rules;
    const char *sentence;
    const char *overCF; /* the trace to expect there; NULL: whatever the other program says */
    const char *overRL;
    void (*body)(void);
    struct Scenario *next;
} Scenario;

void scenario_register(Scenario *scenario);

#define SCENARIO_(id, rules, sentence, cf, rl)                                          \
    static void id##_body(void);                                                        \
    __attribute__((constructor)) static void id##_register(void) {                      \
        static Scenario scenario = {#id, rules, sentence, cf, rl, id##_body, NULL};     \
        scenario_register(&scenario);                                                   \
    }                                                                                   \
    static void id##_body(void)

/* Both programs must say the same. */
#define SCENARIO(id, rules, sentence) SCENARIO_(id, rules, sentence, NULL, NULL)
/* Both must say this. */
#define BOTH(id, rules, sentence, trace) SCENARIO_(id, rules, sentence, trace, trace)
/* The rule says that the two differ: CoreFoundation must say the first, librunloop the second. */
#define DIFFERS(id, rules, sentence, cf, rl) SCENARIO_(id, rules, sentence, cf, rl)

#define D kRLDefaultMode
#define COMMON kRLCommonModes

/* The loop of the scenario's thread. */
extern RLRunLoopRef loop;

typedef void (^Act)(void);

/* Adds a word to the trace. Any thread. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Adds "name=yes" or "name=no". */
void yes(const char *name, bool value);

/* What a context has besides the callback. */
enum {
    PLAIN = 0,
    COUNTED = 1,   /* retain and release say "retain:name" and "release:name" */
    SCHEDULED = 2, /* schedule and cancel say "+name@mode" and "-name@mode" */
    EQUATED = 4,   /* equal and hash compare names */
    SILENT = 8     /* the callback pointer is NULL */
};

/* Each creates an item whose callback says the name (NULL: nothing) and then does the act (may be
 * NULL). The item is in no loop; the scenario owns it and need not release it. */
RLSourceRef source(const char *name, Act act);
RLSourceRef source_with(const char *name, int options, RLIndex order, Act act);
RLSourceRef port(const char *name, int fd, Act act);
RLSourceRef port_with(const char *name, RLIndex order, int fd, Act act);
RLTimerRef timer(const char *name, double delay, double interval, Act act);
RLTimerRef timer_with(const char *name, int options, double delay, double interval, Act act);
RLObserverRef observer(const char *name, RLOptionFlags activities, RLIndex order, Act act);
RLObserverRef observer_with(const char *name, int options, RLOptionFlags activities, bool repeats,
                            RLIndex order, Act act);
/* Queues a function that says the name and does the act. */
void perform(const char *name, RLMode mode, Act act);
/* The same; the release of the function says "release:name". */
void perform_counted(const char *name, RLMode mode, Act act);

/* An observer of all activities in the mode that says E BT BS BW AW X, each after the prefix. */
RLObserverRef observe(const char *prefix, RLMode mode);
/* A source in the mode that nobody signals. */
RLSourceRef keep(RLMode mode);
/* Timers so far off that they only keep a mode from being empty. */
#define FAR 100000.0

/* Runs the loop and says the result: =Finished =Stopped =TimedOut =HandledSource. */
void run(RLMode mode, double seconds, bool h);
/* The modes of the loop, in alphabetical order: "[a,b]". */
void say_modes(void);
/* The text that stands for a mode in a trace. */
const char *mode_word(RLMode mode);

RLAbsoluteTime in(double seconds);
/* Sleeps at least so long: to make a timer overdue, or to be a callback that takes time. */
void take(double seconds);

/* Does the act on another thread and waits for its end. */
void elsewhere(Act act);
/* Does the act on another thread as soon as the loop waits; the scenario ends after it. */
void when_waiting(Act act);
/* The same, for the nth (1 ...) time that the loop is about to wait in the mode. It uses an observer
 * of the mode. */
void when_waiting_again(RLMode mode, int nth, Act act);

/* An event descriptor, ready or not; the bytes of a pipe. */
int event(unsigned count);
void post(int fd);
void make_pipe(int ends[2]);

#endif
