/* SPDX-License-Identifier: MIT */
/* See scenario.h. Without arguments the program runs every scenario in a new process of itself and
 * prints one line for each, with tabs between: name, rules, sentence, expected over CoreFoundation,
 * expected over librunloop, trace. With --part I N it does so for each N-th scenario from the I-th on. With a name it runs that
 * scenario and prints the trace. */
#define _GNU_SOURCE
#include "scenario.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

RLRunLoopRef loop;

static Scenario *first, **last = &first;

void scenario_register(Scenario *scenario) {
    *last = scenario;
    last = &scenario->next;
}

/* Trace. A word is written at once, so that it is not lost if the process dies. */

static pthread_mutex_t traceLock = PTHREAD_MUTEX_INITIALIZER;
static bool traceBegun; /* guarded by traceLock */

void say(const char *format, ...) {
    char word[1000] = " ";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(word + 1, sizeof word - 1, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&traceLock);
    const char *text = traceBegun ? word : word + 1;
    traceBegun = true;
    if (write(STDOUT_FILENO, text, strlen(text)) < 0) abort();
    pthread_mutex_unlock(&traceLock);
}

void yes(const char *name, bool value) { say("%s=%s", name, value ? "yes" : "no"); }

/* Time */

RLAbsoluteTime in(double seconds) { return RLAbsoluteTimeGetCurrent() + seconds; }

void take(double seconds) {
    struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    while (nanosleep(&t, &t)) {
    }
}

/* Items. A probe is the info of a context; it lives for ever. */

typedef struct Probe {
    const char *name;
    Act act;
    int fd;
} Probe;

static Probe *make_probe(const char *name, Act act) {
    Probe *p = calloc(1, sizeof *p);
    p->name = name;
    p->act = act ? (Act)_Block_copy((const void *)act) : NULL;
    p->fd = -1;
    return p;
}

static void called(Probe *p) {
    if (p->name) say("%s", p->name);
    if (p->act) p->act();
}

static const void *probe_retain(const void *info) {
    say("retain:%s", ((const Probe *)info)->name);
    return info;
}
static void probe_release(const void *info) { say("release:%s", ((const Probe *)info)->name); }
static void probe_release_performed(void *info) { probe_release(info); }
static bool probe_equal(const void *a, const void *b) {
    return strcmp(((const Probe *)a)->name, ((const Probe *)b)->name) == 0;
}
static RLHashCode probe_hash(const void *info) { return (RLHashCode)((const Probe *)info)->name[0]; }
static void probe_schedule(void *info, RLRunLoopRef rl, RLMode mode) {
    say("+%s@%s%s", ((Probe *)info)->name, rl == loop ? "" : "other:", mode_word(mode));
}
static void probe_cancel(void *info, RLRunLoopRef rl, RLMode mode) {
    say("-%s@%s%s", ((Probe *)info)->name, rl == loop ? "" : "other:", mode_word(mode));
}
static RLPort probe_port(void *info) { return ((Probe *)info)->fd; }
static void probe_perform(void *info) { called(info); }
static void probe_fire(RLTimerRef t, void *info) {
    (void)t;
    called(info);
}
static void probe_notice(RLObserverRef o, RLActivity activity, void *info) {
    (void)o;
    (void)activity;
    called(info);
}

RLSourceRef source_with(const char *name, int options, RLIndex order, Act act) {
    RLSourceContext c = {0, make_probe(name, act), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    if (options & COUNTED) c.retain = probe_retain, c.release = probe_release;
    if (options & SCHEDULED) c.schedule = probe_schedule, c.cancel = probe_cancel;
    if (options & EQUATED) c.equal = probe_equal, c.hash = probe_hash;
    if (!(options & SILENT)) c.perform = probe_perform;
    return RLSourceCreate(order, &c);
}

RLSourceRef source(const char *name, Act act) { return source_with(name, PLAIN, 0, act); }

RLSourceRef port_with(const char *name, RLIndex order, int fd, Act act) {
    Probe *p = make_probe(name, act);
    p->fd = fd;
    RLSourceContext1 c = {1, p, NULL, NULL, NULL, NULL, NULL, probe_port, probe_perform};
    return RLSourceCreate(order, (RLSourceContext *)&c);
}

RLSourceRef port(const char *name, int fd, Act act) { return port_with(name, 0, fd, act); }

RLTimerRef timer_with(const char *name, int options, double delay, double interval, Act act) {
    RLTimerContext c = {0, make_probe(name, act), NULL, NULL, NULL};
    if (options & COUNTED) c.retain = probe_retain, c.release = probe_release;
    return RLTimerCreate(in(delay), interval, 0, 0, options & SILENT ? NULL : probe_fire, &c);
}

RLTimerRef timer(const char *name, double delay, double interval, Act act) {
    return timer_with(name, PLAIN, delay, interval, act);
}

RLObserverRef observer_with(const char *name, int options, RLOptionFlags activities, bool repeats,
                            RLIndex order, Act act) {
    RLObserverContext c = {0, make_probe(name, act), NULL, NULL, NULL};
    if (options & COUNTED) c.retain = probe_retain, c.release = probe_release;
    return RLObserverCreate(activities, repeats, order, options & SILENT ? NULL : probe_notice, &c);
}

RLObserverRef observer(const char *name, RLOptionFlags activities, RLIndex order, Act act) {
    return observer_with(name, PLAIN, activities, true, order, act);
}

void perform(const char *name, RLMode mode, Act act) {
    RLPerformFunction(loop, mode, probe_perform, make_probe(name, act), NULL);
}

void perform_counted(const char *name, RLMode mode, Act act) {
    RLPerformFunction(loop, mode, probe_perform, make_probe(name, act), probe_release_performed);
}

static void observe_callback(RLObserverRef o, RLActivity activity, void *info) {
    (void)o;
    const char *word = activity == kRLEntry           ? "E"
                       : activity == kRLBeforeTimers  ? "BT"
                       : activity == kRLBeforeSources ? "BS"
                       : activity == kRLBeforeWaiting ? "BW"
                       : activity == kRLAfterWaiting  ? "AW"
                       : activity == kRLExit          ? "X"
                                                      : "several-activities";
    say("%s%s", (const char *)info, word);
}

RLObserverRef observe(const char *prefix, RLMode mode) {
    RLObserverContext c = {0, (void *)prefix, NULL, NULL, NULL};
    RLObserverRef o = RLObserverCreate(kRLAllActivities, true, 0, observe_callback, &c);
    RLAddObserver(loop, o, mode);
    return o;
}

RLSourceRef keep(RLMode mode) {
    RLSourceRef s = source("kept", NULL);
    RLAddSource(loop, s, mode);
    return s;
}

/* Runs and modes */

void run(RLMode mode, double seconds, bool h) {
    RLRunResult result = RLRunInMode(mode, seconds, h);
    say("%s", result == kRLRunFinished        ? "=Finished"
              : result == kRLRunStopped       ? "=Stopped"
              : result == kRLRunTimedOut      ? "=TimedOut"
              : result == kRLRunHandledSource ? "=HandledSource"
                                              : "=unknown");
}

const char *mode_word(RLMode mode) {
    return !mode                        ? "(none)"
           : !strcmp(mode, D)           ? "default"
           : !strcmp(mode, COMMON)      ? "common"
           : !strcmp(mode, "")          ? "(empty)"
                                        : mode;
}

static int compare_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void say_modes(void) {
    RLIndex count = 0;
    char **modes = RLCopyAllModes(loop, &count);
    for (RLIndex i = 0; i < count; i++) modes[i] = (char *)mode_word(modes[i]);
    qsort(modes, (size_t)count, sizeof *modes, compare_text);
    char text[500] = "";
    for (RLIndex i = 0; i < count; i++) {
        if (i) strcat(text, ",");
        strcat(text, modes[i]);
    }
    free(modes);
    say("[%s]", text);
}

/* Threads */

typedef struct Helper {
    Act act;
    bool waits;
    pthread_t thread;
    struct Helper *next;
} Helper;

static Helper *helpers; /* scenario's thread only */

static void *helper_main(void *argument) {
    Helper *h = argument;
    /* There is no event for the start of a wait. */
    while (h->waits && !RLIsWaiting(loop)) take(0.001);
    h->act();
    return NULL;
}

static Helper *helper_start(Act act, bool waits) {
    Helper *h = calloc(1, sizeof *h);
    h->act = (Act)_Block_copy((const void *)act);
    h->waits = waits;
    if (pthread_create(&h->thread, NULL, helper_main, h)) abort();
    return h;
}

void elsewhere(Act act) { pthread_join(helper_start(act, false)->thread, NULL); }

void when_waiting(Act act) {
    Helper *h = helper_start(act, true);
    h->next = helpers;
    helpers = h;
}

void when_waiting_again(RLMode mode, int nth, Act act) {
    __block int count = 0;
    act = (Act)_Block_copy((const void *)act);
    RLAddObserver(loop, observer(NULL, kRLBeforeWaiting, 1000, ^{
                      if (++count == nth) when_waiting(act);
                  }), mode);
}

/* Descriptors */

int event(unsigned count) { return eventfd(count, EFD_NONBLOCK | EFD_CLOEXEC); }

void post(int fd) {
    uint64_t one = 1;
    if (write(fd, &one, sizeof one) != sizeof one) abort();
}

void make_pipe(int ends[2]) {
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC)) abort();
}

/* Running the scenarios */

/* Scenarios keep what they make until the process ends, which the leak sanitizer asks about here. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }

static void *scenario_main(void *scenario) {
    loop = RLGetCurrent();
    ((Scenario *)scenario)->body();
    while (helpers) {
        pthread_join(helpers->thread, NULL);
        helpers = helpers->next;
    }
    return NULL;
}

static int run_one(const char *name) {
    Scenario *s = first;
    while (s && strcmp(s->name, name) != 0) s = s->next;
    if (!s) {
        fprintf(stderr, "There is no scenario %s.\n", name);
        return 2;
    }
    if (strncmp(name, "main_", 5) == 0) {
        scenario_main(s);
        return 0;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, scenario_main, s)) abort();
    pthread_join(thread, NULL);
    return 0;
}

/* The trace of the scenario, run by a process of its own; a process that died, or that hangs, has a
 * last word that begins with an exclamation mark. */
static void collect(const Scenario *s, unsigned limit, char *trace, size_t size) {
    int ends[2];
    if (pipe(ends)) abort();
    pid_t child = fork();
    if (child < 0) abort();
    if (child == 0) {
        struct rlimit noCore = {0, 0};
        setrlimit(RLIMIT_CORE, &noCore);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        alarm(limit);
        execl("/proc/self/exe", "scenario", s->name, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while ((got = read(ends[0], trace + length, size - length - 40)) > 0) length += (size_t)got;
    close(ends[0]);
    trace[length] = 0;
    int status = 0;
    waitpid(child, &status, 0);
    const char *space = length ? " " : "";
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) sprintf(trace + length, "%s!hangs", space);
    else if (WIFSIGNALED(status)) sprintf(trace + length, "%s!signal", space);
    else if (WEXITSTATUS(status)) sprintf(trace + length, "%s!exit-%d", space, WEXITSTATUS(status));
}

int main(int count, char **arguments) {
    if (count == 2) return run_one(arguments[1]);
    setenv("SWIFT_BACKTRACE", "enable=no", 0); /* a scenario may be one that dies */
    const char *limit = getenv("RL_TEST_TIMEOUT");
    static char trace[20000];
    int part = 0, parts = 1, number = 0;
    if (count == 4 && strcmp(arguments[1], "--part") == 0) part = atoi(arguments[2]), parts = atoi(arguments[3]);
    for (const Scenario *s = first; s; s = s->next) {
        if (number++ % parts != part) continue;
        collect(s, limit ? (unsigned)atoi(limit) : 60, trace, sizeof trace);
#ifdef SCENARIOS_OVER_CF
        /* On a busy machine CoreFoundation's own thread, which watches sockets, may be late. */
        for (int more = 2; more > 0 && strncmp(s->name, "socket_", 7) == 0 && s->overCF && *s->overCF && strcmp(trace, s->overCF) != 0; more--)
            collect(s, limit ? (unsigned)atoi(limit) : 60, trace, sizeof trace);
#endif
        printf("%s\t%s\t%s\t%s\t%s\t%s\n", s->name, s->rules, s->sentence, s->overCF ? s->overCF : "",
               s->overRL ? s->overRL : "", trace);
        fflush(stdout);
    }
    return 0;
}
